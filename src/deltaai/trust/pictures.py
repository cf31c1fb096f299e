"""A picture of an answer: a bar for each state of each variable asked for, with its error."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from deltaai.extras import axes_of
from deltaai.trust.estimate import Marginals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_VARIABLES = 25
_ROW_INCHES, _REST_INCHES, _WIDTH_INCHES = 0.22, 0.9, 6.0
_GAP = 0.6  # between variables, in bars
_COLOUR, _DOUBTED = "#0072B2", "#D55E00"
_STANDARD_ERRORS = 1.96  # that an error bar reaches to either side


def plot_marginals(marginals: Marginals, ax: Axes | None = None) -> Any:  # noqa: ANN401
    """Draw probabilities as bars, with 95 % intervals where they are estimates.

    Parameters
    ----------
    marginals : what to draw; of very many variables the first.
    ax : where to draw; a new figure by default.

    Returns
    -------
    The axes.
    """
    places: list[float] = []
    names: list[str] = []
    values: list[float] = []
    errors: list[float] = []
    place = 0.0
    for name, row in islice(marginals.items(), MOST_VARIABLES):
        shown = name if isinstance(name, str) else ", ".join(name)
        labels = marginals.labels(name)
        places += [place + number for number in range(len(labels))]
        names += [f"{shown} = {label}" for label in labels]
        values += row.flatten().tolist()
        errors += np.broadcast_to(marginals.stderr.get(name, 0.0), row.shape).flatten().tolist()
        place += len(labels) + _GAP
    ax = axes_of(ax, _WIDTH_INCHES, _ROW_INCHES * place + _REST_INCHES)
    reach = _STANDARD_ERRORS * np.array(errors)
    has_errors = bool((reach > 0).any())
    colour = _DOUBTED if marginals.status == "untrusted" else _COLOUR
    ax.barh(places, values, color=colour, xerr=reach if has_errors else None)
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability" + ", with 95 % intervals" * has_errors)
    more = len(marginals) - MOST_VARIABLES
    ax.set_title(marginals.status + (f" ({more} more variables)" if more > 0 else ""))
    ax.spines[["top", "right"]].set_visible(False)
    return ax
