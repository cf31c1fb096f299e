"""A model on fewer states, and the way between its states and those of the original.

With D_v the states of v that are left and x' the columns of x that are not fixed,

    log score(x) = log score'(x') + log_scale      for all x with x_v in D_v,

so log Z = log Z' + log_scale, and marginals agree once the missing states are put back as zeros.

This file does not find out which states are left (:mod:`deltaai.models.zeros.determinism`) and
does not build the smaller model (:mod:`deltaai.models.zeros.restriction`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.errors import ModelError, StateError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.variable import StateIndex


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller model with the same distribution over what is possible.

    Parameters
    ----------
    original : the model it was made from.
    model : the smaller one; its variables keep their names, order and labels.
    fixed : the original state of each variable that ``model`` does not have.
    kept_states : the original states that are left, for each variable of ``model``.
    log_scale : log Z of the original, evidence included, less log Z of ``model``.
    """

    original: FactorGraph
    model: FactorGraph
    fixed: dict[str, StateIndex]
    kept_states: tuple[tuple[int, ...], ...]
    log_scale: float

    @classmethod
    def unchanged(cls, model: FactorGraph) -> Reduction:
        """Nothing removed."""
        return cls(
            model, model, {}, tuple(tuple(range(v.num_states)) for v in model.variables), 0.0
        )

    @property
    def is_smaller(self) -> bool:
        """Whether a state or a variable was removed."""
        return int(self.model.state_offsets[-1]) < int(self.original.state_offsets[-1])

    def expand(self, states: Int[Tensor, "batch remaining"]) -> Int[Tensor, "batch var"]:
        """Full states of the original model, from those of the smaller one."""
        self.model.check_states(states)
        full = self._fixed_row.repeat(len(states), 1)
        full[:, self._remaining] = self._kept_row[self.model.state_offsets[:-1] + states]
        return full

    def reduce(self, states: Int[Tensor, "batch var"]) -> Int[Tensor, "batch remaining"]:
        """States of the smaller model, from full ones of the original.

        Raises
        ------
        StateError
            If a state has been ruled out; ask :meth:`is_possible` first where that may be.
        """
        smaller = self._smaller(states)
        is_out = smaller < 0
        if bool(is_out.any()):
            row, column = is_out.nonzero()[0].tolist()
            variable = self.original.variables[column]
            raise StateError(
                f"row {row + 1} gives variable {variable.name!r} the state "
                f"{variable.states[int(states[row, column])]!r}, which evidence or zeros rule out: "
                "leave out such rows with is_possible"
            )
        return smaller[:, self._remaining]

    def is_possible(self, states: Int[Tensor, "batch var"]) -> Bool[Tensor, "batch"]:
        """Which rows hold no state that has been ruled out."""
        return (self._smaller(states) >= 0).all(1)

    def expand_marginals(self, marginals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Marginals of all original variables, zero at the states that have been ruled out."""
        found: dict[str, np.ndarray] = {}
        for variable, kept in zip(self.model.variables, self.kept_states, strict=True):
            row = np.asarray(marginals[variable.name]) if variable.name in marginals else None
            if row is None or row.shape != (len(kept),):
                raise ModelError(
                    f"the marginal of {variable.name!r} "
                    f"{'is missing' if row is None else f'has shape {row.shape}'}: give "
                    f"{len(kept)} probabilities for every variable of the smaller model"
                )
            full = np.zeros(self.original.variables[self.original.index(variable.name)].num_states)
            full[list(kept)] = row
            found[variable.name] = full
        for name, state in self.fixed.items():
            found[name] = np.zeros(self.original.variables[self.original.index(name)].num_states)
            found[name][state] = 1.0
        return {variable.name: found[variable.name] for variable in self.original.variables}

    def expand_joint(self, names: Sequence[str], joint: np.ndarray) -> np.ndarray:
        """Joint marginal of original variables, from that of those which the smaller model has.

        Parameters
        ----------
        names : the variables, of the original model.
        joint : an axis for each of them that is not fixed, in order; or one number for all.
        """
        kept = {
            v.name: states for v, states in zip(self.model.variables, self.kept_states, strict=True)
        }
        indices = [list(kept.get(name, (self.fixed.get(name, 0),))) for name in names]
        sizes = [self.original.variables[self.original.index(name)].num_states for name in names]
        full = np.zeros(sizes)
        full[np.ix_(*indices)] = (
            joint.reshape([len(index) for index in indices]) if joint.ndim else joint
        )
        return full

    @cached_property
    def _remaining(self) -> Int[Tensor, "remaining"]:
        """Original number of each variable of the smaller model."""
        columns = [self.original.index(variable.name) for variable in self.model.variables]
        return torch.tensor(columns, dtype=torch.long, device=self.original.device)

    @cached_property
    def _fixed_row(self) -> Int[Tensor, "var"]:
        """State of every fixed variable in a full state, and zero elsewhere."""
        row = [self.fixed.get(variable.name, 0) for variable in self.original.variables]
        return torch.tensor(row, dtype=torch.long, device=self.original.device)

    @cached_property
    def _kept_row(self) -> Int[Tensor, "kept"]:
        """Original state of every (variable, state) pair of the smaller model."""
        row = [state for states in self.kept_states for state in states]
        return torch.tensor(row, dtype=torch.long, device=self.original.device)

    @cached_property
    def _smaller_state(self) -> Int[Tensor, "all_states"]:
        """New state of every original (variable, state) pair; -1 where it is ruled out."""
        offsets = self.original.state_offsets.tolist()
        smaller = [-1] * offsets[-1]
        for column, kept in zip(self._remaining.tolist(), self.kept_states, strict=True):
            for new, state in enumerate(kept):
                smaller[offsets[column] + state] = new
        for name, state in self.fixed.items():
            smaller[offsets[self.original.index(name)] + state] = 0
        return torch.tensor(smaller, dtype=torch.long, device=self.original.device)

    def _smaller(self, states: Int[Tensor, "batch var"]) -> Int[Tensor, "batch var"]:
        self.original.check_states(states)
        return self._smaller_state[self.original.state_offsets[:-1] + states]
