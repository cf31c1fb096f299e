"""Rows filled in by q, and weighted island by island.

Given what a row shows, its islands (:mod:`deltaai.learning.missing_islands`) are independent under
p, and each factor touches one of them at most. With x drawn from q, variable by variable,

    w_I(x) = Π_{factors that touch I} φ(x) / Π_{v in I} q(x_v | what came before),

    E_q[ f(x_I) w_I(x) ] = Σ_{x_I} f(x_I) Π_{factors that touch I} φ(x),

because the conditionals of all other variables sum to one, whatever q lets them see. So the mean
of w_I estimates the part of the island in the likelihood, and weights divided by their sum over
the fillings of a row give expectations within the island:

    log Z(row) = Σ_{factors that are known} log φ + Σ_I log mean_i w_I(x_i).

A row with fifty islands of even weights has uneven weights as a whole. A logarithm of a mean is too
low by half its squared relative error, σ_I² = Var(w_I) / (K mean(w_I)²) for K fillings; that is
added, and is counted as an error too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.models import FactorGraph, FactorGroup


@dataclass(frozen=True, eq=False)
class RowEstimate:
    """Estimated log Z of rows, one entry each.

    Parameters
    ----------
    log_partition : of the states that agree with the row.
    variance : squared error of it.
    correction : what was added for the logarithm of a mean.
    """

    log_partition: Float64[Tensor, "row"]
    variance: Float64[Tensor, "row"]
    correction: Float64[Tensor, "row"]

    @classmethod
    def joined(cls, parts: Sequence[RowEstimate]) -> RowEstimate:
        """Estimates of several sets of rows, one after the other."""
        return cls(
            torch.cat([part.log_partition for part in parts]),
            torch.cat([part.variance for part in parts]),
            torch.cat([part.correction for part in parts]),
        )

    def cpu(self) -> RowEstimate:
        """The same on the CPU."""
        return RowEstimate(self.log_partition.cpu(), self.variance.cpu(), self.correction.cpu())

    def mean_error(self, weights: Float64[Tensor, "row"]) -> float:
        """Error of the mean over rows with weights: noise averages out, corrections add up."""
        share = weights / weights.sum()
        noise = float((share.square() * self.variance).sum()) ** 0.5
        return math.hypot(noise, float((share * self.correction).sum()))


@dataclass(frozen=True, eq=False)
class Fillings:
    """Rows, each filled in several times.

    Parameters
    ----------
    states : full states.
    labels : the island of each missing cell; the number of variables where a cell is known.
    log_weights : of each island, at its label; the last is that of factors that are known.
    """

    states: Int[Tensor, "row filling var"]
    labels: Int[Tensor, "row var"]
    log_weights: Float64[Tensor, "row filling label"]

    @classmethod
    def of(
        cls,
        model: FactorGraph,
        states: Int[Tensor, "row filling var"],
        log_conditionals: Float64[Tensor, "row filling var"],
        labels: Int[Tensor, "row var"],
    ) -> Fillings:
        """Weigh fillings by a model.

        Parameters
        ----------
        model : p, without parameters, in double.
        log_conditionals : log q of each variable that was drawn, zero of the others.
        """
        num_rows, each, num_variables = states.shape
        shape = (num_rows, each, num_variables + 1)
        weights = torch.zeros(shape, dtype=torch.float64, device=states.device)
        weights.scatter_add_(2, labels[:, None].expand(-1, each, -1), -log_conditionals)
        columns = states.flatten(0, 1).T.contiguous()
        for group in model.groups:
            values = group.log_values(columns).double().T.reshape(num_rows, each, -1)
            places = _labels_of(group, labels)
            weights.scatter_add_(2, places[:, None].expand(-1, each, -1), values)
        return cls(states, labels, weights)

    @cached_property
    def weights(self) -> Float64[Tensor, "row filling label"]:
        """Weights that sum to one over the fillings of a row; zero where none is possible."""
        largest = self.log_weights.amax(1, keepdim=True)
        found = (self.log_weights - largest.where(largest > -torch.inf, 0.0)).exp()
        return found / found.sum(1, keepdim=True).clamp(min=1e-300)

    @cached_property
    def is_island(self) -> torch.Tensor:
        """Whether a label is that of an island of the row."""
        num_rows, _, num_labels = self.log_weights.shape
        shape, device = (num_rows, num_labels), self.labels.device
        found = torch.zeros(shape, dtype=torch.bool, device=device)
        found.scatter_(1, self.labels, value=True)
        found[:, -1] = False
        return found

    @property
    def effective_share(self) -> float:
        """Effective share of the fillings of an island, on average; one if there is none."""
        shares = self.weights.square().sum(1).reciprocal()[self.is_island] / self.states.shape[1]
        return float(shares.mean()) if len(shares) else 1.0

    def estimate(self) -> RowEstimate:
        """Log Z of each row."""
        each = self.states.shape[1]
        log_means = self.log_weights.logsumexp(1) - math.log(each)
        spread = each * self.weights.square().sum(1) - 1  # Var(w) / mean(w)², of the fillings seen
        squares = spread.clamp(min=0) / (each - 1) if each > 1 else spread + torch.inf
        variance = squares.where(self.is_island, 0.0).sum(1)
        return RowEstimate(log_means.sum(1) + variance / 2, variance, variance / 2)

    def weights_of(self, group: FactorGroup) -> Float64[Tensor, "factor sample"]:
        """Weights of all fillings, one after the other, as each factor of a group sees them."""
        num_rows, each, _ = self.states.shape
        places = _labels_of(group, self.labels)[:, None].expand(-1, each, -1)
        return self.weights.gather(2, places).reshape(num_rows * each, -1).T

    def counts(
        self, group: FactorGroup, row_weights: Float64[Tensor, "row"]
    ) -> Float64[Tensor, "factor *states"]:
        """Expected number of rows in each joint state of each factor of a group."""
        num_rows, each, num_variables = self.states.shape
        columns = self.states.reshape(num_rows * each, num_variables).T
        entries = torch.zeros(
            group.num_factors, num_rows * each, dtype=torch.long, device=columns.device
        )
        for place, size in enumerate(group.sizes):
            entries = entries * size + columns[group.scopes[:, place]]
        shares = self.weights_of(group) * row_weights.repeat_interleave(each)
        shape = (group.num_factors, group.table_size)
        found = torch.zeros(shape, dtype=torch.float64, device=columns.device)
        return found.scatter_add_(1, entries, shares).reshape(group.num_factors, *group.sizes)


def _labels_of(group: FactorGroup, labels: Int[Tensor, "row var"]) -> Int[Tensor, "row factor"]:
    """The island that each factor touches: the missing variables of a scope are all in one."""
    if group.arity == 0:
        return labels.new_full((len(labels), group.num_factors), labels.shape[1])
    return labels[:, group.scopes].amin(2)
