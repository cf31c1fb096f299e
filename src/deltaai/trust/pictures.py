"""A picture of an answer: bars for states, with their errors; lines for real variables."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from deltaai.errors import ConfigError
from deltaai.extras import axes_of
from deltaai.real_marginals import QUANTILES, RealMarginal
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

    Of real variables it draws where 95 % of each lies, the middle half, and the median.

    Parameters
    ----------
    marginals : what to draw, all of one kind; of very many variables the first.
    ax : where to draw; a new figure by default.

    Returns
    -------
    The axes.
    """
    are_real = {isinstance(value, RealMarginal) for value in marginals.values()}
    if len(are_real) > 1:
        raise ConfigError(
            "probabilities and real variables do not share an axis: ask for one kind, with of, "
            "and draw that"
        )
    ax = _draw_lines(marginals, ax) if True in are_real else _draw_bars(marginals, ax)
    ax.invert_yaxis()
    more = len(marginals) - MOST_VARIABLES
    ax.set_title(marginals.status + (f" ({more} more variables)" if more > 0 else ""))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_bars(marginals: Marginals, ax: Axes | None) -> Any:  # noqa: ANN401
    """A bar for each state of each variable."""
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
    ax.barh(places, values, color=_colour(marginals), xerr=reach if has_errors else None)
    ax.set_yticks(places, names, parse_math=False)
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability" + ", with 95 % intervals" * has_errors)
    return ax


def _draw_lines(marginals: Marginals, ax: Axes | None) -> Any:  # noqa: ANN401
    """A thin line over 95 % of each real variable, a thick one over its middle half, a dot."""
    shown = list(islice(marginals.items(), MOST_VARIABLES))
    places = list(range(len(shown)))
    low, lower, middle, upper, high = np.array(
        [value.quantile(np.array(QUANTILES)) for _, value in shown]
    ).T
    ax = axes_of(ax, _WIDTH_INCHES, _ROW_INCHES * len(shown) + _REST_INCHES)
    colour = _colour(marginals)
    ax.hlines(places, low, high, color=colour, linewidth=1.2)
    ax.hlines(places, lower, upper, color=colour, linewidth=4.0)
    ax.plot(middle, places, "o", color="white", markeredgecolor=colour, markersize=5)
    ax.set_yticks(places, [str(name) for name, _ in shown], parse_math=False)
    ax.set_xlabel("value: median, middle half and 95 %")
    return ax


def _colour(marginals: Marginals) -> str:
    return _DOUBTED if marginals.status == "untrusted" else _COLOUR
