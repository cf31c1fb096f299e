"""Recovery of an Ising model from rows: the truth, rows of it, and how near couplings come.

The task of Gibbs-with-gradients (Grathwohl et al., 2021) and of energy-based GFlowNets (Zhang et
al., 2022): a torus with p(x) ∝ exp(xᵀ J x) over spins, J = sigma times the adjacency matrix, and
2000 rows. J is symmetric, so xᵀ J x counts every edge twice, and the coupling of an edge is 2
sigma. The figure is theirs,

    -log RMSE(J),   RMSE² = 1/n² Σ_ij (J_ij - Ĵ_ij)²

over **all** n² entries of the matrix, the diagonal and the pairs that are no edges included. With a
known structure these are zero in both, so that of the 10,000 entries of a 10 x 10 torus 400 can be
wrong: the error of an edge is 5 times the RMSE. An estimate of zero everywhere has -log(sigma / 5).

No unbiased estimate that knows the edges and takes every coupling for itself can do better, on
average over rows, than the bound of Cramér and Rao (:func:`lowest_rmse`). Estimates that pull
couplings together can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from deltaai.exact import ExactInference, RowInference
from deltaai.learning import learn_model, learnable, log_pseudo_likelihood
from deltaai.models import FactorGraph, SpinGroup, States, Variable, zoo

# As far as known: -log RMSE(J) at sigma .1 to .5, all pairs learned, with a penalty on their sizes.
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5)
PUBLISHED = {
    "Gibbs with gradients (published)": (4.8, 4.7, 3.4, 2.6, 2.3),
    "EB-GFN (published)": (6.1, 5.1, 3.3, 2.6, 2.3),
}
# Strengths of priors on the pseudo-likelihood, which has every coupling in two conditionals: of a
# penalty on sizes, and of one on squared distances from the mean coupling.
PENALTIES = (0.2, 0.1, 0.05, 0.025, 0.0125)
SHARED_STRENGTHS = (100.0, 10.0, 1.0, 0.1, 0.01)
HELD_OUT = 0.2


def spins(pairs: Int[Tensor, "pair 2"], strengths: Float64[Tensor, "pair"]) -> FactorGraph:
    """Spins with couplings between some pairs, as many as the largest number in a pair says."""
    count = int(pairs.max()) + 1
    ids = torch.arange(len(pairs), device="cpu")
    variables = [Variable(f"x{v}") for v in range(count)]
    return FactorGraph.from_groups(variables, [SpinGroup(ids, pairs, strengths)])


def torus_edges(side: int) -> Int[Tensor, "edge 2"]:
    """Pairs of neighbours on a square lattice whose opposite borders meet."""
    return zoo.ising_torus(side, sigma=1.0, seed=0).groups[0].scopes


def all_pairs(side: int) -> Int[Tensor, "pair 2"]:
    """All pairs of variables."""
    return torch.combinations(torch.arange(side**2, device="cpu"))


def with_strength(pairs: Int[Tensor, "pair 2"], strength: float | int) -> FactorGraph:
    """All pairs coupled alike."""
    return spins(pairs, torch.full((len(pairs),), strength, dtype=torch.float64, device="cpu"))


def exact_rows(side: int, sigma: float | int, count: int, seed: int) -> States:
    """Rows drawn exactly from the truth."""
    truth = with_strength(torus_edges(side), 2 * sigma)
    elimination = RowInference(truth).elimination
    return ExactInference(truth, elimination=elimination).sample(count, seed)


def score(model: FactorGraph, side: int, sigma: float | int) -> float:
    """-log RMSE(J) over all entries of the matrix; an edge is there as J_ij and as J_ji.

    >>> round(score(with_strength(torus_edges(10), 0.0), 10, 0.1), 2)
    3.91
    """
    error = _matrix(model) / 2 - sigma * (_matrix(with_strength(torus_edges(side), 1.0)) > 0)
    return -0.5 * math.log(float(error.square().mean()))


def _matrix(model: FactorGraph) -> Float64[Tensor, "var var"]:
    """Couplings of all ordered pairs."""
    (group,) = model.groups
    assert isinstance(group, SpinGroup)
    count = model.num_variables
    found = torch.zeros(count, count, dtype=torch.float64, device="cpu")
    first, second = group.scopes.T
    found[first, second] = group.strengths.detach().double()
    return found + found.T


def lowest_rmse(side: int, sigma: float | int, count: int, num_states: int, seed: int) -> float:
    """Root of the lowest mean square of RMSE(J) that unbiased estimates of the edges can have.

    The inverse of N times the covariance of s_u s_v over all edges, from exact draws.
    """
    states, edges = exact_rows(side, sigma, num_states, seed), torus_edges(side)
    signs = 2.0 * states.double() - 1.0
    information = torch.cov((signs[:, edges[:, 0]] * signs[:, edges[:, 1]]).T)
    variance = torch.linalg.inv(information).diagonal() / count  # of couplings, which are 2 J
    return math.sqrt(2 * float(variance.sum()) / 4 / side**4)


@dataclass(frozen=True)
class Prior:
    """A prior on couplings, as settings of ``learn_model``, and the strengths that are tried.

    Parameters
    ----------
    name : which setting has the strength.
    strengths : for the pseudo-likelihood, the strongest first.
    others : settings that go with it.
    """

    name: str
    strengths: tuple[float, ...]
    others: Mapping[str, str] = field(default_factory=dict)

    def settings(self, strength: float | int) -> dict[str, Any]:
        """What ``learn_model`` takes."""
        return {self.name: strength, **self.others}


SPARSE = Prior("l1", PENALTIES)
SHARED = Prior("weight_decay", SHARED_STRENGTHS, {"decay_to": "mean"})


def chosen_strength(prior: Prior, model: FactorGraph, rows: States, steps: int) -> float:
    """The strength of a prior with which rows held out are likeliest.

    Both likelihoods are the pseudo-likelihood, which needs no inference; each strength starts where
    the one before has ended.
    """
    num_held = round(HELD_OUT * len(rows))
    held, rest = rows[:num_held], rows[num_held:]
    found = []
    for strength in prior.strengths:
        model = pseudo_learned(model, rest, prior.settings(strength), steps)
        found.append((float(log_pseudo_likelihood(model, held).mean()), strength))
    return max(found)[1]


def pseudo_learned(
    model: FactorGraph, rows: States, prior: dict[str, Any], steps: int
) -> FactorGraph:
    """Most of the pseudo-likelihood under a prior."""
    return learn_model(
        learnable(model),
        rows,
        gradient="pseudo",
        optimizer="lbfgs",
        steps=steps,
        tolerance=1e-3,
        batch_size=None,
        held_out=0,
        evaluate_every=0,
        **prior,
    ).model
