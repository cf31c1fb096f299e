"""``deltaai bench uai``: a folder of problems under the rules of a contest, with scores."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from deltaai.cli import show
from deltaai.cli.parts_bar import parts_bar
from deltaai.errors import ConfigError
from deltaai.experiments import Contest, Judged, Rules, run_contest

_HEADER = (
    "problem",
    "status",
    "log Z",
    "log10 Z",
    "off by",
    "worst marginal",
    "PR",
    "MAR",
    "claim",
    "seconds",
)


def run_uai(
    folder: Path,
    out: Path | None,
    *,
    settings: dict[str, Any],
    only_problems: str | None,
    resume: bool,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Answer what has no answer yet, show scores, and say what was written."""
    rules = Rules(**settings)
    if out is None:
        out = Path(f"bench-{folder.resolve().name or 'uai'}")
    if not str(out).isprintable():
        raise ConfigError(f"--out is {str(out)!r}: give a folder with a name that can be printed")
    words = ["deltaai", "bench", "uai"]
    chosen = ["--seconds", f"{rules.seconds:g}", "--memory", f"{int(rules.memory)}"]
    chosen += [] if rules.method == "auto" else ["--method", rules.method]
    chosen += [] if rules.seed == 0 else ["--seed", str(rules.seed)]
    chosen += [] if only_problems is None else ["--only-problems", only_problems]
    names = None if only_problems is None else [name.strip() for name in only_problems.split(",")]
    try:
        with parts_bar() as watch:
            done = run_contest(
                folder,
                out,
                rules,
                names=names,
                resume=resume,
                # Names of folders only: where they stand is no business of the reader.
                command=shlex.join([*words, folder.resolve().name, *chosen]),
                watch=watch,
            )
    except KeyboardInterrupt:
        again = shlex.join([*words, str(folder), *chosen, "--out", str(out), "--resume"])
        show.err.print(
            f"stopped; answers are kept, continue with: {again}", markup=False, soft_wrap=True
        )
        raise
    _show(done, is_json=is_json, is_csv=is_csv)


def _show(done: Contest, *, is_json: bool, is_csv: bool) -> None:
    table, summary = done.files
    if is_json:
        show.as_json([one.row() for one in done.judged])
        return
    if is_csv:
        sys.stdout.write(table.read_text(encoding="utf-8"))
        return
    if show.out.is_terminal:
        show.rows_table(_HEADER, [_cells(one) for one in done.judged], len(done.judged))
        for line in done.totals:
            show.out.print(line, markup=False)
        for one in done.judged:
            if one.reason:
                show.out.print(f"{one.result.name}: {one.reason}", markup=False)
    else:
        sys.stdout.write(summary.read_text(encoding="utf-8"))
    show.out.print(f"\n{show.plural(done.num_run, 'problem')} run, {done.num_kept} already there")
    for path in done.files:
        show.out.print(f"wrote {path}", markup=False, soft_wrap=True)


def _cells(one: Judged) -> list[str]:
    """What a screen has room for."""
    result = one.result
    return [
        result.name,
        result.status or "no answer",
        result.partition_status,
        _written(result.log10_partition, ".6g"),
        _written(one.log10_error, ".1e"),
        _written(one.marginal_error, ".1e"),
        _written(one.partition_score, ".1f"),
        _written(one.marginal_score, ".1f"),
        "" if one.claim in ("none", "unknown") else one.claim,
        f"{result.seconds:.1f}",
    ]


def _written(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
