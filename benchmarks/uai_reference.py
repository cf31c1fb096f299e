"""Every UAI problem that is affordable, against its reference log10 Z (.PR) and marginals (.MAR).

"To the printed digits" means: our number, rounded to the digits the reference prints, is the
reference, give or take one in the last digit.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from decimal import Decimal
from pathlib import Path

import deltaai
from measure import child, header, load_ours, work


def reference_log10_z(path: Path) -> str:
    return path.read_text().split()[-1]


def reference_marginals(path: Path) -> list[list[str]]:
    """Rows of a .MAR file as printed: the number of variables, then sizes and probabilities."""
    words = path.read_text().split()
    words = words[words.index("MAR") + 1 :] if "MAR" in words else words
    count, at, rows = int(words[0]), 1, []
    for _ in range(count):
        size = int(words[at])
        rows.append(words[at + 1 : at + 1 + size])
        at += 1 + size
    return rows


def digits_off(value: float, printed: str) -> float:
    """Distance in units of the last printed digit."""
    unit = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
    return abs(float((Decimal(value) - Decimal(printed)) / unit))


def solve(folder: Path, name: str, limit: int):
    model = deltaai.read(folder / f"{name}.uai")
    evidence = deltaai.read_evidence(folder / f"{name}.uai.evid", model)
    load_ours()

    def run():
        planned = deltaai.plan(model, evidence, memory_limit=limit)
        if not planned.is_exact:
            return {"width": planned.width, "bytes": planned.predicted_bytes, "refused": True}
        answer = deltaai.query(model, evidence, method="exact", memory_limit=limit)
        log10_z = answer.log_partition / math.log(10)
        found = list(answer.marginals.values())
        off = digits_off(log10_z, reference_log10_z(folder / f"{name}.uai.PR"))
        mar = folder / f"{name}.uai.MAR"
        worst = None
        if mar.exists():
            printed = reference_marginals(mar)
            assert len(printed) == len(found)
            worst = max(
                digits_off(float(p), q)
                for row, reference in zip(found, printed, strict=True)
                for p, q in zip(row, reference, strict=True)
            )
        return {
            "width": planned.width,
            "bytes": planned.predicted_bytes,
            "refused": False,
            "evidence": planned.num_observed,
            "log10_z": log10_z,
            "z_off": off,
            "marginals_off": worst,
        }

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder that holds uai/")
    parser.add_argument("--memory-limit", type=float, default=4, help="GiB")
    parser.add_argument("--problems", nargs="+")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.data_dir / "uai"
    limit = int(options.memory_limit * 2**30)
    if options.child:
        work(lambda: solve(folder, options.child, limit))
        return
    names = options.problems or sorted(json.loads((folder / "index.json").read_text()))
    header(f"UAI problems against their references, {options.memory_limit:g} GiB limit")
    print(
        "| problem | evidence | width | wall, s | predicted, MB | peak, MB | log10 Z | reference "
        "| off, last digits | marginals off, last digits |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    failed = False
    for name in names:
        base = ["--data-dir", str(options.data_dir), "--memory-limit", str(options.memory_limit)]
        done = child([*base, "--child", name])
        if done is None:
            failed = True
            print(f"| {name} | | | failed | | | | | | |", flush=True)
            continue
        row = done["result"]
        printed = reference_log10_z(folder / f"{name}.uai.PR")
        if row["refused"]:
            needed = f"{row['bytes'] / 1e6:.3g}"
            print(f"| {name} | | {row['width']} | refused | {needed} | | | {printed} | | |")
            continue
        off = row["marginals_off"]
        failed |= row["z_off"] > 1 or (off is not None and off > 1)
        print(
            f"| {name} | {row['evidence']} | {row['width']} | {done['wall']:.2f} | "
            f"{row['bytes'] / 1e6:.0f} | {done['memory'] / 1e6:.0f} | {row['log10_z']:.6f} | "
            f"{printed} | {row['z_off']:.2f} | {'none' if off is None else f'{off:.2f}'} |",
            flush=True,
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
