"""A precision matrix that somebody brings, checked before anything is made of it.

What cannot be one is refused with the name of a variable: entries that are no finite numbers, a
matrix that is not square or not symmetric, a diagonal entry that is not positive. Whether all of it
is positive definite shows when it is factorised (:mod:`deltaai.exact.gaussian.factor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed
from jaxtyping import Float

from deltaai.errors import ModelError, shown

ASYMMETRY = 1e-9  # relative, which rounding may leave and no more
REMEDY = "add a quadratic factor that holds it, such as GaussianFactor, or give evidence on it"


def checked_precision(precision: Any, names: Sequence[str] = ()) -> Any:  # noqa: ANN401
    """A symmetric matrix in compressed columns, or the error that says what is wrong with it.

    Parameters
    ----------
    precision : a matrix of numpy or scipy.
    names : of its variables, for errors.

    Examples
    --------
    >>> checked_precision([[2.0, 1.0], [0.5, 2.0]], ["a", "b"])
    Traceback (most recent call last):
    ...
    deltaai.errors.ModelError: the precision matrix is not symmetric: it is 1 at ('a', 'b') and
    0.5 at ('b', 'a')
    """
    try:
        matrix = scipy.sparse.csc_array(precision, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{shown(precision)} is no precision matrix: give a square matrix of numbers"
        ) from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ModelError(f"the precision matrix has shape {matrix.shape}: it must be square")
    matrix.sum_duplicates()
    rows, columns = matrix.indices, np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))

    def at(entry: int) -> str:
        return f"({named(names, int(rows[entry]))}, {named(names, int(columns[entry]))})"

    is_wrong = ~np.isfinite(matrix.data)
    if is_wrong.any():
        entry = int(is_wrong.argmax())
        raise ModelError(f"the precision matrix is {matrix.data[entry]} at {at(entry)}")
    diagonal = np.abs(matrix.diagonal())
    difference = (matrix - matrix.T).tocoo()
    row, column = difference.coords
    allowed = ASYMMETRY * np.sqrt(diagonal[row]) * np.sqrt(diagonal[column])
    is_wrong = np.abs(difference.data) > allowed
    if is_wrong.any():
        first, second = sorted((int(row[is_wrong][0]), int(column[is_wrong][0])))
        one, other = named(names, first), named(names, second)
        raise ModelError(
            f"the precision matrix is not symmetric: it is {matrix[first, second]:.6g} at "
            f"({one}, {other}) and {matrix[second, first]:.6g} at ({other}, {one})"
        )
    symmetric = ((matrix + matrix.T) / 2).tocsc()
    symmetric.eliminate_zeros()
    symmetric.sort_indices()
    return symmetric


def positive_diagonal(precision: Any, names: Sequence[str]) -> Float[np.ndarray, "var"]:  # noqa: ANN401
    """The diagonal, refused where it is not positive: such a density does not integrate.

    >>> positive_diagonal(checked_precision([[1.0, 0.0], [0.0, 0.0]]), ["a", "b"])
    Traceback (most recent call last):
    ...
    deltaai.errors.ModelError: 'b' is in no factor that holds it, so the density does not ...
    """
    diagonal = np.asarray(precision.diagonal(), dtype=np.float64)
    is_wrong = ~(diagonal > 0)
    if is_wrong.any():
        variable = int(is_wrong.argmax())
        name = named(names, variable)
        if precision.indptr[variable] == precision.indptr[variable + 1]:
            raise ModelError(
                f"{name} is in no factor that holds it, so the density does not integrate over "
                f"the line: {REMEDY}"
            )
        raise ModelError(
            f"the precision of {name} given all others is {diagonal[variable]:.3g}, so the density "
            f"does not integrate: {REMEDY}"
        )
    return diagonal


def named(names: Sequence[str], variable: int) -> str:
    """How an error calls a variable.

    >>> named(["rain"], 0), named([], 3)
    ("'rain'", 'variable 3')
    """
    return shown(names[variable]) if variable < len(names) else f"variable {variable}"
