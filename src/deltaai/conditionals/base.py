"""What every family of conditionals answers.

A family gives *corrections*: logits, relative to each variable's first state, that are added to
what q knows before training (see :mod:`deltaai.conditionals.knowledge`). It is asked three
questions, always as "v, given these known inputs":

- ``logits``: every variable at full states;
- ``logits_and_flips``: the same, and with one of its inputs changed, for each input in turn;
- ``logits_at``: some variables of one block, at inputs that are handed over (sampling).

``known`` says which inputs a conditional may see, per slot and column; ``None`` means all of them.
``context`` is what is given with a column, such as an image: features that every conditional sees.
What a family makes of them (``context_terms``) enters its first layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals.context import Context
from deltaai.conditionals.layout import Layout
from deltaai.errors import ConfigError

Known = Float[Tensor, "slot batch"] | None


class Conditionals(nn.Module, ABC):
    """Logits of every variable given its known inputs."""

    layout: Layout

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups for an optimiser; a family may give some of its parameters another rate."""
        return [{"params": list(self.parameters()), "lr": learning_rate}]

    def context_terms(self, features: Float[Tensor, "context batch"]) -> Context:
        """What its conditionals see of the features of each column: the features themselves."""
        return Context((features[None],))

    def expect_flips(self, num_columns: int) -> None:
        """Load what flips of so many columns will need, so that no update has to wait for it."""

    @abstractmethod
    def logits(
        self,
        features: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> Float[Tensor, "row batch"]:
        """Correction of every variable at full states."""

    @abstractmethod
    def logits_and_flips(
        self,
        features: Float[Tensor, "feature_row batch"],
        flipped: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Corrections at full states, and with each input in turn at its value in ``flipped``."""

    @abstractmethod
    def logits_at(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        inputs: Float[Tensor, "pair input feature batch"],
        known: Float[Tensor, "pair input"] | Float[Tensor, "pair input batch"] | None = None,
        context: Float[Tensor, "pair term batch"] | None = None,
    ) -> Float[Tensor, "pair logit batch"]:
        """Correction of some members of a block at given encoded inputs.

        ``known`` may differ between columns, and ``context`` between the members too.
        """

    def set_constant(
        self,
        rows: Float[Tensor, "row"],
        when_known: Sequence[Float[Tensor, "_variable _logit _input"]] | None = None,
    ) -> None:
        """Make the correction of every variable the same at all states of its inputs.

        Parameters
        ----------
        rows : the correction.
        when_known : what each input adds to it by being known, for each block; nothing if left
            out.
        """
        raise ConfigError(f"{type(self).__name__} cannot be set to constant corrections")
