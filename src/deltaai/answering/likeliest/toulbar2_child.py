"""Solves one problem with toulbar2, in a process of its own: JSON in, JSON out.

A solver of its own process can be stopped, may fail, and keeps its global state and what it prints
to itself. Nothing of this package is imported here.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Read a problem from standard input, solve it, and write what was found."""
    problem: dict[str, Any] = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)  # what the solver prints is no answer
    import pytoulbar2  # noqa: PLC0415  where its messages go is settled first

    network = pytoulbar2.CFN(resolution=problem["digits"], verbose=-1)
    for number, size in enumerate(problem["sizes"]):
        network.AddVariable(f"x{number}", range(size))
    for scope, costs in problem["functions"]:
        network.AddFunction(scope, [float("inf") if cost is None else cost for cost in costs])
    found = network.Solve(timeLimit=problem["seconds"])
    state = list(found[0]) if found is not None else None
    if state is None:
        solutions = network.GetSolutions()
        state = list(solutions[-1][1]) if solutions else None
    answer = {"state": state, "bound": float(network.GetDDualBound())}
    with os.fdopen(out, "w") as stream:
        json.dump(answer, stream)


if __name__ == "__main__":
    main()
