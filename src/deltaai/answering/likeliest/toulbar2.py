"""A most likely state by toulbar2, which proves that nothing is better where it has the time.

It minimises a sum of cost functions, here -log φ, in decimal numbers of so many digits: what it
proves is right up to the rounding of all tables together, which is part of the bound.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from typing import Any

import torch

from deltaai.answering.likeliest.search import Found
from deltaai.budget import Budget
from deltaai.errors import DeltaAIError, NotAffordableError, TimeLimitError, one_line
from deltaai.extras import extra
from deltaai.models import FactorGraph

_MOST_DIGITS, _LARGEST_COST = 9, 1e15  # its costs are whole numbers of 64 bits inside
_BYTES_PER_ENTRY = 400  # in this process as text, and in the other one
_TO_END = 3.0  # seconds for it to stop and to tell what it has


def solved(model: FactorGraph, budget: Budget) -> Found:
    """The best state that toulbar2 finds within the time, and what it has proven.

    Raises
    ------
    NotAffordableError
        If there was no time for any state, or the tables are too large.
    """
    extra("pytoulbar2", "toulbar2", "proofs of the most likely state")
    entries = sum(
        group.num_factors * math.prod(group.sizes) for group in model.groups if group.arity
    )
    budget.refuse("toulbar2", _BYTES_PER_ENTRY * entries, "choose method 'search'")
    functions, constant, size = [], 0.0, 1.0
    for group in model.groups:
        tables = -group.log_tables().double()
        if not group.arity:
            constant -= float(tables.sum())
            continue
        finite = tables[tables.isfinite()]
        size += float(finite.abs().amax() if len(finite) else 0.0) * group.num_factors
        for scope, table in zip(group.scopes.tolist(), tables.flatten(1).tolist(), strict=True):
            costs = [None if cost == math.inf else cost for cost in table]
            functions.append((scope, costs))
    digits = max(min(_MOST_DIGITS, int(math.log10(_LARGEST_COST / size))), 0)
    seconds = budget.seconds_left
    problem = {
        "sizes": model.num_states.tolist(),
        "functions": functions,
        "digits": digits,
        "seconds": 0 if seconds == math.inf else math.ceil(seconds),
    }
    answer = _asked(problem, seconds, budget)
    if answer["state"] is None:
        raise NotAffordableError("toulbar2 found no state in the time: raise the limit")
    state = torch.tensor(answer["state"], dtype=torch.long, device="cpu")
    log_score = float(model.log_score(state[None]).double())
    rounding = len(functions) * 10.0**-digits
    upper = constant - float(answer["bound"]) + rounding
    return Found(state, log_score, max(upper, log_score))


def _asked(problem: dict[str, object], seconds: float, budget: Budget) -> dict[str, Any]:
    """What the other process says; at the end of the time it is told to stop and tell."""
    child = subprocess.Popen(
        [sys.executable, "-m", "deltaai.answering.likeliest.toulbar2_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        limit = None if seconds == math.inf else max(seconds - _TO_END, seconds / 2)
        try:
            out, said = child.communicate(json.dumps(problem), timeout=limit)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGVTALRM)  # the one by which its own timer stops it
            out, said = child.communicate(timeout=_TO_END)
    except subprocess.TimeoutExpired:
        raise TimeLimitError("the answer of toulbar2", budget.time_limit or 0.0) from None
    finally:
        child.kill()
        child.wait()
    if child.returncode != 0:
        lines = said.strip().splitlines() or ["it said nothing"]
        raise DeltaAIError(f"toulbar2 ended with code {child.returncode}: {one_line(lines[-1])}")
    found: dict[str, Any] = json.loads(out)
    return found
