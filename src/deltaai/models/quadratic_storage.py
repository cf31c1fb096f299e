"""Quadratic factors, and mixtures of them, as tensors: what files of models hold of both.

Three tensors each, ``values`` (the precisions), ``shift`` and ``constant``, with an axis of factors
in front; mixtures have one of components after it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deltaai.errors import ModelError
from deltaai.models.quadratic_group import MixtureGroup, QuadraticGroup

QUADRATIC_KINDS = ("quadratic", "mixture")


def quadratic_values(group: QuadraticGroup | MixtureGroup) -> tuple[str, dict[str, Tensor]]:
    """The kind of a group, and its tensors by name."""
    if isinstance(group, QuadraticGroup):
        parts = {"values": group.precision, "shift": group.shift, "constant": group.constant}
        return "quadratic", parts
    assert isinstance(group.base, QuadraticGroup)
    _, parts = quadratic_values(group.base)
    lead = (group.num_factors, group.num_components)
    return "mixture", {name: part.reshape(*lead, *part.shape[1:]) for name, part in parts.items()}


def stored_quadratic(
    kind: str,
    ids: Tensor,
    scopes: Tensor,
    sizes: tuple[int, ...],
    parts: tuple[Tensor, Tensor, Tensor],
) -> QuadraticGroup | MixtureGroup:
    """Build the group that :func:`quadratic_values` took apart, after a look at it.

    Parameters
    ----------
    sizes : states at each place of the scope, zero where the variable is real.
    parts : precisions, shifts, constants.
    """
    _check(kind, len(scopes), sizes, parts)
    if kind == "quadratic":
        return QuadraticGroup(ids, scopes, sizes, *parts)
    count = parts[0].shape[1]
    precision, shift, constant = (part.flatten(0, 1) for part in parts)
    repeated = ids.repeat_interleave(count), scopes.repeat_interleave(count, 0)
    base = QuadraticGroup(*repeated, sizes, precision, shift, constant)
    return MixtureGroup(ids, scopes, base, count)


def _check(
    kind: str, num_factors: int, sizes: tuple[int, ...], parts: tuple[Tensor, Tensor, Tensor]
) -> None:
    real, states = sizes.count(0), tuple(size for size in sizes if size)
    precision = parts[0]
    lead = (num_factors,) if kind == "quadratic" else (num_factors, *precision.shape[1:2])
    ends = ((real, real), (real,), ())
    for part, end in zip(parts, ends, strict=True):
        if tuple(part.shape) != (*lead, *states, *end) or math.prod(lead) == 0 or real == 0:
            raise ModelError("quadratic factors and their variables do not fit together")
        if part.dtype != precision.dtype or not part.is_floating_point():
            raise ModelError(f"its values are {part.dtype}, not floating and of one type")
        if not bool(torch.isfinite(part).all()):
            raise ModelError("its quadratic factors hold NaN or infinity")
    off = (precision - precision.mT).abs()
    if bool((off > 1e-6 * precision.abs().amax()).any()):
        raise ModelError("a precision matrix in it is not symmetric")
