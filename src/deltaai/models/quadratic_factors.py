"""Factors that are quadratic in real variables: Gaussian ones, and tables of them.

    log φ(x) = c + hᵀx - ½ xᵀPx

for the real coordinates x of a scope, in the order of the scope. If there are variables with states
among them, c, h and P are tables of such values, one axis for each of these variables in front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deltaai.arguments import checked_items
from deltaai.errors import ModelError, one_line, shown
from deltaai.models.factors import as_tensor, checked_scope

_SYMMETRY = 1e-8  # of entries, relative to the largest


@dataclass(frozen=True, eq=False, init=False)
class QuadraticFactor:
    """A factor that is quadratic in the real variables of its scope.

    Parameters
    ----------
    scope : names; of vectors, all coordinates in order.
    precision : P, a symmetric matrix, of one number if that is all; in front of it an axis for each
        variable with states.
    shift : h; zero by default.
    constant : c; zero by default.

    Examples
    --------
    >>> QuadraticFactor(["x", "y"], [[1.0, -0.9], [-0.9, 1.0]]).precision.shape
    torch.Size([2, 2])
    """

    scope: tuple[str, ...]
    precision: Tensor
    shift: Tensor
    constant: Tensor

    def __init__(
        self,
        scope: Sequence[str],
        precision: Any,  # noqa: ANN401  whatever torch takes
        shift: Any = None,  # noqa: ANN401
        constant: Any = None,  # noqa: ANN401
    ) -> None:
        names = checked_scope(scope)
        if not names:
            raise ModelError("a quadratic factor needs at least one variable in its scope")
        found = _numbers(precision, "precision", names)
        if found.ndim < 2:
            found = found.reshape(1, 1) if found.numel() == 1 else found
        if found.ndim < 2 or found.shape[-1] != found.shape[-2]:
            raise ModelError(
                f"the precision over ({', '.join(names)}) has shape {tuple(found.shape)}, and "
                "should end in a square matrix"
            )
        reach = _SYMMETRY * found.detach().abs().amax() if found.numel() else 0.0
        if bool(((found - found.mT).detach().abs() > reach).any()):
            raise ModelError(f"the precision over ({', '.join(names)}) is not symmetric")
        first, last = found.shape[:-2], found.shape[-1]
        moved = _numbers(0.0 if shift is None else shift, "shift", names)
        added = _numbers(0.0 if constant is None else constant, "constant", names)
        try:
            moved, added = moved.expand(*first, last), added.expand(first)
        except RuntimeError:
            raise ModelError(
                f"over ({', '.join(names)}) the shift has shape {tuple(moved.shape)} and the "
                f"constant {tuple(added.shape)}: they should be {(*first, last)} and {tuple(first)}"
            ) from None
        object.__setattr__(self, "scope", names)
        object.__setattr__(self, "precision", found)
        object.__setattr__(self, "shift", moved)
        object.__setattr__(self, "constant", added)


class GaussianFactor(QuadraticFactor):
    """The normal density of the real variables of a scope.

    Parameters
    ----------
    scope : names.
    mean, covariance : of the density; a number each for one variable.

    Examples
    --------
    >>> GaussianFactor("x", 1.0, 4.0).shift
    tensor([0.2500], dtype=torch.float64)
    """

    def __init__(
        self,
        scope: Sequence[str],
        mean: Any,  # noqa: ANN401  whatever torch takes
        covariance: Any,  # noqa: ANN401
    ) -> None:
        names = checked_scope(scope)
        spread = _numbers(covariance, "covariance", names)
        spread = spread.reshape(1, 1) if spread.numel() == 1 else spread
        centre = _numbers(mean, "mean", names).reshape(-1)
        if spread.ndim != 2 or spread.shape != (len(centre), len(centre)):
            raise ModelError(
                f"over ({', '.join(names)}) the mean has {len(centre)} numbers and the covariance "
                f"shape {tuple(spread.shape)}: it should be ({len(centre)}, {len(centre)})"
            )
        factor, problem = torch.linalg.cholesky_ex(spread)
        if bool(problem):
            raise ModelError(f"the covariance over ({', '.join(names)}) is not positive definite")
        precision = torch.cholesky_inverse(factor)
        shift = precision @ centre
        constant = -0.5 * centre @ shift - factor.diagonal().log().sum()
        constant = constant - 0.5 * len(centre) * math.log(2 * math.pi)
        super().__init__(names, 0.5 * (precision + precision.mT), shift, constant)


class LinearGaussian(QuadraticFactor):
    """The density of a real child given its parents: normal about what is linear in them.

    Parameters
    ----------
    child : a real variable.
    parents : real variables that its mean depends on.
    weights : of the parents.
    bias : mean where all parents are zero.
    scale : standard deviation.
    given : variables with states; ``weights``, ``bias`` and ``scale`` are then tables, with an axis
        for each of them in front (or one value for all).

    Examples
    --------
    >>> LinearGaussian("weight", ["height"], [60.0], -40.0, 8.0).scope
    ('height', 'weight')
    """

    def __init__(
        self,
        child: str,
        parents: Sequence[str] = (),
        weights: Any = (),  # noqa: ANN401  whatever torch takes
        bias: Any = 0.0,  # noqa: ANN401
        scale: Any = 1.0,  # noqa: ANN401
        given: Sequence[str] = (),
    ) -> None:
        switches, above = checked_scope(given), checked_scope(parents)
        names = checked_scope((*switches, *above, child))
        slopes = _numbers(weights, "weights", names)
        centre, spread = _numbers(bias, "bias", names), _numbers(scale, "scale", names)
        if slopes.ndim == 0 or slopes.shape[-1] != len(above):
            raise ModelError(
                f"{child!r} has {len(above)} parents, and weights of shape {tuple(slopes.shape)}: "
                "there is to be one weight a parent"
            )
        if not bool((spread > 0).all()):
            raise ModelError(f"the scale of {child!r} is {float(spread.min())}: it must be above 0")
        try:
            axes = (slopes.shape[:-1], centre.shape, spread.shape)
            shape = torch.broadcast_shapes(*axes)  # type: ignore[no-untyped-call]
        except RuntimeError:
            raise ModelError(
                f"the weights, bias and scale of {child!r} have axes {tuple(slopes.shape[:-1])}, "
                f"{tuple(centre.shape)} and {tuple(spread.shape)}, which do not go together"
            ) from None
        ones = torch.ones(*shape, 1, dtype=torch.float64, device="cpu")
        difference = torch.cat((-slopes.expand(*shape, -1), ones), -1)  # child less its mean
        precision = spread.expand(shape).square().reciprocal()
        centre = centre.expand(shape)
        constant = -0.5 * centre.square() * precision - spread.expand(shape).log()
        super().__init__(
            names,
            precision[..., None, None] * difference[..., :, None] * difference[..., None, :],
            (precision * centre)[..., None] * difference,
            constant - 0.5 * math.log(2 * math.pi),
        )


@dataclass(frozen=True, eq=False, init=False)
class MixtureFactor:
    """The sum of some quadratic factors of one scope, each perhaps a weighted normal density.

    Parameters
    ----------
    components : quadratic factors with the same scope; their weights are in their constants.
    log_weights : added to the constants; zero by default.

    Examples
    --------
    >>> MixtureFactor([GaussianFactor("x", -2.0, 1.0), GaussianFactor("x", 2.0, 1.0)]).scope
    ('x',)
    """

    scope: tuple[str, ...]
    components: tuple[QuadraticFactor, ...]

    def __init__(
        self,
        components: Sequence[QuadraticFactor],
        log_weights: Any = None,  # noqa: ANN401
    ) -> None:
        parts = checked_items("components", components, "QuadraticFactors", ModelError)
        if not parts or not all(isinstance(part, QuadraticFactor) for part in parts):
            raise ModelError("a mixture is of at least one QuadraticFactor")
        if len({part.scope for part in parts}) > 1:
            raise ModelError("the components of a mixture have one scope, in one order")
        if len({part.precision.shape for part in parts}) > 1:
            raise ModelError("the components of a mixture have precisions of one shape")
        weights = _numbers(0.0 if log_weights is None else log_weights, "weights", parts[0].scope)
        try:
            weights = weights.expand(len(parts))
        except RuntimeError:
            raise ModelError(
                f"a mixture of {len(parts)} components has {len(weights)} weights"
            ) from None
        made = tuple(
            QuadraticFactor(part.scope, part.precision, part.shift, part.constant + weight)
            for part, weight in zip(parts, weights, strict=True)
        )
        object.__setattr__(self, "scope", parts[0].scope)
        object.__setattr__(self, "components", made)


def _numbers(values: Any, what: str, scope: Sequence[str]) -> Tensor:  # noqa: ANN401
    """Finite numbers in double precision, on the CPU."""
    where = f"the {what} over ({', '.join(scope)})"
    try:
        found = as_tensor(values).to("cpu", torch.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ModelError(f"{where} is not an array of numbers: {one_line(error)}") from None
    if not bool(torch.isfinite(found).all()):
        raise ModelError(
            f"{where} holds {shown(float(found[~torch.isfinite(found)].reshape(-1)[0]))}"
        )
    return found
