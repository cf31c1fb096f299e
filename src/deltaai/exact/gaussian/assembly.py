"""The Gaussian field of a model: its quadratic factors, added up.

A model is Gaussian if all that evidence leaves of it are real variables on the whole line, with
quadratic factors and nothing else. Variables of one state are no obstacle, and neither are tables
that evidence has brought down to numbers. What stands in the way is said in one line, with what
to use instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy  # its parts come when they are needed
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError, ModelError
from deltaai.exact.gaussian.field import GaussianField
from deltaai.models import FactorGraph, FunctionGroup, MixtureGroup, NeuralGroup, QuadraticGroup

INSTEAD = "train a sampler with fit"
_KINDS = {NeuralGroup: "a neural factor", FunctionGroup: "a function", MixtureGroup: "a mixture"}


def not_gaussian(model: FactorGraph) -> str | None:
    """Why a model, as evidence leaves it, is not Gaussian; nothing if it is.

    >>> from deltaai.models import GaussianFactor, Variable
    >>> inside = Variable("x", support=(0, 1))
    >>> not_gaussian(FactorGraph([inside], [GaussianFactor(["x"], 0.0, 1.0)]))
    "'x' is a number from 0 to 1, not any number"
    """
    for variable in model.variables:
        if variable.support is None and variable.num_states > 1:
            return f"{variable.name!r} has states, and no evidence on it"
        if variable.support is not None and not variable.support.is_line:
            return f"{variable.name!r} is {variable.support}, not any number"
    for group in model.groups:
        if group.arity and not isinstance(group, QuadraticGroup):
            scope = ", ".join(model.variables[v].name for v in group.scopes[0].tolist())
            kind = _KINDS.get(type(group), "a factor that is not quadratic")
            return f"over ({scope}) stands {kind}"
    return None


def gaussian_field(
    model: FactorGraph, memory_limit: int | None = None, order: Sequence[int] | None = None
) -> GaussianField:
    """The field of a Gaussian model that has real variables alone; a variable keeps its number.

    Parameters
    ----------
    model : the target, without what is observed.
    memory_limit : bytes it may take (default: half of what is free).
    order : of elimination, if one is known.

    Raises
    ------
    ModelError
        If the model is not Gaussian.
    """
    problem = not_gaussian(model)
    if problem is not None:
        raise ModelError(f"the model is not Gaussian, for {problem}: {INSTEAD}")
    return assembled(model, memory_limit, order)


def assembled(
    model: FactorGraph, memory_limit: int | None = None, order: Sequence[int] | None = None
) -> GaussianField:
    """The sum of all quadratic factors of real variables, and of factors that are numbers."""
    count = model.num_variables
    rows, columns, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    shift, constant = np.zeros(count), 0.0
    for group in model.groups:
        if not isinstance(group, QuadraticGroup):
            constant += float(group.log_tables().detach().double().sum())
            continue
        scopes = group.scopes.cpu().numpy()
        size = scopes.shape[1]
        rows.append(np.repeat(scopes, size, axis=1).reshape(-1))
        columns.append(np.tile(scopes, (1, size)).reshape(-1))
        precision = _array(group.precision)  # which may be off by rounding
        entries.append((precision + precision.swapaxes(1, 2)).reshape(-1) / 2)
        np.add.at(shift, scopes.reshape(-1), _array(group.shift).reshape(-1))
        constant += float(_array(group.constant).sum())
    if constant == -math.inf:
        raise ImpossibleEvidenceError("the evidence has probability zero under the model")
    together = np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))
    matrix = scipy.sparse.coo_array(together, (count, count)).tocsc()
    names = tuple(variable.name for variable in model.variables)
    return GaussianField(matrix, shift, constant, names, memory_limit, order)


def _array(values: Tensor) -> np.ndarray:
    return np.asarray(values.detach().double().cpu().numpy())
