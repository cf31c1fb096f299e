"""Packages that only some users have: imported when needed, one clear line when missing."""

from __future__ import annotations

import importlib
from typing import Any

from deltaai.arguments import checked_object
from deltaai.errors import DeltaAIError


def extra(module: str, name: str, what: str) -> Any:  # noqa: ANN401
    """Import a module that comes with an extra of this package.

    Parameters
    ----------
    module : the module.
    name : the extra that installs it.
    what : what it is needed for, in the plural.

    Examples
    --------
    >>> extra("no_such_module", "tables", "tables")
    Traceback (most recent call last):
    ...
    deltaai.errors.DeltaAIError: tables need no_such_module: pip install 'deltaai[tables]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise DeltaAIError(f"{what} need {package}: pip install 'deltaai[{name}]'") from None


def axes_of(ax: Any, width: float, height: float) -> Any:  # noqa: ANN401
    """Where to draw: the axes of matplotlib that a user gave, or those of a new figure.

    Parameters
    ----------
    width, height : of a new figure, in inches.
    """
    pyplot = extra("matplotlib.pyplot", "plots", "plots")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return checked_object("ax", ax, pyplot.Axes, "take that of pyplot.subplots, or leave it out")
