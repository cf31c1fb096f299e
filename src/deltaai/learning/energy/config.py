"""Settings of learning an energy of real rows and its sampler side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args

from deltaai.arguments import checked_choice, checked_count, checked_number
from deltaai.sampling import OrdersKind
from deltaai.training import objective_names


@dataclass(frozen=True)
class EnergyConfig:
    """How an energy is learned.

    Parameters
    ----------
    objective : what trains q: ``"delta"``, or any other of ``fit``.
    orders : whether q knows one order, or many.
    family, hidden : conditionals of q, and their width.
    batch_size : states at which q is trained.
    data_share : share of these that are rows of data; q draws the others.
    rows, draws : rows of data, and draws of q, of an update of p.
    q_updates : updates of q for one of p.
    learning_rate, energy_rate : of q and of p; both fall on a line in the last part of the budget.
    jitter : deviation of the noise on rows, in the box [-1, 1]. Without any, p and q would
        have to be infinitely sharp where rows lie on a curve.
    decay : share of the weights of p that each unit of its learning rate takes away.
    seconds, updates : the budget, whichever is spent first; ``None`` for no such end.
    """

    objective: str = "delta"
    orders: OrdersKind = "one"
    family: str = "local"
    hidden: int = 32
    batch_size: int = 128
    data_share: float | int = 0.5
    rows: int = 256
    draws: int = 256
    q_updates: int = 4
    learning_rate: float | int = 3e-3
    energy_rate: float | int = 3e-4
    jitter: float | int = 0.02
    decay: float | int = 1e-3
    seconds: float | int | None = None
    updates: int | None = None

    def __post_init__(self) -> None:
        checked_choice("objective", self.objective, objective_names())
        checked_choice("orders", self.orders, get_args(OrdersKind))
        for name in ("hidden", "batch_size", "rows", "draws", "q_updates"):
            checked_count(name, getattr(self, name), 1)
        for name in ("learning_rate", "energy_rate"):
            checked_number(name, getattr(self, name))
        for name in ("jitter", "decay"):
            checked_number(name, getattr(self, name), is_zero_allowed=True)
        checked_number("data_share", self.data_share, 1, is_zero_allowed=True)

    def to_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)
