"""Settings of learning a latent-variable model, checked and kept with every result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from deltaai.arguments import checked_choice, checked_count, checked_number
from deltaai.conditionals import Activation
from deltaai.errors import ConfigError
from deltaai.learning.image_learner import Decay

FamilyName = Literal["local", "mae"]
OrdersName = Literal["one", "many"]
PrecisionName = Literal["single", "bfloat16"]


@dataclass(frozen=True)
class LatentConfig:
    """How p and q look, and how they are learned.

    Parameters
    ----------
    method : the E-step, a name of ``E_STEPS``.
    orders : of q: ``"one"``, or ``"many"`` with one network for all of them.
    num_orders : how many orders share a batch if there are many.
    redraw_every : updates after which these are drawn anew.
    family : ``"local"``, a small network for every variable of p and q; ``"mae"``, the paper's
        masked autoencoders.
    hidden, depth : of the networks of latents, in p and in q.
    activation : of the small networks' hidden units; hardswish costs a third of silu.
    observed_hidden, observed_depth : of the networks of observed variables in p.
    features, encoder_depth : width and layers of the network through which q sees what is observed.
    context_precision : of the products by which q sees what is observed; ``"bfloat16"`` takes less
        than half of the time on processors that have it, and more on others.
    batch : rows of an update of p; those of ``posterior_batch`` of them serve that of q.
    learning_rate, model_learning_rate : of q and of p.
    decay : how they fall: ``"line"``, from 40 % of the run to its end, where a hundredth is left;
        ``"steps"``, by half at 40, 70 and 90 %, as in the paper.
    largest_step : gradients of q and of p are cut to this norm.
    temperature, tempered_share : a share of the draws that q learns from is flattened; p does not
        learn from these.
    alternate : updates of q before as many of p; with 0 both are made at the same draws.
    candidates : draws for each row, of which one is chosen by its weight p/q; p and q learn at it.
    importance_samples : draws for each row, where all are used by their weights.
    gibbs_sweeps : of the chain of a row, where latents come from chains.
    updates, seconds : length of the run, which the learning rates follow; one of the two.
    """

    method: str = "delta"
    orders: OrdersName = "one"
    num_orders: int = 8
    redraw_every: int = 10
    family: FamilyName = "local"
    hidden: int = 32
    depth: int = 1
    activation: Activation = "hardswish"
    observed_hidden: int = 32
    observed_depth: int = 1
    features: int = 512
    encoder_depth: int = 2
    context_precision: PrecisionName = "single"
    batch: int = 128
    posterior_batch: int = 64
    learning_rate: float = 1e-3
    model_learning_rate: float = 3e-3
    decay: Decay = "line"
    largest_step: float = 10.0
    temperature: float = 4.0
    tempered_share: float = 0.05
    alternate: int = 0
    candidates: int = 5
    importance_samples: int = 7
    gibbs_sweeps: int = 1
    updates: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        checked_choice("orders", self.orders, get_args(OrdersName))
        checked_choice("family", self.family, get_args(FamilyName))
        checked_choice("decay", self.decay, get_args(Decay))
        checked_choice("context_precision", self.context_precision, get_args(PrecisionName))
        checked_choice("activation", self.activation, get_args(Activation))
        for name in _COUNTS:
            checked_count(name, getattr(self, name), least=1)
        checked_count("alternate", self.alternate)
        for name in ("learning_rate", "model_learning_rate", "largest_step", "temperature"):
            checked_number(name, getattr(self, name))
        if not 0 <= self.tempered_share <= 1:
            raise ConfigError(f"tempered_share is {self.tempered_share}; it is a share, 0 to 1")
        if (self.updates is None) == (self.seconds is None):
            raise ConfigError("give the length of the run: either updates or seconds")
        if self.updates is not None:
            checked_count("updates", self.updates, least=1)
        if self.seconds is not None:
            checked_number("seconds", self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


_COUNTS = (
    "num_orders",
    "redraw_every",
    "hidden",
    "depth",
    "observed_hidden",
    "observed_depth",
    "features",
    "encoder_depth",
    "batch",
    "posterior_batch",
    "candidates",
    "importance_samples",
    "gibbs_sweeps",
)
