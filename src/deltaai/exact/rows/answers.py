"""What is said of many rows of evidence at once."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """Answers for rows of evidence.

    Parameters
    ----------
    log_partition : log Z of each row's evidence, -inf where it is impossible.
    marginals : probability of each (variable, state) pair, laid out as ``model.state_offsets``
        says; NaN where the evidence is impossible.
    is_in_log_space : rows that were answered one by one because the fast way could not be trusted.
    """

    log_partition: Float64[Tensor, "row"]
    marginals: Float64[Tensor, "row pair"]
    is_in_log_space: Bool[Tensor, "row"]


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected counts of the joint states of every factor's scope.

    Parameters
    ----------
    log_partition : log Z of each row's evidence, -inf where it is impossible; such a row is in no
        count.
    by_group : one table for each factor of each group of the model, summed over the rows.
    """

    log_partition: Float64[Tensor, "row"]
    by_group: tuple[Float64[Tensor, "..."], ...]
