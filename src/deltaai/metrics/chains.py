"""How well Markov chains mixed: effective sample size and R-hat.

Both follow Vehtari, Gelman, Simpson, Carpenter and Bürkner, *Rank-normalization, folding, and
localization: an improved R-hat*: chains are split in halves and values replaced by normal scores
of their ranks. R-hat compares the variance between half-chains with that within; near 1 (below
1.01) they agree. The bulk effective sample size is n / (1 + 2 Σ_t ρ_t) for autocorrelations ρ_t.

Neither can see what no chain visited: chains that all stay in one mode look perfect. The
arithmetic is that of arviz-stats. This file runs no chains and chooses no statistic of the states.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from deltaai.errors import StateError

_FEWEST_DRAWS = 4  # halves of two draws are the shortest that have a variance


@dataclass(frozen=True, eq=False)
class ChainDiagnostics:
    """Effective sample size and R-hat, each with one entry a variable (or one in all).

    Parameters
    ----------
    ess : bulk effective sample size; the number of draws where all values are equal.
    rhat : rank-normalised split R-hat; NaN where all values are equal, infinite where every
        chain stands still, at different values.
    num_draws : chains times draws, what ``ess`` is to be compared with.
    """

    ess: Float64[Tensor, "*var"]
    rhat: Float64[Tensor, "*var"]
    num_draws: int

    @property
    def worst_ess(self) -> float:
        """The smallest effective sample size of all variables."""
        return float(self.ess.min())

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat of the variables that vary; NaN if none does."""
        varying = self.rhat[~self.rhat.isnan()]
        return float(varying.max()) if varying.numel() else float("nan")


def chain_diagnostics(draws: Shaped[Tensor, "chain draw *var"]) -> ChainDiagnostics:
    """Judge chains by their draws, for each variable on its own.

    Parameters
    ----------
    draws : numbers, such as energies (chain, draw) or states (chain, draw, variable).

    Raises
    ------
    StateError
        If there are fewer than 4 draws a chain, another number of axes, or a value is not finite.

    Examples
    --------
    >>> draws = torch.randn(4, 500, generator=torch.Generator().manual_seed(0))
    >>> found = chain_diagnostics(draws)
    >>> 1000 < float(found.ess) < 3000, float(found.rhat) < 1.01
    (True, True)
    """
    if draws.ndim not in {2, 3} or draws.shape[1] < _FEWEST_DRAWS or 0 in draws.shape:
        raise StateError(
            f"draws have shape {tuple(draws.shape)}: give (chains, draws) or "
            f"(chains, draws, variables) with at least {_FEWEST_DRAWS} draws"
        )
    values = draws.detach().to(device="cpu", dtype=torch.float64).numpy()
    if not np.isfinite(values).all():
        raise StateError("a draw is not finite: chains with NaN or infinite values have no ESS")
    # Imported here because it takes longer than all else that a command needs.
    stats = importlib.import_module("arviz_stats.base").array_stats
    with np.errstate(all="ignore"):  # chains that stand still divide by zero
        ess = stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")
        rhat = stats.rhat(values, chain_axis=0, draw_axis=1, method="rank")
    return ChainDiagnostics(
        ess=torch.from_numpy(np.asarray(ess, dtype=np.float64)),
        rhat=torch.from_numpy(np.asarray(rhat, dtype=np.float64)),
        num_draws=draws.shape[0] * draws.shape[1],
    )
