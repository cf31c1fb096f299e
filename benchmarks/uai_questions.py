"""Every UAI problem as a user asks it: one call, a memory limit, a time limit, and the truth.

A problem is answered by whatever the plan says (``--method auto``), or with the exact engine
switched off (``--method sampler``). The answer counts unless its status is `untrusted`; its log10 Z
is compared with the reference (.PR), its marginals with theirs (.MAR).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import deltaai
from measure import child, header, load_ours, work
from uai_reference import reference_log10_z, reference_marginals

WITHIN_LOG10_Z, WITHIN_MARGINAL = 0.1, 0.02


def ask(folder, name, method, limit, seconds):
    model = deltaai.read(folder / f"{name}.uai")
    evidence = deltaai.read_evidence(folder / f"{name}.uai.evid", model)
    load_ours()

    def run():
        try:
            answer = deltaai.query(
                model, evidence, method=method, memory_limit=limit, time_limit=seconds
            )
        except deltaai.NotAffordableError as refused:
            return {"refused": str(refused)}
        log10_z = answer.log_partition / math.log(10)
        truth = float(reference_log10_z(folder / f"{name}.uai.PR"))
        worst = None
        if (folder / f"{name}.uai.MAR").exists():
            rows = reference_marginals(folder / f"{name}.uai.MAR")
            worst = max(
                float(np.abs(found - np.array(row, dtype=float)).max())
                for found, row in zip(answer.marginals.values(), rows, strict=True)
            )
        bracket = answer.bracket and [bound / math.log(10) for bound in answer.bracket]
        return {
            "method": answer.method,
            "status": answer.status,
            "log_z_status": answer.partition.status,
            "log10_z": log10_z,
            "stderr": answer.stderr / math.log(10),
            "bracket": bracket,
            "off": abs(log10_z - truth),
            "marginals_off": worst,
            "doubts": list(answer.doubts),
        }

    return run


def verdict(result):
    """Whether what was claimed is so."""
    if "refused" in result:
        return "refused"
    is_right = result["log_z_status"] == "untrusted" or result["off"] <= WITHIN_LOG10_Z
    marginals = result["marginals_off"]
    if result["status"] != "untrusted" and marginals is not None:
        is_right = is_right and marginals <= WITHIN_MARGINAL
    return "holds" if is_right else "**wrong**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder that holds uai/")
    parser.add_argument("--memory-limit", type=float, default=2, help="GiB")
    parser.add_argument("--time-limit", type=float, default=600, help="seconds")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--problems", nargs="+")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.data_dir / "uai"
    limit = int(options.memory_limit * 2**30)
    if options.child:
        work(lambda: ask(folder, options.child, options.method, limit, options.time_limit))
        return
    header(
        f"UAI problems as questions, {options.memory_limit:g} GiB, {options.time_limit:g} s, "
        f"method {options.method}"
    )
    print(
        "| problem | status: marginals, log Z | log10 Z off by | marginals off by | bracket of ",
        end="",
    )
    print("log10 Z | seconds | peak memory | claim |")
    print("|---|---|---|---|---|---|---|---|")
    doubts = []
    names = options.problems or sorted(path.stem for path in folder.glob("*.uai"))
    for name in names:
        arguments = [
            "--data-dir",
            str(options.data_dir),
            "--child",
            name,
            "--method",
            options.method,
        ]
        arguments += ["--memory-limit", str(options.memory_limit)]
        arguments += ["--time-limit", str(options.time_limit)]
        done = child(arguments, timeout=2 * options.time_limit)
        if done is None:
            print(f"| {name} | no answer in {2 * options.time_limit:g} s | | | | | | **failed** |")
            continue
        found = done["result"]
        rest = f"{done['wall']:.1f} | {done['memory'] / 2**20:.0f} MiB | {verdict(found)} |"
        if "refused" in found:
            print(f"| {name} | refused | | | | {rest}", flush=True)
            doubts.append(f"{name}: {found['refused']}")
            continue
        marginals = "" if found["marginals_off"] is None else f"{found['marginals_off']:.1e}"
        bracket = found["bracket"]
        between = "" if bracket is None else f"{bracket[0]:.3f} to {bracket[1]:.3f}"
        print(
            f"| {name} | {found['status']}, {found['log_z_status']} | {found['off']:.1e} "
            f"| {marginals} | {between} | {rest}",
            flush=True,
        )
        doubts += [f"{name}: {doubt}" for doubt in found["doubts"]]
    print()
    for doubt in doubts:
        print(f"- {doubt}")


if __name__ == "__main__":
    main()
