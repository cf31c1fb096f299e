"""A most likely state: what exact inference of every kind gives for it."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Num
from torch import Tensor

from deltaai.models import FactorGraph


class MostLikely(NamedTuple):
    """A most likely state: labels and numbers by name, the same as a row, and its log score."""

    labels: dict[str, str | float]
    state: Num[Tensor, "var"]
    log_score: float

    @classmethod
    def of(cls, model: FactorGraph, state: Num[Tensor, "var"], log_score: float) -> MostLikely:
        """Label a state."""
        values = zip(model.variables, state.tolist(), strict=True)
        labels = {v.name: x if v.is_real else v.states[int(x)] for v, x in values}
        return cls(labels, state, log_score)
