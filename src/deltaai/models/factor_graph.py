"""The target p: a product of factors over variables (equation key ``basic``).

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
from jaxtyping import Bool, Float, Float64, Int, Num
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
from deltaai.models.assembly import assemble, coordinates_of, index_of
from deltaai.models.evidence import Evidence, named_evidence, number_of, resolve_evidence
from deltaai.models.factors import Factor
from deltaai.models.groups import Columns, FactorGroup
from deltaai.models.incidence import Incidence
from deltaai.models.state_checks import States, check_states, places_of, states_by_name
from deltaai.models.variable import StateIndex, Variable

# Factors times states that are evaluated at once.
BLOCK_ENTRIES = 2**20
_MOST_SHOWN = 10  # variables, in a notebook


class FactorGraph:
    """An unnormalised distribution over variables, as a product of factors.

    Parameters
    ----------
    variables : the variables, with distinct names; their order is the order of columns in states. A
        vector has a column for each coordinate, and is then named in scopes and evidence as a whole
        or by coordinate, ``"hand[0]"``.
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
        check_dtype(dtype)
        given = checked_items("variables", variables, "Variables", ModelError)
        self.variables: tuple[Variable, ...] = coordinates_of(given)
        self._index = index_of(self.variables)
        listed = checked_items("factors", factors, "factors, such as TableFactors", ModelError)
        self.groups = assemble(self.variables, self._places, listed, dtype)
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
    def nodes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and columns of the variables as they were given: vectors as a whole."""
        columns: dict[str, list[int]] = {}
        for number, variable in enumerate(self.variables):
            columns.setdefault(variable.node, []).append(number)
        return tuple((name, tuple(numbers)) for name, numbers in columns.items())

    @cached_property
    def _places(self) -> dict[str, tuple[int, ...]]:
        """Columns of every name: of a vector those of all coordinates."""
        return {**dict(self.nodes), **{name: (n,) for name, n in self._index.items()}}

    def places(self, name: str) -> tuple[int, ...]:
        """Columns of a variable: one, or those of all coordinates of a vector."""
        return places_of(name, self._places)

    @cached_property
    def is_discrete(self) -> bool:
        """Whether all variables have states."""
        return not any(variable.is_real for variable in self.variables)

    @cached_property
    def is_real(self) -> Bool[Tensor, "var"]:
        """Whether each variable is a real number."""
        is_real = [variable.is_real for variable in self.variables]
        return torch.tensor(is_real, dtype=torch.bool, device=self.device)

    @cached_property
    def bounds(self) -> tuple[Float64[Tensor, "var"], Float64[Tensor, "var"]]:
        """The lowest and the highest value of each variable; states count from zero."""
        ends = [
            (0.0, v.num_states - 1.0) if v.support is None else (v.support.low, v.support.high)
            for v in self.variables
        ]
        both = torch.tensor(ends, dtype=torch.float64, device=self.device).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    @cached_property
    def num_states(self) -> Int[Tensor, "var"]:
        """Number of states of each variable, all of which must have some."""
        for variable in self.variables:
            if variable.is_real:
                raise ModelError(
                    f"variable {variable.name!r} is real and has no states: this is for models "
                    "whose variables have states (train a sampler with fit)"
                )
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

    def log_score(self, x: States | Mapping[str, Any]) -> Float[Tensor, "batch"]:
        """Unnormalised log density: the sum of all log-factors.

        Parameters
        ----------
        x : states, one row each; or a mapping of names to the values in each row.
        """
        if isinstance(x, Mapping):
            x = states_by_name(self, x)
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
        self, x: States, variable: Int[Tensor, "batch"], value: Num[Tensor, "batch"]
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
        check_states(self, x)

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
            is_value = integers is value and not self.is_discrete
            if (
                (integers.is_floating_point() and not is_value)
                or integers.is_complex()
                or integers.dtype == torch.bool
            ):
                raise StateError(f"variable and value must be integers, not {integers.dtype}")
        variable = variable.long()
        if bool(((variable < 0) | (variable >= self.num_variables)).any()):
            raise StateError(f"variables are numbered 0 to {self.num_variables - 1}")
        low, high = (bound[variable] for bound in self.bounds)
        is_whole = self.is_real[variable] | (value == value.round())
        if not bool(((value >= low) & (value <= high) & is_whole).all()):
            raise StateError("a new value lies outside the states of its variable")

    @cached_property
    def fewest_states(self) -> int:
        """Number of states of the variable that has the fewest."""
        return int(self.num_states.min()) if self.num_variables else 0

    @cached_property
    def _column_dtype(self) -> torch.dtype:
        if not self.is_discrete:
            return self.dtype
        most = int(self.num_states.max()) if self.num_variables else 1
        return torch.int8 if most <= 127 else torch.int32

    @cached_property
    def incidences(self) -> tuple[Incidence, ...]:
        """Which factors of each group contain a variable."""
        return tuple(Incidence.build(group.scopes, self.num_variables) for group in self.groups)

    # -- derived models ------------------------------------------------------------------------

    def resolve_evidence(self, evidence: Evidence | None) -> dict[int, Any]:
        """Turn names and labels into numbers of variables, and of states or values."""
        return resolve_evidence(self.variables, self._places, evidence)

    def named_evidence(self, observed: Mapping[int, int | float]) -> dict[str, StateIndex | float]:
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
            check_dtype(dtype)
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
            if variable.is_real:
                digest.update(repr(variable).encode())
        for group in self.groups:
            digest.update(type(group).__name__.encode())
            for name, value in group.content():
                array = value.detach().cpu().contiguous().numpy()
                digest.update(f"{name}{array.dtype}{array.shape}".encode())
                if learned or not value.requires_grad:
                    digest.update(array.tobytes())
        return digest.hexdigest()

    def _repr_html_(self) -> str:
        shown = [
            f"{v.name} ({listing(v.states, 4) if v.support is None else v.support})"
            for v in self.variables[:_MOST_SHOWN]
        ]
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


def check_dtype(dtype: object) -> None:
    """Refuse what is no floating type."""
    remedy = "values of factors are floating, such as torch.float64"
    kind = checked_object("dtype", dtype, torch.dtype, remedy, ModelError)
    if not kind.is_floating_point:
        raise ModelError(f"values of factors are floating, not {dtype}")
