"""Which variable depends on which: given by the user, or the best tree.

A directed structure is a list of parents for every variable. It comes from edges, a mapping, a
model whose tables are conditional, the word ``independent``, or from the data by Chow and Liu's
tree. One without directions is a list of scopes: those of any other model, or the neighbours in a
grid of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deltaai.arguments import checked_items
from deltaai.errors import ConfigError, ModelError, Setting, did_you_mean, shown
from deltaai.io import (
    describe_cycle,
    directed_cycle,
    example,
    is_there,
    read,
    why_not_bayesian,
)
from deltaai.models import FactorGraph, Variable

_GRID = re.compile(r"grid[ :]?(\d{1,4})\s*x\s*(\d{1,4})", re.IGNORECASE)
CHOW_LIU, INDEPENDENT = "chow-liu", "independent"
Edges = Iterable[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Structure:
    """Parents of variables by name, and the variables themselves where they are known.

    Parameters
    ----------
    parents : of each variable that is named; others have none.
    variables : with their states, if the structure came with them.
    is_tree_wanted : whether the parents are to be found from the data.
    scopes : variables that have a factor together, of a structure without directions.
    grid : rows and columns of the grid that the columns form, in their order, if they do.
    name : what to call it in a report.
    """

    parents: dict[str, tuple[str, ...]]
    variables: dict[str, Variable] | None = None
    is_tree_wanted: bool = False
    scopes: tuple[tuple[str, ...], ...] = ()
    grid: tuple[int, int] | None = None
    name: str = "as given"

    @property
    def is_directed(self) -> bool:
        """Whether variables have parents."""
        return not self.scopes and self.grid is None

    @property
    def named(self) -> list[str]:
        """Variables that edges or scopes name."""
        families = [(child, *some) for child, some in self.parents.items()]
        return list(dict.fromkeys(name for some in (*families, *self.scopes) for name in some))

    def scopes_among(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Scopes of factors: those of a structure without directions, and each variable alone."""
        found = list(self.scopes)
        if self.grid is not None:
            height, width = self.grid
            if height * width != len(names):
                raise ModelError(
                    f"a grid of {height} x {width} has {height * width} variables, and the data "
                    f"have {len(names)} columns"
                )
            for place, name in enumerate(names):
                if (place + 1) % width:
                    found.append((name, names[place + 1]))
                if place + width < len(names):
                    found.append((name, names[place + width]))
        alone = {scope[0] for scope in found if len(scope) == 1}
        return [(name,) for name in names if name not in alone] + found

    def among(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        """Parents of each variable by number; refuses what has no column, and cycles."""
        number = {name: place for place, name in enumerate(names)}
        for name in self.named:
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


StructureLike = str | Path | FactorGraph | Structure | Mapping[str, Sequence[str]] | Edges


def structure_of(structure: StructureLike) -> Structure:
    """Read a structure from what a user gives.

    >>> structure_of([("rain", "wet"), ("sprinkler", "wet")]).parents
    {'wet': ('rain', 'sprinkler')}
    """
    if isinstance(structure, Structure):
        return structure
    if isinstance(structure, str):
        return replace(_of_text(structure), name=structure)
    if isinstance(structure, Path):
        return _of_model(read(structure))
    if isinstance(structure, FactorGraph):
        return _of_model(structure)
    if isinstance(structure, Mapping):
        return Structure({_name(child): _names(some) for child, some in structure.items()})
    return _of_edges(structure)


def _of_text(text: str) -> Structure:
    """A word that says how, or the path of a file."""
    if text == CHOW_LIU:
        return Structure({}, is_tree_wanted=True)
    if text == INDEPENDENT:
        return Structure({})
    if grid := _GRID.fullmatch(text.strip()):
        return Structure({}, grid=(int(grid[1]), int(grid[2])))
    path = Path(text)
    if not path.suffix and not is_there(path) and text not in example():
        raise ConfigError(
            Setting("structure"),
            f" is {text!r}{did_you_mean(text, (CHOW_LIU, INDEPENDENT))}: give 'chow-liu', "
            "'independent', 'grid 4x5', the file of a model, or edges (parent, child)",
        )
    return _of_model(read(path))


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(Setting("structure"), f" names {shown(value)}: names are texts")
    return str(value)


def _names(some: object) -> tuple[str, ...]:
    if isinstance(some, str):
        return (_name(some),)
    return tuple(_name(one) for one in checked_items("structure", some, "parents by their names"))


def _of_edges(edges: object) -> Structure:
    what = "edges (parent, child), or 'chow-liu', 'independent', 'grid 4x5', a model or its file"
    parents: dict[str, tuple[str, ...]] = {}
    for edge in checked_items("structure", edges, what):
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise ConfigError(
                Setting("structure"), f" holds {shown(edge)}: edges are pairs (parent, child)"
            )
        parent, child = (_name(end) for end in edge)
        parents[child] = (*parents.get(child, ()), parent)
    return Structure(parents)


def _of_model(model: FactorGraph) -> Structure:
    names = [variable.name for variable in model.variables]
    variables = dict(zip(names, model.variables, strict=True))
    numbered = [scope for group in model.groups for scope in group.scopes.tolist()]
    scopes = [tuple(names[v] for v in scope) for scope in numbered]
    if why_not_bayesian(model) is None:
        return Structure({scope[-1]: scope[:-1] for scope in scopes}, variables)
    return Structure({}, variables, scopes=tuple(sorted({s for s in scopes if s})))
