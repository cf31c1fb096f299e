"""Exact answers about a model: log Z, marginals, the most likely state, samples, conditionals.

The public face of :mod:`deltaai.exact`: names, evidence and memory limits are dealt with here, the
arithmetic in :mod:`deltaai.exact.buckets`. Evidence is taken out of the model first, so observed
variables cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.arguments import (
    checked_bytes,
    checked_flag,
    checked_function,
    checked_object,
    checked_samples,
)
from deltaai.budget import Budget, default_memory_limit
from deltaai.display import Card, Shown, plural
from deltaai.errors import (
    GraphError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    ModelError,
    format_bytes,
)
from deltaai.exact.buckets import BucketTree, Reduce
from deltaai.exact.gaussian.inference import GaussianInference
from deltaai.exact.likeliest import MostLikely
from deltaai.exact.log_tables import log_max_first, log_sum_first
from deltaai.exact.memory import ExactCost, exact_cost
from deltaai.exact.remainder import Remainder
from deltaai.graphs import Dag, Elimination, best_elimination, eliminate
from deltaai.io import as_model
from deltaai.models import Evidence, FactorGraph, States, on_cpu, states_frame
from deltaai.progress import Fraction
from deltaai.randomness import Randomness, as_generator
from deltaai.threads import Turn


class ExactInference(Shown):
    """Exact inference by elimination, within a memory limit.

    Nothing is computed or allocated before a question is asked; what an answer needed is kept for
    the next one. Several threads may ask at once: they are answered one after the other.

    Parameters
    ----------
    model : the target, or the path of a file with one; or what evidence leaves of it, if that has
        been found already.
    evidence : names to labels or state indices of the observed variables.
    memory_limit : bytes the tables may take, also as ``"4GB"`` (default: half of what is free).
    elimination : order to use, over the unobserved variables with more than one state; found
        here by default.
    progress : called with the fraction done during long work.

    Raises
    ------
    MemoryLimitError
        If the tables would not fit; raised before any is allocated.
    """

    def __init__(
        self,
        model: FactorGraph | Remainder | str | Path,
        evidence: Evidence | None = None,
        *,
        memory_limit: int | str | None = None,
        elimination: Elimination | None = None,
        progress: Fraction | None = None,
    ) -> None:
        memory_limit = checked_bytes(memory_limit)
        checked_function("progress", progress)
        if not isinstance(model, Remainder):
            model = Remainder.of(as_model(model), evidence)
        self.model, self.observed, self.free = model.model, model.observed, model.free
        self._fixed, reduced = model.fixed, model.reduced
        self._certain = model.certain_marginals()
        refuse_real(reduced)
        states = reduced.num_states.tolist()
        if elimination is None:
            elimination = best_elimination(reduced.markov_graph(), states)
        remedy = "leave it out, or make one with eliminate"
        checked_object("elimination", elimination, Elimination, remedy, GraphError)
        self.elimination = elimination
        if len(self.elimination.order) != reduced.num_variables:
            raise GraphError(
                f"the elimination is over {len(self.elimination.order)} variables, and "
                f"{reduced.num_variables} are to be eliminated: leave it out, or make one for the "
                "model without observed variables and those of one state"
            )
        self.cost: ExactCost = exact_cost(self.elimination, states)
        limit = default_memory_limit() if memory_limit is None else memory_limit
        if self.cost.peak_bytes > limit:
            raise MemoryLimitError(self.cost.width, self.cost.peak_bytes, limit)
        self._reduced = on_cpu(reduced)
        self._limit, self._most_states = limit, max(states, default=1)
        self._progress = progress
        self._tree: BucketTree | None = None
        self._turn = Turn()  # at the tree

    def _card(self) -> Card:
        given = f", {len(self.observed)} observed" if self.observed else ""
        title = f"Exact inference for {plural(self.model.num_variables, 'variable')}{given}"
        rows = (
            ("width", str(self.cost.width)),
            ("memory", format_bytes(self.cost.peak_bytes)),
            ("answers", "log_partition(), marginals(), map(), sample(n), log_prob(x)"),
        )
        return Card(title, rows)

    # -- answers -------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Log Z: the log of the sum of all scores; with evidence, of the states that agree."""
        with self._turn:
            total = self._after(log_sum_first).log_total()
        if total == -math.inf:
            raise ImpossibleEvidenceError(
                "the evidence has probability zero under the model"
                if self.observed
                else "the model gives every state probability zero: its factors contradict"
            )
        return total

    def marginals(self) -> dict[str, Any]:
        """Probabilities of every variable's states; observed ones are certain."""
        self.log_partition()
        found = dict(self._certain)
        with self._turn:
            for variable, joint in self._clique_marginals():
                size = self._buckets.sizes[variable]
                single = joint.view(size, -1).sum(1)
                found[self._original(variable)] = (single / single.sum()).cpu().numpy()
        return {v.name: found[position] for position, v in enumerate(self.model.variables)}

    def clique_marginals(self) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield the joint marginal of every maximal clique: names, and one axis a name.

        One at a time, because together they may be larger than memory. Other questions may be asked
        in between; one for the most likely state makes the next clique take as long as the first.
        """
        self.log_partition()
        tree = self._buckets
        is_maximal = [True] * tree.num_variables
        for variable, parent in enumerate(tree.parents):
            if parent >= 0 and len(tree.fronts[variable]) == len(tree.fronts[parent]) + 1:
                is_maximal[parent] = False
        walk = self._clique_marginals()
        for _ in range(tree.num_variables):
            with self._turn:  # given up while the caller looks at a clique
                self._after(log_sum_first)
                variable, joint = next(walk)
                if not is_maximal[variable]:
                    continue
                scope = tree.clique(variable)
                table = joint.view([tree.sizes[v] for v in scope]).clone().cpu().numpy()
            yield tuple(self.model.variables[self._original(v)].name for v in scope), table

    def map(self) -> MostLikely:
        """Find a most likely state and its log score."""
        with self._turn:
            tree = self._after(log_max_first)
            score = tree.log_total()
            if score == -math.inf:
                self.log_partition()  # says why
            columns = tree.decode(1, lambda logits: logits.argmax(1))
        return MostLikely.of(self.model, self._full_states(columns)[0], score)

    @overload
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        as_frame: Literal[False] = False,
    ) -> States: ...
    @overload
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        as_frame: Literal[True],
    ) -> Any: ...  # noqa: ANN401
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        as_frame: bool = False,
    ) -> Any:
        """Draw independent exact samples, evidence filled in.

        Parameters
        ----------
        num_samples : how many.
        generator : the randomness, or a seed for it.
        as_frame : return a pandas ``DataFrame`` with a column a variable and labels in the cells.
        """
        num_samples, source = checked_samples(num_samples, 0), as_generator(generator)
        as_frame = checked_flag("as_frame", as_frame)
        needed = 8 * num_samples * (2 * self.model.num_variables + 4 * self._most_states)
        Budget(self._limit).refuse(f"{num_samples} samples", needed, "draw fewer at a time")
        self.log_partition()

        def draw(logits: Float[Tensor, "batch state"]) -> Int[Tensor, "batch"]:
            cumulative = torch.softmax(logits, 1).cumsum(1)
            threshold = torch.rand(
                len(logits), 1, dtype=torch.float64, device=logits.device, generator=source
            )
            # Scaled by the total, so that rounding in the sum can never select an impossible state.
            return (cumulative <= threshold * cumulative[:, -1:]).sum(1)

        with self._turn:
            columns = self._after(log_sum_first).decode(num_samples, draw)
        x = self._full_states(columns)
        return states_frame(self.model, x) if as_frame else x

    def log_prob(self, x: States) -> Float[Tensor, "batch"]:
        """Log-probability of full states given the evidence; -inf where they contradict it."""
        log_prob = self.model.log_score(x).double() - self.log_partition()
        for variable, value in self.observed.items():
            log_prob = torch.where(x[:, variable] == value, log_prob, -math.inf)
        return log_prob

    # -- inside --------------------------------------------------------------------------------

    @property
    def _buckets(self) -> BucketTree:
        with self._turn:
            if self._tree is None:
                self._tree = BucketTree(self._reduced, self.elimination)
            return self._tree

    def _after(self, reduce: Reduce) -> BucketTree:
        """Buckets with messages sent, for sums or for maxima: they hold one kind at a time."""
        tree = self._buckets
        if tree.holds is not reduce:
            tree.send_messages(reduce, self._reporter())
        return tree

    def _clique_marginals(self) -> Iterator[tuple[int, Float[Tensor, "entry"]]]:
        report = self._reporter()
        for variable, joint in self._after(log_sum_first).clique_marginals():
            report(joint.numel())
            yield variable, joint

    def _reporter(self) -> Callable[[int], None]:
        done, total, progress = 0, max(self.cost.total_entries, 1), self._progress

        def report(entries: int) -> None:
            nonlocal done
            done += entries
            if progress is not None:
                progress(done / total)

        return report

    def _original(self, variable: int) -> int:
        return self.free[self._buckets.order[variable]]

    def _full_states(self, columns: Int[Tensor, "free batch"]) -> States:
        shape = (columns.shape[1], self.model.num_variables)
        dtype = torch.long if self.model.is_discrete else torch.float64
        full = torch.zeros(shape, dtype=dtype, device=columns.device)
        for variable, value in self._fixed.items():
            full[:, variable] = value
        if self.free:
            full[:, [self._original(v) for v in range(len(self.free))]] = columns.T.to(dtype)
        return full.to(self.model.device)


def exact_conditionals(
    model: FactorGraph, dag: Dag, *, memory_limit: int | str | None = None
) -> list[Float[Tensor, "..."]]:
    """Compute p(x_v | x_parents) under the model for every variable of a DAG.

    Eliminating in the DAG's order backwards, the bucket of v is over v and its parents, so the
    conditionals are read off the way up. Parent states of probability zero, which have no
    conditional, get the uniform distribution.

    Parameters
    ----------
    model : the target; condition it first if there is evidence.
    dag : an I-map of it: the skeleton must contain the model's Markov graph.

    Returns
    -------
    One table a variable: an axis for each parent, ascending, then the variable's own.
    """
    graph = model.markov_graph()
    if not dag.skeleton.contains(graph):
        raise GraphError(
            "the DAG is no I-map of the model: two variables that share a factor are not joined; "
            "build it from a chordal completion of model.markov_graph()"
        )
    elimination = eliminate(dag.skeleton, dag.order[::-1])
    states = model.num_states.tolist()
    cost = exact_cost(elimination, states)
    memory_limit = checked_bytes(memory_limit)
    limit = default_memory_limit() if memory_limit is None else memory_limit
    all_tables = cost.peak_bytes + 8 * cost.total_entries
    if all_tables > limit:
        raise MemoryLimitError(cost.width, all_tables, limit)
    tree = BucketTree(on_cpu(model), eliminate(graph, elimination.order))
    tree.send_messages(log_sum_first, lambda _: None)
    tables = []
    for variable in range(model.num_variables):
        family = (*dag.parents[variable], variable)
        ranks = [tree.rank[v] for v in family]
        scope = tuple(sorted(ranks))
        flat = tree.conditional_over(tree.rank[variable], scope)
        table = flat.view([tree.sizes[rank] for rank in scope])
        table = table.permute([scope.index(rank) for rank in ranks])
        total = table.sum(-1, keepdim=True)
        tables.append(torch.where(total > 0, table, 1.0 / states[variable]))
    return tables


def refuse_real(model: FactorGraph) -> None:
    """Raise an error about tables of a model that has real variables."""
    for variable in model.variables:
        if variable.is_real:
            raise ModelError(
                f"variable {variable.name!r} is real, and tables are for variables with states: "
                "exact(model) answers Gaussian models, and fit trains a sampler for others"
            )


def exact(
    model: FactorGraph | str | Path,
    evidence: Evidence | None = None,
    *,
    memory_limit: int | str | None = None,
) -> ExactInference | GaussianInference:
    """Prepare exact inference; see :class:`ExactInference` for the questions it answers.

    Where evidence leaves real variables, the model must be Gaussian:
    :class:`~deltaai.exact.gaussian.inference.GaussianInference` answers the same questions then.

    Parameters
    ----------
    model : the target, or the path of a file with one.
    evidence : what was observed: names to labels or state indices, or to numbers.
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).

    Raises
    ------
    ModelError
        If real variables are left and the model is not Gaussian.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> answer = exact(zoo.sprinkler(), {"wet_grass": "yes"})
    >>> round(float(answer.marginals()["rain"][1]), 4)
    0.7079
    """
    left = Remainder.of(as_model(model), evidence)
    if left.reduced.is_discrete:
        return ExactInference(left, memory_limit=memory_limit)
    return GaussianInference(left, memory_limit=memory_limit)
