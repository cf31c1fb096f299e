"""How fast BIF files are read: deltaai, pyAgrum and pgmpy side by side in one process.

    python benchmarks/reading.py --data-dir DATA --repeats 5

``DATA`` holds a folder ``bif`` with ``*.bif.gz``. The files are unpacked first, because pyAgrum
and pgmpy read plain text only. In every round each reader reads the file once, so a slow moment of
the machine hits all of them. pgmpy needs seconds where the others need a fraction, so it takes
part in one round only, or in none with ``--skip-pgmpy``. A ratio is the other reader's time over
ours in the same round: above 1 we are faster.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # all three readers use one core

from rich.console import Console
from rich.table import Table

import deltaai.io


class Seconds(NamedTuple):
    """One run by the clock on the wall and by the processor's."""

    wall: float
    cpu: float


def readers(skip_pgmpy: bool) -> dict[str, Callable[[str], object]]:
    import pyagrum

    chosen: dict[str, Callable[[str], object]] = {
        "deltaai": deltaai.io.read,
        "pyAgrum": pyagrum.loadBN,
    }
    if not skip_pgmpy:
        from pgmpy.readwrite import BIFReader

        chosen["pgmpy"] = lambda path: BIFReader(path).get_model()
    return chosen


def timed(read: Callable[[str], object], path: Path) -> Seconds | None:
    """Read once; ``None`` if the reader refuses the file."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        read(str(path))
    except Exception:
        return None
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def measure(path: Path, chosen: dict[str, Callable], repeats: int) -> dict[str, list[Seconds]]:
    """Times of each reader, round by round; an empty list if it cannot read the file."""
    times: dict[str, list[Seconds]] = {name: [] for name in chosen}
    for round_number in range(repeats + 1):
        for name, read in chosen.items():
            if name == "pgmpy" and round_number != 1:
                continue
            seconds = timed(read, path)
            # the first round warms caches and imports and is not counted
            if seconds is not None and round_number > 0:
                times[name].append(seconds)
    return times


def spread(values: list[float], form: str) -> str:
    if not values:
        return "cannot read"
    shown = (min(values), statistics.median(values), max(values))
    return " / ".join(form.format(value) for value in shown)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data-dir", type=Path, required=True, help="folder that contains bif/")
    options.add_argument("--repeats", type=int, default=5, help="rounds that are counted")
    options.add_argument("--only", nargs="*", help="names of networks, such as alarm water")
    options.add_argument("--skip-pgmpy", action="store_true")
    chosen_options = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)

    archives = sorted((chosen_options.data_dir / "bif").glob("*.bif.gz"))
    if chosen_options.only:
        archives = [a for a in archives if a.name.split(".")[0] in chosen_options.only]
    if not archives:
        options.error(f"no *.bif.gz to read in {chosen_options.data_dir / 'bif'}")
    chosen = readers(chosen_options.skip_pgmpy)
    table = Table(title="Reading BIF files (min / median / max over rounds)")
    for heading in ("network", "KiB", "reader", "wall seconds", "CPU seconds", "CPU, times ours"):
        table.add_column(heading, justify="left" if heading in {"network", "reader"} else "right")
    with tempfile.TemporaryDirectory() as folder:
        for archive in archives:
            archive_path = Path(folder) / archive.name.removesuffix(".gz")
            archive_path.write_bytes(gzip.decompress(archive.read_bytes()))
        for path in sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_size):
            times = measure(path, chosen, chosen_options.repeats)
            for name, seconds in times.items():
                ratios = [
                    other.cpu / ours.cpu
                    for other, ours in zip(seconds, times["deltaai"], strict=False)
                ]
                is_first = name == "deltaai"
                table.add_row(
                    path.stem if is_first else "",
                    f"{path.stat().st_size / 1024:.0f}" if is_first else "",
                    name,
                    spread([second.wall for second in seconds], "{:.4f}"),
                    spread([second.cpu for second in seconds], "{:.4f}"),
                    spread(ratios, "{:.1f}"),
                    end_section=name == list(chosen)[-1],
                )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
