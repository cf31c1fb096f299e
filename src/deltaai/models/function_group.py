"""Factors that are any torch function of the values of their scope.

    log φ(x) = f(x_S)

The function is called once for a whole batch. What it computes must be built of torch operations if
gradients are wanted of it, as chains and score matching do. It is code, so models with such factors
have no files.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.errors import ModelError, one_line, shown
from deltaai.models.clamped_group import UnslicedGroup
from deltaai.models.factors import Factor, checked_scope
from deltaai.models.groups import Columns
from deltaai.models.variable import Variable

LogFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False, init=False)
class FunctionFactor:
    """A factor whose logarithm is a function.

    Parameters
    ----------
    scope : names; of vectors, all coordinates in order.
    function : from values of the scope, ``(batch, coordinates)``, to logarithms, ``(batch,)``;
        states come as whole numbers.

    Examples
    --------
    >>> FunctionFactor(["x", "y"], lambda v: -((v[:, 1] - v[:, 0] ** 2) ** 2)).scope
    ('x', 'y')
    """

    scope: tuple[str, ...]
    function: LogFunction

    def __init__(self, scope: Sequence[str], function: Any) -> None:  # noqa: ANN401
        object.__setattr__(self, "scope", checked_scope(scope))
        if not self.scope:
            raise ModelError("a function needs at least one variable in its scope")
        if not callable(function):
            raise ModelError(
                f"a factor's function takes values and gives logarithms; {shown(function)} is none"
            )
        object.__setattr__(self, "function", function)


@dataclass(frozen=True, eq=False)
class FunctionGroup(UnslicedGroup):
    """Factors that are one function of different scopes.

    Parameters
    ----------
    place_sizes : number of states at each place of the scope, zero where it is real.
    function : of values ``(batch, arity)``.
    value_dtype : what its values are turned into.
    """

    place_sizes: tuple[int, ...]
    function: LogFunction
    value_dtype: torch.dtype = torch.float64

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope, zero where it is real."""
        return self.place_sizes

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.value_dtype

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        found = self._called(values.T.to(self.value_dtype))
        return found.to(self.value_dtype)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        values = self.scope_values(columns).flatten(1)
        every = torch.zeros(values.shape[1], dtype=torch.long, device=values.device)
        return self.log_values_at(every, values).view(self.num_factors, columns.shape[1])

    def _called(self, values: Float[Tensor, "pair arity"]) -> Float[Tensor, "pair"]:
        try:
            found = self.function(values)
        except Exception as error:
            raise ModelError(
                f"a factor's function failed at values of shape {tuple(values.shape)}: "
                f"{type(error).__name__}: {one_line(error)}"
            ) from error
        if not isinstance(found, Tensor) or found.shape != values.shape[:1]:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ModelError(
                f"a factor's function must map {tuple(values.shape)} to ({len(values)},), not to "
                f"{shape}"
            )
        return found

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as a user writes them."""
        return [
            FunctionFactor([variables[v].name for v in scope], self.function)
            for scope in self.scopes.tolist()
        ]

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> FunctionGroup:
        """Return the group on another device or in another floating type."""
        moved = super().to(device, dtype)
        return FunctionGroup(
            moved.ids, moved.scopes, self.place_sizes, self.function, dtype or self.value_dtype
        )

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from super().content()
        digest = hashlib.sha256()
        for part in _described(self.function, 0):
            digest.update(part.encode())
        sizes = torch.tensor(self.place_sizes, dtype=torch.long, device="cpu")
        yield f"function {digest.hexdigest()}", sizes


def _described(value: Any, depth: int) -> Iterator[str]:  # noqa: ANN401
    """What says which function it is, as far as that can be seen: its code, and what it holds."""
    if isinstance(value, types.CodeType):
        yield value.co_code.hex()
        for constant in value.co_consts:
            yield from _described(constant, depth)
    elif isinstance(value, types.FunctionType):
        yield from _described(value.__code__, depth)
        for cell in (*(value.__closure__ or ()), *(value.__defaults__ or ())):
            content = cell.cell_contents if isinstance(cell, types.CellType) else cell
            yield from _described(content, depth + 1) if depth < 4 else iter(())
    elif isinstance(value, Tensor):
        yield hashlib.sha256(value.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
    elif isinstance(value, int | float | str | bytes | bool | type(None)):
        yield repr(value)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _described(each, depth)
    else:
        yield getattr(value, "__qualname__", type(value).__qualname__)
