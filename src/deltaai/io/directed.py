"""Whether conditional tables form a Bayesian network: one a variable, and no cycle.

The formats and libraries that hold Bayesian networks demand it, and without it a product of
conditional tables is not a distribution. A scope lists the parents and then the child. That the
rows sum to one is a question of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltaai.models import ConditionalTableGroup, FactorGraph

Scopes = Sequence[Sequence[int]]

# Rows of published networks are rounded to two to four digits.
_ROUNDING = 0.01


def repeated_child(scopes: Scopes) -> int | None:
    """Find a table whose child already has one; return its place in the list."""
    seen: set[int] = set()
    for place, scope in enumerate(scopes):
        if scope[-1] in seen:
            return place
        seen.add(scope[-1])
    return None


def missing_child(num_variables: int, scopes: Scopes) -> int | None:
    """Find a variable that is the child of no table."""
    children = {scope[-1] for scope in scopes}
    return next((v for v in range(num_variables) if v not in children), None)


def directed_cycle(scopes: Scopes) -> list[int] | None:
    """Find variables each of which is a parent of the next, the last of the first.

    >>> directed_cycle([(0, 1), (2, 0), (1, 2), (1, 3)])
    [0, 1, 2]
    """
    parents = {scope[-1]: tuple(scope[:-1]) for scope in scopes}
    children: dict[int, list[int]] = {}
    for child, known in parents.items():
        for parent in known:
            children.setdefault(parent, []).append(child)
    num_waiting = {child: len(known) for child, known in parents.items()}
    ready = [v for v in sorted({*parents, *children}) if num_waiting.get(v, 0) == 0]
    while ready:
        for child in children.get(ready.pop(), ()):
            num_waiting[child] -= 1
            if num_waiting[child] == 0:
                ready.append(child)
    stuck = {child for child, number in num_waiting.items() if number > 0}
    if not stuck:
        return None
    # Every stuck variable has a stuck parent, so walking upwards must come round.
    walk, place = [min(stuck)], {min(stuck): 0}
    while (parent := next(p for p in parents[walk[-1]] if p in stuck)) not in place:
        place[parent] = len(walk)
        walk.append(parent)
    cycle = walk[place[parent] :][::-1]
    smallest = cycle.index(min(cycle))
    return cycle[smallest:] + cycle[:smallest]


def describe_cycle(cycle: Sequence[int], names: Sequence[str]) -> str:
    """Write a cycle for people, and not all of it when it is long.

    >>> describe_cycle([0, 2], ["rain", "wet", "slippery"])
    'rain -> slippery -> rain'
    """
    shown = [names[v] for v in cycle[:8]] + (["..."] if len(cycle) > 8 else [])
    return " -> ".join([*shown, names[cycle[0]]])


def why_not_bayesian(model: FactorGraph) -> str | None:
    """Say why a model is not a Bayesian network, or return ``None`` if it is one."""
    names = [variable.name for variable in model.variables]
    for group in model.groups:
        if not isinstance(group, ConditionalTableGroup):
            scope = ", ".join(names[v] for v in group.scopes[0].tolist())
            return f"the factor over ({scope}) is not a ConditionalTable"
    scopes = [scope for group in model.groups for scope in group.scopes.tolist()]
    if (place := repeated_child(scopes)) is not None:
        return f"two factors are conditional tables of {names[scopes[place][-1]]!r}"
    if (variable := missing_child(len(names), scopes)) is not None:
        return f"no factor is the conditional table of {names[variable]!r}"
    if (cycle := directed_cycle(scopes)) is not None:
        return f"it has the cycle {describe_cycle(cycle, names)}"
    return None


def is_normalised(model: FactorGraph) -> bool:
    """Whether every row of every table sums to one, but for rounding to a few digits."""
    return all(
        bool(((group.log_tables().detach().exp().sum(-1) - 1).abs() < _ROUNDING).all())
        for group in model.groups
    )
