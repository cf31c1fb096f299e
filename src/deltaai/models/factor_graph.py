"""The target p: a product of factors over discrete variables (equation key ``basic``).

    log p(x) = Σ_k log φ_k(x_{S_k}) - log Z

:class:`FactorGraph` evaluates the sum (``log_score``) and its change when one variable changes,
which is all that local objectives and Gibbs moves need (left side of ``delta-constraint``). It
does not normalise: see :mod:`deltaai.exact`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.arguments import checked_flag, checked_items, checked_object
from deltaai.devices import checked_device
from deltaai.display import Card, listing, plural
from deltaai.errors import (
    ModelError,
    StateError,
    shown,
)
from deltaai.graphs import UndirectedGraph
from deltaai.models.assembly import assemble
from deltaai.models.evidence import Evidence, named_evidence, number_of, resolve_evidence
from deltaai.models.factors import Factor, has_values
from deltaai.models.groups import Columns, FactorGroup
from deltaai.models.incidence import Incidence
from deltaai.models.variable import StateIndex, Variable

States = Int[Tensor, "batch var"]

# Factors times states that are evaluated at once.
BLOCK_ENTRIES = 2**20
_MOST_SHOWN = 10  # variables, in a notebook


class FactorGraph:
    """An unnormalised distribution over discrete variables, as a product of factors.

    Parameters
    ----------
    variables : the variables, with distinct names; their order is the order of columns in states.
    factors : the factors; variables in no factor are uniform.
    dtype : floating type of all values.

    Examples
    --------
    >>> import torch
    >>> from deltaai.models import FactorGraph, TableFactor, Variable
    >>> rain, wet = Variable("rain", ["no", "yes"]), Variable("wet", ["no", "yes"])
    >>> agree = TableFactor.from_values(["rain", "wet"], [[3.0, 1.0], [1.0, 2.0]])
    >>> model = FactorGraph([rain, wet], [agree])
    >>> model.log_score(torch.tensor([[0, 0], [1, 0]])).exp().round(decimals=3).tolist()
    [3.0, 1.0]
    >>> model.condition({"rain": "yes"}).variables
    (Variable(name='wet', states=('no', 'yes')),)
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        factors: Sequence[Factor] = (),
        *,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        _check_dtype(dtype)
        self.variables: tuple[Variable, ...] = checked_items(
            "variables", variables, "Variables", ModelError
        )
        self._index = _index_of(self.variables)
        listed = checked_items("factors", factors, "factors, such as TableFactors", ModelError)
        self.groups = assemble(self.variables, self._index, listed, dtype)
        self.dtype = dtype
        self.device = torch.device("cpu")

    @classmethod
    def from_groups(
        cls, variables: Sequence[Variable], groups: Sequence[FactorGroup]
    ) -> FactorGraph:
        """Build from groups directly, without one object a factor: for generated, large models."""
        made = cls(variables)
        made.groups = checked_items("groups", groups, "groups of factors", ModelError)
        for group in made.groups:
            if not isinstance(group, FactorGroup):
                raise ModelError(f"{shown(group)} is no group of factors: give those of a model")
        if made.groups:
            made.dtype = made.groups[0].dtype
            made.device = made.groups[0].scopes.device
        return made

    # -- shape ---------------------------------------------------------------------------------

    @property
    def num_variables(self) -> int:
        """Number of variables."""
        return len(self.variables)

    @property
    def num_factors(self) -> int:
        """Number of factors."""
        return sum(group.num_factors for group in self.groups)

    @cached_property
    def num_states(self) -> Int[Tensor, "var"]:
        """Number of states of each variable."""
        return torch.tensor(
            [len(variable.states) for variable in self.variables],
            dtype=torch.long,
            device=self.device,
        )

    @cached_property
    def state_offsets(self) -> Int[Tensor, "var_plus_one"]:
        """Where each variable begins when all (variable, state) pairs stand in one row."""
        zero = torch.zeros(1, dtype=torch.long, device=self.device)
        return torch.cat((zero, self.num_states.cumsum(0)))

    def index(self, name: str) -> int:
        """Return the column of a variable."""
        return number_of(name, self._index)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors one by one, in the order in which they were given."""
        numbered: list[tuple[int, Factor]] = []
        for group in self.groups:
            numbered += zip(group.ids.tolist(), group.as_factors(self.variables), strict=True)
        return tuple(factor for _, factor in sorted(numbered, key=lambda pair: pair[0]))

    def parameters(self) -> Iterator[Tensor]:
        """Yield the tensors a learner may change: those of any factor that require gradients."""
        for group in self.groups:
            yield from group.parameters()

    def markov_graph(self) -> UndirectedGraph:
        """Graph with an edge between any two variables that share a factor."""
        return UndirectedGraph.from_scopes(
            self.num_variables, [group.scopes.cpu().numpy() for group in self.groups]
        )

    # -- evaluation ----------------------------------------------------------------------------

    def log_score(self, x: States) -> Float[Tensor, "batch"]:
        """Unnormalised log density: the sum of all log-factors."""
        self.check_states(x)
        # In blocks of states whose factors fit in the cache: memory stays bounded and fresh pages,
        # which cost more than the arithmetic, are few.
        most = max((group.num_factors for group in self.groups), default=0)
        blocks = torch.split(x, max(BLOCK_ENTRIES // max(most, 1), 1)) if len(x) else (x,)
        return torch.cat([self._log_score_of(self._columns(block)) for block in blocks])

    def _log_score_of(self, columns: Columns) -> Float[Tensor, "batch"]:
        total = torch.zeros(columns.shape[1], dtype=self.dtype, device=self.device)
        for group in self.groups:
            total = total + group.log_score(columns)
        return total

    def log_ratio(
        self, x: States, variable: Int[Tensor, "batch"], value: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Change of the log score when one variable a row takes a new value.

        Only the factors that contain the row's variable are touched. A move between two
        impossible states has no ratio: it is NaN.
        """
        columns = self.columns(x)
        self._check_change(variable, value, columns.shape[1])
        variable = variable.long()  # torch indexes with no other type everywhere
        from deltaai.models.changes import log_changes_at  # noqa: PLC0415  which knows this class

        at = torch.arange(columns.shape[1], device=self.device)
        return log_changes_at(self, columns, at, variable, value)

    def local_log_scores(self, x: States) -> Float[Tensor, "batch all_states"]:
        """Log score of every single-variable setting, from the factors that contain it.

        Entry ``state_offsets[u] + k`` is Σ_{factors with u} log φ(x with x_u = k): the
        unnormalised log of p(x_u = k | all others), and so what Gibbs sampling needs.
        """
        columns = self.columns(x)
        total_states = int(self.state_offsets[-1])
        scores = torch.zeros(total_states, columns.shape[1], dtype=self.dtype, device=self.device)
        for group in self.groups:
            for members, slices in group.local_slices(columns):
                first = self.state_offsets[members]
                rows = first[:, None] + torch.arange(slices.shape[1], device=self.device)
                scores = scores.index_add(0, rows.reshape(-1), slices.flatten(0, 1))
        return scores.T

    def log_ratios(self, x: States) -> Float[Tensor, "batch all_states"]:
        """Change of the log score for every variable and every value it could take instead.

        Entry ``state_offsets[u] + k`` is log p(x with x_u = k) - log p(x); zero at the value x has.
        """
        scores = self.local_log_scores(x)
        current = scores.gather(1, x.long() + self.state_offsets[:-1])
        return scores - current.repeat_interleave(self.num_states, dim=1)

    def check_states(self, x: States) -> None:
        """Refuse what is not a batch of full states."""
        if not isinstance(x, Tensor) or not has_values(x):
            kind = "a sparse or meta tensor" if isinstance(x, Tensor) else shown(x)
            raise StateError(
                f"states must be an integer tensor, not {kind}: write for example "
                "torch.tensor([[0, 1]]), or torch.from_numpy(array)"
            )
        if x.ndim != 2 or x.shape[1] != self.num_variables:
            raise StateError(
                f"states must have shape (batch, {self.num_variables}), not {tuple(x.shape)}"
            )
        if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise StateError(f"states must be integers, not {x.dtype}")
        if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
            x = x.long()  # torch compares no wider unsigned integers than bytes
        if x.numel():
            lowest, highest = (int(bound) for bound in torch.aminmax(x))
            if lowest < 0 or highest >= self._fewest_states:
                self._check_values(x)

    def _check_values(self, x: States) -> None:
        is_bad = (x < 0) | (x >= self.num_states)
        if bool(is_bad.any()):
            row, column = is_bad.nonzero()[0].tolist()
            variable = self.variables[column]
            raise StateError(
                f"row {row + 1} (x[{row}]) gives variable {variable.name!r} the state "
                f"{int(x[row, column])}, but its states are 0 to {variable.num_states - 1}"
            )

    def columns(self, x: States) -> Columns:
        """Check states and turn them into columns, in the smallest integer type that holds them."""
        self.check_states(x)
        return self._columns(x)

    def _columns(self, x: States) -> Columns:
        return x.to(self._column_dtype).T.contiguous()

    def _check_change(self, variable: Tensor, value: Tensor, batch: int) -> None:
        for name, integers in (("variable", variable), ("value", value)):
            remedy = "give integers, one a row of the states"
            checked_object(name, integers, Tensor, remedy, StateError)
        if variable.shape != (batch,) or value.shape != (batch,):
            raise StateError(
                f"variable and value must have shape ({batch},), one a row of the states, not "
                f"{tuple(variable.shape)} and {tuple(value.shape)}"
            )
        for integers in (variable, value):
            if (
                integers.is_floating_point()
                or integers.is_complex()
                or integers.dtype == torch.bool
            ):
                raise StateError(f"variable and value must be integers, not {integers.dtype}")
        variable = variable.long()
        if bool(((variable < 0) | (variable >= self.num_variables)).any()):
            raise StateError(f"variables are numbered 0 to {self.num_variables - 1}")
        if bool(((value < 0) | (value >= self.num_states[variable])).any()):
            raise StateError("a new value lies outside the states of its variable")

    @cached_property
    def _fewest_states(self) -> int:
        return int(self.num_states.min()) if self.num_variables else 0

    @cached_property
    def _column_dtype(self) -> torch.dtype:
        most = int(self.num_states.max()) if self.num_variables else 1
        return torch.int8 if most <= 127 else torch.int32

    @cached_property
    def incidences(self) -> tuple[Incidence, ...]:
        """Which factors of each group contain a variable."""
        return tuple(Incidence.build(group.scopes, self.num_variables) for group in self.groups)

    # -- derived models ------------------------------------------------------------------------

    def resolve_evidence(self, evidence: Evidence | None) -> dict[int, int]:
        """Turn names and labels into variable and state numbers."""
        return resolve_evidence(self.variables, self._index, evidence)

    def named_evidence(self, observed: Mapping[int, int]) -> dict[str, StateIndex]:
        """Turn variable and state numbers into evidence that nothing can misread.

        The way back from :meth:`resolve_evidence`: a plain number may also be a label.
        """
        return named_evidence(self.variables, observed)

    def condition(self, evidence: Evidence | None) -> FactorGraph:
        """Return the model of the remaining variables, some being fixed at observed states.

        Scores are kept: the reduced model's log score is the full model's with the evidence
        filled in, so its log Z is the log of the evidence's unnormalised probability.
        """
        from deltaai.models.conditioning import conditioned  # noqa: PLC0415  which knows this class

        return conditioned(self, self.resolve_evidence(evidence))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> FactorGraph:
        """Return the model on another device or in another floating type; this one is unchanged."""
        if dtype is not None:
            _check_dtype(dtype)
        device = checked_device(device)
        moved = FactorGraph.from_groups(
            self.variables, [group.to(device, dtype) for group in self.groups]
        )
        moved.dtype = dtype or self.dtype
        moved.device = device if device is not None else self.device
        return moved

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401
        """Draw the variables, joined where they share a factor; needs ``deltaai[plots]``.

        Parameters
        ----------
        ax : matplotlib axes to draw on; a new figure by default.

        Returns
        -------
        The axes.
        """
        from deltaai.models.drawing import draw_model  # noqa: PLC0415  which knows this class

        return draw_model(self, ax)

    def content_hash(self, *, learned: bool = True) -> str:
        """SHA-256 of all that the distribution depends on: variables, states, factors, in order.

        Parameters
        ----------
        learned : whether the values of parameters count, too, or only their shapes.
        """
        learned, digest = checked_flag("learned", learned), hashlib.sha256()
        for variable in self.variables:
            digest.update(repr((variable.name, variable.states)).encode())
        for group in self.groups:
            digest.update(type(group).__name__.encode())
            for name, value in group.content():
                array = value.detach().cpu().contiguous().numpy()
                digest.update(f"{name}{array.dtype}{array.shape}".encode())
                if learned or not value.requires_grad:
                    digest.update(array.tobytes())
        return digest.hexdigest()

    def _repr_html_(self) -> str:
        shown = [f"{v.name} ({listing(v.states, 4)})" for v in self.variables[:_MOST_SHOWN]]
        more = self.num_variables - len(shown)
        if more:
            shown.append(f"and {more} more")
        largest = max((group.arity for group in self.groups), default=0)
        rows = (
            ("variables", "; ".join(shown)),
            ("factors", f"{self.num_factors}, over up to {plural(largest, 'variable')}"),
        )
        return Card(repr(self), rows).html()

    def __repr__(self) -> str:
        return f"FactorGraph({self.num_variables} variables, {self.num_factors} factors)"


def _index_of(variables: Sequence[Variable]) -> dict[str, int]:
    index: dict[str, int] = {}
    for position, variable in enumerate(variables):
        if not isinstance(variable, Variable):
            raise ModelError(
                f"variable {position} is a {type(variable).__name__}, not a Variable: write for "
                "example Variable('rain', ['no', 'yes'])"
            )
        if variable.name in index:
            raise ModelError(f"two variables are named {variable.name!r}: names must be distinct")
        index[variable.name] = position
    return index


def _check_dtype(dtype: object) -> None:
    remedy = "values of factors are floating, such as torch.float64"
    kind = checked_object("dtype", dtype, torch.dtype, remedy, ModelError)
    if not kind.is_floating_point:
        raise ModelError(f"values of factors are floating, not {dtype}")
