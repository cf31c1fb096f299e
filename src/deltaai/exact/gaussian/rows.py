"""Many rows of evidence against one Gaussian model: rows that observe the same share one factor.

With f the free variables of a row and o the observed ones, the precision Q_ff is the same whatever
the values, and so are the variances. Only the shift moves, and the constant:

    h = h_f - Q_fo x_o,    c = c₀ + h_oᵀx_o - ½ x_oᵀQ_oo x_o,    log Z = c + ½ hᵀQ_ff⁻¹h + const

so means and log Z of all these rows are one solve with a column a row. States that switch between
normal densities are observed in every row, and rows with other states have other factors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from deltaai.errors import ImpossibleEvidenceError, ModelError
from deltaai.exact.gaussian.assembly import INSTEAD, assembled
from deltaai.exact.gaussian.field import GaussianField
from deltaai.models import FactorGraph, QuadraticGroup, conditioned
from deltaai.watch import look

_KEPT = 8  # factors of patterns that may come again


def gaussian_given(model: FactorGraph, observed: Collection[int]) -> str | None:
    """Why a model is not Gaussian once some variables are observed, whatever their values.

    Factors other than quadratic ones must have states alone. Nothing if it is Gaussian.
    """
    known = set(observed)
    for number, variable in enumerate(model.variables):
        if number in known:
            continue
        if variable.support is None and variable.num_states > 1:
            return f"{variable.name!r} has states, and is not observed in every row"
        if variable.support is not None and not variable.support.is_line:
            return f"{variable.name!r} is {variable.support}, and is not observed in every row"
    for group in model.groups:
        if not isinstance(group, QuadraticGroup) and not group.has_tables:
            scope = ", ".join(model.variables[v].name for v in group.scopes[0].tolist())
            return f"the factor over ({scope}) is not quadratic"
    return None


@dataclass(frozen=True, eq=False)
class GaussianRowAnswers:
    """Answers for rows of evidence.

    Parameters
    ----------
    log_partition : log Z of each row's evidence, -inf where it is impossible.
    means, variances : of the variables asked for; NaN where the evidence is impossible.
    samples : of all variables, evidence filled in, (row, sample, variable), if asked for.
    """

    log_partition: Float64[Tensor, "row"]
    means: Float64[Tensor, "row asked"]
    variances: Float64[Tensor, "row asked"]
    samples: Float64[Tensor, "row sample var"] | None = None


class GaussianRows:
    """Answers rows of a model that is Gaussian given what each of them observes.

    Parameters
    ----------
    model : the target.
    memory_limit : bytes a factor may take (default: half of what is free).
    """

    def __init__(self, model: FactorGraph, memory_limit: int | None = None) -> None:
        self.model, self._limit = model, memory_limit
        self._states = [n for n, v in enumerate(model.variables) if not v.is_real]
        self._patterns: dict[bytes, _Pattern | None] = {}

    def answer(
        self,
        rows: Float64[Tensor, "row var"],
        asked: Sequence[int],
        num_samples: int = 0,
        generator: torch.Generator | None = None,
    ) -> GaussianRowAnswers:
        """Answer some rows.

        Parameters
        ----------
        rows : values, NaN where nothing is known.
        asked : numbers of the variables whose means and variances are wanted.
        num_samples : samples of each row.
        generator : their randomness.
        """
        given = rows.numpy()
        log_partition = np.full(len(given), -math.inf)
        means, variances = np.full((2, len(given), len(asked)), math.nan)
        shape = (len(given), num_samples, self.model.num_variables)
        samples = np.zeros(shape) if num_samples else None
        for members in self._alike(given):
            look()
            pattern = self._pattern(given[members[0]])
            if pattern is None:
                continue
            found, free_means = pattern.solved(given[members])
            log_partition[members] = found
            means[members] = pattern.spread_out(free_means, given[members])[:, asked]
            variances[members] = pattern.variances[asked]
            if samples is not None:
                for row, mean in zip(members.tolist(), free_means.T, strict=True):
                    drawn = pattern.field.centred(num_samples, generator) + mean[:, None]
                    samples[row] = pattern.spread_out(drawn, given[row][None])
        return GaussianRowAnswers(
            torch.from_numpy(log_partition),
            torch.from_numpy(means),
            torch.from_numpy(variances),
            None if samples is None else torch.from_numpy(samples),
        )

    def _alike(self, given: np.ndarray) -> list[np.ndarray]:
        """Numbers of rows that observe the same, with the same states."""
        keys: dict[bytes, list[int]] = {}
        for number, row in enumerate(given):
            keys.setdefault(self._key(row), []).append(number)
        return [np.array(members) for members in keys.values()]

    def _key(self, row: np.ndarray) -> bytes:
        known, states = np.isnan(row), np.asarray(row[self._states])
        return bytes(known.tobytes()) + bytes(states.tobytes())

    def _pattern(self, row: np.ndarray) -> _Pattern | None:
        """What rows like one have in common; nothing if their states are impossible."""
        key = self._key(row)
        if key not in self._patterns:
            while len(self._patterns) >= _KEPT:
                del self._patterns[next(iter(self._patterns))]
            self._patterns[key] = _Pattern.of(self.model, row, self._states, self._limit)
        return self._patterns[key]


@dataclass(frozen=True, eq=False)
class _Pattern:
    """What rows that observe the same variables have in common.

    Parameters
    ----------
    whole : the field of all real variables.
    field : that of the free ones, with their factor; its shift is of no meaning.
    real : numbers of the real variables in the model.
    is_free : which of the real ones are free.
    variances : of all variables of the model, zero where they are observed.
    """

    whole: GaussianField
    field: GaussianField
    real: np.ndarray
    is_free: Bool[np.ndarray, "real"]
    variances: np.ndarray

    @classmethod
    def of(
        cls, model: FactorGraph, row: np.ndarray, states: Sequence[int], limit: int | None
    ) -> _Pattern | None:
        """Factorise for one row; nothing if its states are impossible."""
        known = ~np.isnan(row)
        problem = gaussian_given(model, known.nonzero()[0].tolist())
        if problem is not None:
            raise ModelError(f"the model is not Gaussian, for {problem}: {INSTEAD}")
        fixed = {v: int(row[v]) if known[v] else 0 for v in states}
        try:
            whole = assembled(conditioned(model, fixed), limit)
        except ImpossibleEvidenceError:
            return None
        real = np.array([v for v in range(model.num_variables) if v not in fixed], dtype=np.int64)
        is_free = ~known[real]
        field = whole.given(dict.fromkeys((~is_free).nonzero()[0].tolist(), 0.0))
        variances = np.zeros(model.num_variables)
        variances[real[is_free]] = field.variances()
        return cls(whole, field, real, is_free, variances)

    def solved(
        self, rows: Float[np.ndarray, "row var"]
    ) -> tuple[Float[np.ndarray, "row"], Float[np.ndarray, "free row"]]:
        """Log Z and means of the free variables of each row."""
        held, free = rows[:, self.real[~self.is_free]], self.is_free.nonzero()[0]
        fixed = (~self.is_free).nonzero()[0]
        precision, shift = self.whole.precision, self.whole.shift
        across = precision[fixed] if len(fixed) else precision[:0]
        moved = shift[free][:, None] - across[:, free].T @ held.T
        inside = held @ shift[fixed] - 0.5 * ((across[:, fixed] @ held.T).T * held).sum(1)
        means = self.field.factor.solve(moved)
        total = self.whole.constant + inside + 0.5 * (moved * means).sum(0)
        return np.asarray(total + self.field.log_normaliser), means

    def spread_out(
        self, free: Float[np.ndarray, "free row"], rows: Float[np.ndarray, "some var"]
    ) -> Float[np.ndarray, "row var"]:
        """Full rows, with values of the free variables filled in."""
        full = np.repeat(rows, free.shape[1], axis=0) if len(rows) == 1 else rows.copy()
        full[:, self.real[self.is_free]] = free.T
        return np.asarray(np.nan_to_num(full, nan=0.0))  # variables of one state
