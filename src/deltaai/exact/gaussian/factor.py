"""The factor of a precision matrix: A = Pᵀ L D Lᵀ P, by SuperLU in symmetric mode.

The matrix is scaled first, A = S Q S with S = diag(Q)^-1/2, so that units do not matter: every
pivot d is then the share of a variable's precision that is left when those before it are integrated
out, between 0 and 1. Rounding leaves an error of about 1e-15 in it. Where a pivot is not well above
that, nothing could be said with any accuracy, and the matrix is refused as not positive definite,
with the name of the variable whose pivot it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed
from jaxtyping import Float, Int

from deltaai.errors import ModelError
from deltaai.exact.gaussian.fill import SYMMETRIC
from deltaai.exact.gaussian.precision import REMEDY, named, positive_diagonal

LEAST_PIVOT = 1e-12
_COLUMNS = 64  # solved at once: more no longer fit near the processor and take twice as long
_NUDGE = 1e-10  # that lets a singular matrix be factorised, to say where it is


@dataclass(frozen=True, eq=False)
class Factor:
    """A factorised precision matrix.

    Parameters
    ----------
    lu : SuperLU's factor of the scaled matrix in an order.
    order : the variable that stands at each place of that order.
    scale : S, one over the root of each variable's diagonal entry.
    """

    lu: Any
    order: Int[np.ndarray, "var"]
    scale: Float[np.ndarray, "var"]

    @classmethod
    def of(cls, precision: Any, order: Sequence[int], names: Sequence[str] = ()) -> Factor:  # noqa: ANN401
        """Factorise in an order; refuse what is not positive definite.

        Parameters
        ----------
        precision : symmetric, in compressed columns.
        order : of elimination.
        names : of its variables, for errors.

        Examples
        --------
        >>> from deltaai.exact.gaussian.precision import checked_precision
        >>> intrinsic = checked_precision([[1.0, -1.0], [-1.0, 1.0]])
        >>> Factor.of(intrinsic, [0, 1], ["a", "b"])
        Traceback (most recent call last):
        ...
        deltaai.errors.ModelError: the precision matrix is not positive definite: nothing holds ...
        """
        diagonal = positive_diagonal(precision, names)
        scale = 1.0 / np.sqrt(diagonal)
        where = np.asarray(order, dtype=np.int64)
        unit = scipy.sparse.diags_array(scale)
        scaled = (unit @ precision @ unit).tocsc()[where][:, where].tocsc()
        if len(where) == 0:
            return cls(None, where, scale)
        lu = _factorised(scaled)
        if lu is None or not (lu.U.diagonal() > LEAST_PIVOT).all():
            raise _not_definite(scaled, where, names)
        # SuperLU may still have put the order into another that gives the same fill.
        return cls(lu, where[np.argsort(lu.perm_c)], scale)

    @cached_property
    def lower(self) -> Any:  # noqa: ANN401
        """L in compressed columns, ones on its diagonal; places, not variables."""
        return self.lu.L

    @cached_property
    def pivots(self) -> Float[np.ndarray, "var"]:
        """D, by place."""
        return np.zeros(0) if self.lu is None else np.asarray(self.lu.U.diagonal())

    @property
    def log_determinant(self) -> float:
        """Log of the determinant of the precision matrix."""
        return float(np.log(self.pivots).sum() - 2.0 * np.log(self.scale).sum())

    def solve(self, right: Float[np.ndarray, "var *column"]) -> Float[np.ndarray, "var *column"]:
        """Q⁻¹ b, for one or many columns b."""
        if self.lu is None or right.size == 0:
            return np.zeros_like(right)
        scale = self.scale.reshape(-1, *[1] * (right.ndim - 1))
        return np.asarray(scale * self._unscaled(scale * right))

    def spread(self, noise: Float[np.ndarray, "var column"]) -> Float[np.ndarray, "var column"]:
        """Q⁻¹ᐟ² z: columns of covariance Q⁻¹, from columns of independent noise.

        With R = Pᵀ L D¹ᐟ² the scaled matrix is R Rᵀ, so A⁻¹ R z has covariance A⁻¹.
        """
        if self.lu is None or noise.size == 0:
            return np.zeros_like(noise)
        coloured = np.empty_like(noise)
        coloured[self.order] = self.lower @ (np.sqrt(self.pivots)[:, None] * noise)
        return np.asarray(self.scale[:, None] * self._unscaled(coloured))

    def _unscaled(
        self, right: Float[np.ndarray, "var *column"]
    ) -> Float[np.ndarray, "var *column"]:
        """A⁻¹ b, of what SuperLU was given in its order of columns."""
        given = self._given
        found = np.empty_like(right)
        if right.ndim == 1:
            found[given] = self.lu.solve(right[given])
            return found
        for first in range(0, right.shape[1], _COLUMNS):
            some = slice(first, first + _COLUMNS)
            found[given, some] = self.lu.solve(np.ascontiguousarray(right[given, some]))
        return found

    @cached_property
    def _given(self) -> Int[np.ndarray, "var"]:
        """The order in which SuperLU was given the matrix."""
        return np.asarray(self.order[self.lu.perm_c])


def _factorised(scaled: Any) -> Any:  # noqa: ANN401
    """SuperLU's factor; none if a pivot is not on the diagonal, or zero."""
    try:
        lu = scipy.sparse.linalg.splu(scaled, permc_spec="NATURAL", **SYMMETRIC)
    except RuntimeError:  # exactly singular
        return None
    return lu if np.array_equal(lu.perm_c, lu.perm_r) else None


def _not_definite(scaled: Any, order: Int[np.ndarray, "var"], names: Sequence[str]) -> ModelError:  # noqa: ANN401
    """The error, with the name of the variable at which the matrix ceases to be definite."""
    nudged = (scaled + _NUDGE * scipy.sparse.identity(len(order))).tocsc()
    lu = _factorised(nudged)
    if lu is None:
        where = "in several directions"
    else:
        pivots = lu.U.diagonal()
        place = int((~(pivots > 2 * _NUDGE)).argmax()) if pivots.min() <= 2 * _NUDGE else -1
        place = int(np.argmin(pivots)) if place < 0 else place
        name = named(names, int(order[np.argsort(lu.perm_c)][place]))
        where = f"nothing holds {name} once others are integrated out" + (
            "" if pivots[place] < -2 * _NUDGE else " (as far as rounding can tell)"
        )
    return ModelError(
        f"the precision matrix is not positive definite: {where}, so the density does not "
        f"integrate: {REMEDY}"
    )
