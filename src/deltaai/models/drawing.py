"""A picture of a model: its variables, joined where they share a factor.

A Bayesian network is drawn from causes down to effects, with arrows: a variable stands one level
below the lowest of its parents, and levels are sorted so that arrows are short. Any other model is
drawn so that distances on paper are like distances in the graph (classical scaling of shortest
paths), which unfolds lattices, ladders and rings. This file draws; it infers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deltaai.errors import ModelError
from deltaai.extras import axes_of
from deltaai.models.factors import ConditionalTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from deltaai.models.factor_graph import FactorGraph

MOST_VARIABLES = 2000
_MOST_NAMED = 40  # with more, names would lie on each other
_SWEEPS = 8  # over the levels, to shorten arrows
_INCHES = (7.0, 5.0)
_COLOUR, _LINE = "#0072B2", "#999999"


def draw_model(model: FactorGraph, ax: Axes | None = None) -> Any:  # noqa: ANN401
    """Draw a model; see :meth:`deltaai.models.FactorGraph.plot`."""
    if not 0 < model.num_variables <= MOST_VARIABLES:
        raise ModelError(
            f"the model has {model.num_variables} variables, and 1 to {MOST_VARIABLES} can be "
            "drawn: condition it on evidence, or draw a part of it"
        )
    ax = axes_of(ax, *_INCHES)
    edges = model.markov_graph().edges()
    parents = _parents(model)
    if parents is None:
        places = _unfolded(model.num_variables, edges)
    else:
        places = _levelled(parents)
        edges = np.array([(u, v) for v, some in enumerate(parents) for u in some]).reshape(-1, 2)
    is_named = model.num_variables <= _MOST_NAMED
    if parents is None:
        lines = places[edges].transpose(1, 0, 2)
        ax.plot(*lines.transpose(2, 0, 1), color=_LINE, linewidth=1, zorder=1)
    else:
        arrow = {"arrowstyle": "-|>", "color": _LINE, "shrinkA": 14, "shrinkB": 14}
        for cause, effect in edges.tolist():
            ax.annotate("", places[effect], places[cause], arrowprops=arrow)
    if is_named:
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": _COLOUR}
        for variable, (across, down) in zip(model.variables, places.tolist(), strict=True):
            name = ax.text(
                across, down, variable.name, ha="center", va="center", bbox=box, zorder=2
            )
            name.set_parse_math(False)
    size = 0 if is_named else 4000 / model.num_variables
    columns = places.T
    ax.scatter(
        columns[0], columns[1], s=min(size, 60), color=_COLOUR, zorder=2
    )  # also sets the limits
    ax.margins(0.12)
    ax.set_axis_off()
    ax.set_title(f"{model.num_variables} variables, {model.num_factors} factors")
    return ax


def _parents(model: FactorGraph) -> list[tuple[int, ...]] | None:
    """Parents of each variable, if the model is a Bayesian network."""
    found: dict[int, tuple[int, ...]] = {}
    for factor in model.factors:
        if not isinstance(factor, ConditionalTable) or model.index(factor.child) in found:
            return None
        found[model.index(factor.child)] = tuple(model.index(name) for name in factor.parents)
    if len(found) < model.num_variables:
        return None
    return [found[variable] for variable in range(model.num_variables)]


def _levelled(parents: list[tuple[int, ...]]) -> np.ndarray:
    """Places by level, each level spread evenly and sorted by where its neighbours are."""
    level = [0] * len(parents)
    for _ in parents:  # as often as the longest chain may need
        before = list(level)
        level = [1 + max((level[u] for u in some), default=-1) for some in parents]
        if level == before:
            break
    neighbours: list[list[int]] = [list(some) for some in parents]
    for variable, some in enumerate(parents):
        for parent in some:
            neighbours[parent].append(variable)
    rows = [[v for v, at in enumerate(level) if at == number] for number in range(max(level) + 1)]
    across = np.zeros(len(parents))
    for sweep in range(_SWEEPS + 1):
        for row in rows:
            if sweep:
                row.sort(key=lambda v: np.mean(across[neighbours[v]]) if neighbours[v] else 0.0)
            across[row] = np.arange(len(row)) - (len(row) - 1) / 2
    return np.stack([across, -np.array(level, dtype=float)], axis=1)


def _unfolded(num_variables: int, edges: np.ndarray) -> np.ndarray:
    """Places whose distances are like shortest paths; parts that are not joined stand apart."""
    from scipy.sparse import coo_array  # noqa: PLC0415  only pictures need it
    from scipy.sparse.csgraph import shortest_path  # noqa: PLC0415

    shape = (num_variables, num_variables)
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=shape).tocsr()
    distance = shortest_path(graph, directed=False, unweighted=True)
    is_joined = np.isfinite(distance)
    distance[~is_joined] = 2 + distance[is_joined].max()
    square = distance**2
    centred = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    places: np.ndarray = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 1e-9))
    if places.shape[1] < 2:  # a single variable
        places = np.zeros((num_variables, 2))
    return places
