"""The gradients by name.

A new one is one file with a subclass of :class:`~deltaai.learning.likelihood.gradients.Gradient`
and one line here; a user adds one with :func:`register_gradient`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from deltaai.learning.likelihood.chain_gradient import ChainGradient
from deltaai.learning.likelihood.delta_gradient import DeltaGradient
from deltaai.learning.likelihood.exact_gradient import ExactGradient
from deltaai.learning.likelihood.gradients import Gradient, GradientSettings
from deltaai.learning.likelihood.pseudo_likelihood import PseudoLikelihood
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph
from deltaai.registry import add_entry, checked_callable, entry_of

GradientBuilder = Callable[[FactorGraph, LearningRows, GradientSettings], Gradient]

GRADIENTS: dict[str, GradientBuilder] = {
    "exact": ExactGradient,
    "delta": DeltaGradient,
    "gibbs": partial(ChainGradient, kernel="gibbs"),
    "tempering": partial(ChainGradient, kernel="tempering"),
    "pseudo": PseudoLikelihood,
}


def register_gradient(name: str, build: GradientBuilder, *, replace: bool = False) -> None:
    """Make a gradient a choice of ``learn_model(gradient=name)``.

    Parameters
    ----------
    name : what settings and files call it.
    build : gives the gradient for a model, rows and settings; the class itself will mostly do.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of a gradient", build, "(model, rows, settings)")
    add_entry(GRADIENTS, "gradient", name, build, replace=replace)


def build_gradient(
    name: str,
    model: FactorGraph,
    rows: LearningRows,
    settings: GradientSettings | None = None,
) -> Gradient:
    """Set up a gradient: ``"exact"``, ``"delta"``, ``"gibbs"``, ``"tempering"`` or ``"pseudo"``.

    >>> import torch
    >>> from deltaai.models import zoo
    >>> rows = LearningRows(torch.zeros(1, 4, dtype=torch.long))
    >>> build_gradient("exat", zoo.sprinkler(), rows)
    Traceback (most recent call last):
    deltaai.errors.ConfigError: there is no gradient 'exat'; did you mean 'exact'?; one of exact,
    delta, gibbs, tempering, pseudo
    """
    build = entry_of(GRADIENTS, "gradient", name)
    return build(model, rows, GradientSettings() if settings is None else settings)
