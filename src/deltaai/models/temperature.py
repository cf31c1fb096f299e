"""A model at another temperature: every log-factor multiplied by β.

    log p_β(x) = β Σ_k log φ_k(x) + constant

:func:`tempered` gives a model like any other, so nothing that looks at one needs to know of β. The
factors underneath are asked at every call: if they learn, the tempered ones follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Clamp, Columns, FactorGroup
from deltaai.models.wrapped_group import WrappedGroup


def tempered(model: FactorGraph, beta: float | int) -> FactorGraph:
    """Return the model at an inverse temperature; itself at one.

    >>> from deltaai.models import zoo
    >>> model = zoo.sprinkler()
    >>> x = torch.tensor([[0, 0, 1, 1]])
    >>> bool(tempered(model, 0.5).log_score(x) == 0.5 * model.log_score(x))
    True
    """
    if beta == 1:
        return model
    made = FactorGraph.from_groups(
        model.variables,
        [TemperedGroup(group.ids, group.scopes, group, float(beta)) for group in model.groups],
    )
    made.dtype, made.device = model.dtype, model.device
    return made


@dataclass(frozen=True, eq=False)
class TemperedGroup(WrappedGroup):
    """A group whose log-values are multiplied by a number.

    Parameters
    ----------
    beta : the number.
    """

    beta: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope."""
        return self.base.sizes

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        return self.beta * self.base.log_values_at(factor, values)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        return self.beta * self.base.log_values(columns)

    def log_score(self, columns: Columns) -> Float[Tensor, "batch"]:
        """Sum of all factors' log-values at full states."""
        return self.beta * self.base.log_score(columns)

    def log_slices(self, columns: Columns, place: int) -> Float[Tensor, "factor state batch"]:
        """Evaluate every factor with the variable at ``place`` of its scope set to each value."""
        return self.beta * self.base.log_slices(columns, place)

    def log_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> Float[Tensor, "some state batch"]:
        """Evaluate chosen factors with one place of their scope set to each value."""
        return self.beta * self.base.log_slices_at(factor, values, place)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        return self.beta * self.base.log_changes(columns, others, place)

    @property
    def is_quadratic(self) -> bool:
        """Whether its factors are quadratic in every real variable."""
        return self.base.is_quadratic

    def quadratic_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> tuple[Float[Tensor, "some batch"], Float[Tensor, "some batch"]]:
        """Precision and shift of the real variable at a place, given the others."""
        precision, shift = self.base.quadratic_slices_at(factor, values, place)
        return self.beta * precision, self.beta * shift

    def log_tables(self) -> Float[Tensor, "factor *states"]:
        """Write every factor as a table."""
        return self.beta * self.base.log_tables()

    def log_tables_with_missing(self) -> Float[Tensor, "factor *states_and_missing"]:
        """Write every factor as a table in which variables may be missing."""
        return self.beta * self.base.log_tables_with_missing()

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""
        return [
            TemperedGroup(part.ids, part.scopes, part, self.beta)
            for part in self.base.condition(clamp)
        ]

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from self.base.content()
        yield "beta", torch.tensor(self.beta, dtype=torch.float64, device="cpu")
