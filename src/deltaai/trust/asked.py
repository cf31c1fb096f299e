"""What is asked for: names of variables, and tuples of names for their joint marginals.

Names are checked against the model, once, and go on as plain texts; that of a vector stands for
those of its coordinates. Nothing is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaai.arguments import checked_items
from deltaai.errors import ConfigError, EvidenceError
from deltaai.exact import refuse_large
from deltaai.models import FactorGraph
from deltaai.trust.estimate import Asked


def asked_names(model: FactorGraph, of: Sequence[Asked] | None) -> list[Asked]:
    """What is asked for, in order and once each; a tuple of names asks for their joint marginal.

    Unknown names are refused.
    """
    if of is None:
        return [variable.name for variable in model.variables]
    example = [of] if isinstance(of, str) else ["rain", "wet"]
    listed = checked_items("of", of, f"names, such as {example}", EvidenceError)
    nodes = dict(model.nodes)
    return list(dict.fromkeys(each for item in listed for each in _asked(model, nodes, item)))


def checked_joints(model: FactorGraph, joints: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Tuples of names, each known and named once."""
    listed = checked_items("joints", joints, "tuples of names", EvidenceError)
    return [
        _joint(model, checked_items("joints", names, "tuples of names", EvidenceError))
        for names in listed
    ]


def joints_of(asked: Sequence[Asked]) -> list[tuple[str, ...]]:
    """The joint marginals among what is asked for."""
    return [item for item in asked if isinstance(item, tuple)]


def refuse_joints(asked: Sequence[Asked], by: str, remedy: str) -> list[str]:
    """Names alone; joint marginals are refused where there is no good way to them."""
    joints = joints_of(asked)
    if joints:
        raise ConfigError(f"{by} gives no joint marginals, such as {joints[0]}: {remedy}")
    return [item for item in asked if isinstance(item, str)]


def _asked(model: FactorGraph, nodes: Mapping[str, tuple[int, ...]], item: Asked) -> list[Asked]:
    if isinstance(item, tuple):
        return [_joint(model, item)]
    if isinstance(item, str) and item in nodes:
        return [model.variables[place].name for place in nodes[item]]
    return [model.variables[model.index(item)].name]


def _joint(model: FactorGraph, item: Sequence[str]) -> tuple[str, ...]:
    numbers = [model.index(name) for name in item]
    names = tuple(model.variables[number].name for number in numbers)
    for number, name in zip(numbers, names, strict=True):
        if model.variables[number].is_real:
            raise EvidenceError(
                f"the joint marginal of {names} would be a table, and {name!r} is real: ask for "
                "each alone; a Gaussian model tells exact(model).covariance(names)"
            )
    if not names or len(set(names)) < len(names):
        raise EvidenceError(f"the joint marginal of {names} needs names, each once")
    refuse_large(model, names)
    return names
