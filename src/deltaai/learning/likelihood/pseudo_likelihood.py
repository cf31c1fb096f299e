"""Pseudo-likelihood: every variable given all others, in closed form (Besag, 1975).

    surrogate = -(1/N) Σ_rows Σ_u log p(x_u | x_others)

needs neither log Z nor samples, and its maximum converges to the truth as rows are added. It is
another criterion than the likelihood and so gives another answer for the same rows, with a larger
error where variables depend on each other strongly; the others may start from it.

Of incomplete rows, the conditionals of those observed variables count whose neighbours are all
observed. Cells that are missing at random leave that consistent. It fills nothing in.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from deltaai.learning.likelihood.gradients import Gradient, GradientSettings
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph

_MOST_ENTRIES = 2**22  # local scores that are held at once


class PseudoLikelihood(Gradient):
    """The gradient of the mean negative log-pseudo-likelihood."""

    has_value: ClassVar[bool] = True

    def __init__(self, model: FactorGraph, rows: LearningRows, settings: GradientSettings) -> None:
        super().__init__(model, rows, settings)
        edges = torch.tensor(model.markov_graph().edges(), dtype=torch.long, device=model.device)
        self._edges = edges.reshape(-1, 2)

    def surrogate(self, chosen: Int[Tensor, "chosen"]) -> Float[Tensor, ""]:
        """Mean of the sums of all conditionals that the rows tell, with its sign changed."""
        states = self.rows.states[chosen]
        total = log_pseudo_likelihood(self.model, states, self._edges).sum()
        return -total / max(len(chosen), 1)


def log_pseudo_likelihood(
    model: FactorGraph,
    states: Int[Tensor, "row var"],
    edges: Int[Tensor, "edge two"] | None = None,
) -> Float[Tensor, "row"]:
    """Sum of the log-conditionals of each row's variables, given all others.

    Parameters
    ----------
    states : -1 where a cell is missing.
    edges : of the Markov graph, if they are known already.
    """
    if edges is None:
        listed = torch.tensor(model.markov_graph().edges(), dtype=torch.long, device=model.device)
        edges = listed.reshape(-1, 2)
    at_once = max(_MOST_ENTRIES // max(int(model.state_offsets[-1]), 1), 1)
    return torch.cat([_of_some(model, some, edges) for some in torch.split(states, at_once)])


def _of_some(
    model: FactorGraph, states: Int[Tensor, "row var"], edges: Int[Tensor, "edge two"]
) -> Float[Tensor, "row"]:
    is_told = _is_told(states >= 0, edges)
    full = states.clamp(min=0)
    scores = model.local_log_scores(full)
    total = torch.zeros(len(states), dtype=torch.float64, device=model.device)
    for size in torch.unique(model.num_states).tolist():
        members = (model.num_states == size).nonzero().squeeze(1)
        pairs = model.state_offsets[members][:, None] + torch.arange(size, device=model.device)
        log_conditionals = scores[:, pairs].log_softmax(2)
        own = log_conditionals.gather(2, full[:, members, None]).squeeze(2)
        total = total + torch.where(is_told[:, members], own, 0.0).sum(1).double()
    return total


def _is_told(
    observed: Bool[Tensor, "row var"], edges: Int[Tensor, "edge two"]
) -> Bool[Tensor, "row var"]:
    """Variables that are observed together with all of their neighbours."""
    if bool(observed.all()):
        return observed
    missing = (~observed).long()
    near = missing.clone()
    for one, other in ((0, 1), (1, 0)):
        near = near.index_add(1, edges[:, one], missing.index_select(1, edges[:, other]))
    return near == 0
