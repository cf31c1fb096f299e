"""Which variable depends on which: given by the user, or the best tree.

A structure is a list of parents for every variable. It comes from edges, a mapping, a model whose
tables are conditional, the word ``independent``, or from the data by Chow and Liu's tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltaai.errors import ConfigError, ModelError, Setting, did_you_mean, one_line, shown
from deltaai.io import describe_cycle, directed_cycle, is_there, read, why_not_bayesian
from deltaai.models import FactorGraph, Variable

CHOW_LIU, INDEPENDENT = "chow-liu", "independent"
Edges = Iterable[tuple[str, str]]
StructureLike = str | Path | FactorGraph | Mapping[str, Sequence[str]] | Edges


@dataclass(frozen=True, eq=False)
class Structure:
    """Parents of variables by name, and the variables themselves where they are known.

    Parameters
    ----------
    parents : of each variable that is named; others have none.
    variables : with their states, if the structure came with them.
    is_tree_wanted : whether the parents are to be found from the data.
    """

    parents: dict[str, tuple[str, ...]]
    variables: dict[str, Variable] | None = None
    is_tree_wanted: bool = False

    def among(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        """Parents of each variable by number; refuses what has no column, and cycles."""
        number = {name: place for place, name in enumerate(names)}
        for name in (*self.parents, *(one for some in self.parents.values() for one in some)):
            if name not in number:
                raise ModelError(
                    f"the structure names {name!r}, which is no column{did_you_mean(name, names)}; "
                    "name it as latent to learn it unseen"
                )
        found = [tuple(number[one] for one in self.parents.get(name, ())) for name in names]
        scopes = [(*some, child) for child, some in enumerate(found)]
        for scope in scopes:
            if len(set(scope)) < len(scope):
                raise ModelError(f"{names[scope[-1]]!r} has a parent twice, or is its own")
        if (cycle := directed_cycle(scopes)) is not None:
            raise ModelError(f"the structure has the cycle {describe_cycle(cycle, names)}")
        return found


def structure_of(structure: StructureLike) -> Structure:
    """Read a structure from what a user gives.

    >>> structure_of([("rain", "wet"), ("sprinkler", "wet")]).parents
    {'wet': ('rain', 'sprinkler')}
    """
    if isinstance(structure, str) and structure == CHOW_LIU:
        return Structure({}, is_tree_wanted=True)
    if isinstance(structure, str) and structure == INDEPENDENT:
        return Structure({})
    if isinstance(structure, str | Path):
        path = Path(structure)
        if isinstance(structure, str) and not path.suffix and not is_there(path):
            words = did_you_mean(structure, (CHOW_LIU, INDEPENDENT))
            raise ConfigError(
                Setting("structure"),
                f" is {structure!r}{words}: give 'chow-liu', 'independent', the file of a Bayesian "
                "network, or edges (parent, child)",
            )
        return _of_model(read(path), str(path))
    if isinstance(structure, FactorGraph):
        return _of_model(structure, "the structure")
    if isinstance(structure, Mapping):
        return Structure({str(child): _names(some) for child, some in structure.items()})
    return _of_edges(structure)


def _names(some: object) -> tuple[str, ...]:
    if isinstance(some, str):
        return (some,)
    if not isinstance(some, Iterable):
        raise ConfigError(Setting("structure"), f" has the parents {shown(some)}: give their names")
    return tuple(str(name) for name in some)


def _of_edges(edges: object) -> Structure:
    if not isinstance(edges, Iterable):
        raise ConfigError(
            Setting("structure"),
            f" is {shown(edges)}: give 'chow-liu', 'independent', a Bayesian network or its file, "
            "or edges (parent, child)",
        )
    parents: dict[str, tuple[str, ...]] = {}
    for edge in edges:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise ConfigError(
                Setting("structure"), f" holds {shown(edge)}: edges are pairs (parent, child)"
            )
        parent, child = (str(end) for end in edge)
        parents[child] = (*parents.get(child, ()), parent)
    return Structure(parents)


def _of_model(model: FactorGraph, where: str) -> Structure:
    reason = why_not_bayesian(model)
    if reason is not None:
        raise ModelError(
            f"{where} is not a Bayesian network: {one_line(reason)}; tables are learned for one"
        )
    names = [variable.name for variable in model.variables]
    scopes = [scope for group in model.groups for scope in group.scopes.tolist()]
    parents = {names[scope[-1]]: tuple(names[v] for v in scope[:-1]) for scope in scopes}
    return Structure(parents, dict(zip(names, model.variables, strict=True)))
