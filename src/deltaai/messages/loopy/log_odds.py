"""Messages in models of pairs of two-state variables: one number each, the fast path.

Any positive table over two such variables is, with spins s = 2x - 1,

    table(x_u, x_v) = c + a_u s_u + a_v s_v + J s_u s_v

The terms of one spin are fields, c cancels, and what is left is a coupling. If l is the log-odds
of u without this factor, it tells v the log-odds

    m = log (K e^l + 1) / (e^l + K),    K = e^{2 J}

A sum of positive terms over another: no digits are lost, and |m| <= 2 |J|. Hence log-odds l beyond
the largest coupling can be cut off, certain variables (l infinite) cost nothing extra, and an
update is one exponential, one division and one logarithm a message. Tables with zeros, and
couplings near the range of floating point, are left to :mod:`deltaai.messages.loopy.tables`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.messages.loopy.potentials import Potentials

# With 2 |J| at most this and log-odds cut 50 above it, K e^l stays in range, and what is cut off
# is less than rounding.
LARGEST_COUPLING = 300.0
LARGEST_LOG_ODDS = 350.0


class LogOddsMessages:
    """Messages of all pairs of two-state variables, as log-odds, updated together.

    The messages to the first variable of each pair come first, then those to the second.

    Parameters
    ----------
    potentials : the model, one that :meth:`fits`.
    """

    def __init__(self, potentials: Potentials) -> None:
        self.potentials = potentials
        tables = torch.cat([block.tables for block in potentials.blocks], -1)
        scopes = torch.cat([block.scopes for block in potentials.blocks])
        doubled = _double_couplings(tables)
        to_first = (tables[1].sum(0) - tables[0].sum(0)) / 2
        to_second = (tables[:, 1].sum(0) - tables[:, 0].sum(0)) / 2
        fields = potentials.fields.view(-1, 2)
        self._own = torch.cat((to_first, to_second))  # the factor's own fields, as log-odds
        self._variables = scopes.T.flatten()
        self._fields = fields[:, 1] - fields[:, 0]
        self._fields.index_add_(0, self._variables, self._own)
        self._odds_ratio = doubled.exp().repeat(2)  # K
        self._messages = torch.zeros_like(self._own)
        self._totals = torch.empty_like(self._fields)
        self._heard = torch.empty_like(self._own)
        self._upper = torch.empty_like(self._own)
        self._pairs = len(doubled)

    @staticmethod
    def fits(potentials: Potentials) -> bool:
        """Whether all variables have two states and all tables are pairs without zeros."""
        if not potentials.blocks or any(len(states) != 2 for _, states in potentials.by_size):
            return False
        if any(block.sizes != (2, 2) for block in potentials.blocks):
            return False
        # A variable with two zero fields is a contradiction, which the general path reports.
        if bool((potentials.fields.view(-1, 2) == -torch.inf).all(1).any()):
            return False
        return all(
            bool((block.tables > -torch.inf).all())
            and bool((_double_couplings(block.tables).abs() <= LARGEST_COUPLING).all())
            for block in potentials.blocks
        )

    def step(self, damping: float | int) -> float:
        """Update every message once; return the largest change before damping."""
        heard, upper, messages, half = self._heard, self._upper, self._messages, self._pairs
        self._totals.copy_(self._fields).scatter_add_(0, self._variables, messages)
        torch.index_select(self._totals, 0, self._variables, out=heard)
        heard.sub_(messages).clamp_(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS).exp_()
        torch.mul(heard, self._odds_ratio, out=upper)
        sent = upper.add_(1.0).div_(heard.add_(self._odds_ratio)).log_()
        # What the second variable of a pair says is sent to the first, and the other way round.
        change = heard
        torch.sub(sent[half:], messages[:half], out=change[:half])
        torch.sub(sent[:half], messages[half:], out=change[half:])
        messages.add_(change, alpha=1 - damping)
        return float(change.abs_().max())

    def log_messages(self) -> Float[Tensor, "entry"]:
        """All messages in one row, two entries each, the factors' own fields included."""
        row = torch.zeros_like(self.potentials.rows, dtype=torch.float64)
        to_first, to_second = torch.split(self._messages + self._own, self._pairs)
        begin = 0
        for block in self.potentials.blocks:
            end = begin + len(block.ids)
            for values, sent in zip(block.places(row), (to_first, to_second), strict=True):
                values[1] = sent[begin:end]
            begin = end
        return row


def _double_couplings(tables: Float[Tensor, "2 2 factor"]) -> Float[Tensor, "factor"]:
    """2 J of each pair."""
    return (tables[1, 1] - tables[1, 0] - tables[0, 1] + tables[0, 0]) / 2
