"""The answer to one question: log Z and marginals, and how they follow from weighted samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deltaai.display import Card, Shown
from deltaai.models import FactorGraph
from deltaai.real_marginals import RealMarginal
from deltaai.trust.drawn import Drawn
from deltaai.trust.estimate import (
    Asked,
    Estimate,
    Marginals,
    Quality,
    joined,
    labelled,
    what_was_checked,
)
from deltaai.trust.pictures import plot_marginals
from deltaai.trust.verdicts import Status, doubted, is_narrow, judge_bracket


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Shown):
    """Posterior marginals and log Z, each with how far to trust it.

    Parameters
    ----------
    marginals : probabilities of each asked variable's states, in the order of its states; of a
        real variable mean, deviation and quantiles.
    partition : log Z of the model given the evidence.
    plan : what was predicted before, if there was something to plan.
    seconds : time the whole took, planning and training included.
    notes : what else is worth knowing, one sentence each; they lower no status.
    """

    marginals: Marginals
    partition: Estimate
    plan: Any = None  # of a folder above this one
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def log_partition(self) -> float:
        """Log Z of the model given the evidence."""
        return float(self.partition)

    @property
    def status(self) -> Status:
        """What the marginals are worth; ``partition.status`` is that of log Z."""
        return self.marginals.status

    @property
    def stderr(self) -> float:
        """Standard error of ``log_partition``."""
        return float(self.partition.stderr)

    @property
    def interval(self) -> tuple[float | np.ndarray, float | np.ndarray]:
        """Where log Z lies with 95 % confidence, if its status allows to say so."""
        return self.partition.interval

    @property
    def bracket(self) -> tuple[float, float] | None:
        """Bounds on log Z, if they were affordable."""
        return self.partition.bracket

    @property
    def ess(self) -> float | None:
        """Effective number of samples, if it was sampled."""
        return self.partition.ess

    @property
    def khat(self) -> float | None:
        """Shape of the weights' tail, if it was sampled."""
        return self.partition.khat

    @property
    def visible_share(self) -> float | None:
        """A missing part with a larger share than this would have been noticed, if checked."""
        return self.marginals.quality.visible_share

    @property
    def method(self) -> str:
        """How it was found."""
        return self.partition.method

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it is not to be trusted, one sentence each, with the remedy."""
        return tuple(dict.fromkeys(self.marginals.doubts + self.partition.doubts))

    def _card(self) -> Card:
        found, rows = self.partition, []
        spread = f" ± {found.stderr:.2g}" if found.ess is not None else ""
        worth = f" ({found.status})" if found.status != self.status else ""
        rows.append(("log Z", f"{self.log_partition:.9g}{spread}{worth}"))
        if found.bracket is not None:
            rows.append(("between", f"{found.bracket[0]:.6g} and {found.bracket[1]:.6g}"))
        if found.ess is not None:
            rows.append(("effective samples", f"{found.ess:.0f} of {found.num_samples}"))
        if self.status != "exact":
            rows.append(("checked", what_was_checked(found.visible_share)))
        rows += self.marginals.rows()
        rows += [("note", note) for note in self.notes]
        title = f"Answer by {self.method} in {self.seconds:.2f} s: {self.status}"
        return Card(title, tuple(rows), self.doubts)

    def plot(self, ax: Any = None) -> Any:  # noqa: ANN401
        """Draw the marginals as bars, with 95 % intervals; needs ``deltaai[plots]``.

        Real variables are lines: where 95 % and the middle half of each lie, and its median.

        Parameters
        ----------
        ax : matplotlib axes to draw on; a new figure by default.

        Returns
        -------
        The axes.
        """
        return plot_marginals(self.marginals, ax)


def finished(
    answer: Answer,
    model: FactorGraph,
    names: Sequence[Asked],
    plan: Any,  # noqa: ANN401  of a folder above this one
    seconds: float,
    notes: tuple[str, ...] = (),
) -> Answer:
    """An answer about some variables, labelled, with what it took and what else to know."""
    states = {variable.name: variable.states for variable in model.variables}
    marginals = labelled(answer.marginals.of(names), states)
    notes = (*answer.notes, *notes)
    return replace(answer, marginals=marginals, plan=plan, seconds=seconds, notes=notes)


def with_observed(
    answer: Answer, model: FactorGraph, observed: Mapping[int, int | float]
) -> Answer:
    """An answer about what evidence leaves of a model, with what was observed, which is certain."""
    found = answer.marginals
    values, errors = dict(found), dict(found.stderr)
    for number, value in observed.items():
        variable = model.variables[number]
        if variable.is_real:
            values[variable.name] = RealMarginal.normal(value, 0.0)
            continue
        values[variable.name] = np.eye(variable.num_states)[int(value)]
        errors[variable.name] = np.zeros(variable.num_states)
    in_order = {v.name: values[v.name] for v in model.variables}
    states = {variable.name: variable.states for variable in model.variables}
    return replace(answer, marginals=Marginals(in_order, found.quality, errors, states))


def with_joints(
    answer: Answer,
    values: Mapping[Any, np.ndarray],
    stderr: Mapping[Any, np.ndarray] | None = None,
) -> Answer:
    """An answer with joint marginals, by tuples of names, and their errors."""
    return replace(answer, marginals=joined(answer.marginals, values, stderr or {}))


def exact_answer(
    marginals: Mapping[str, Any], log_partition: float, seconds: float, method: str
) -> Answer:
    """An answer that is certain."""
    quality = Quality(status="exact", method=method, seconds=seconds)
    return Answer(Marginals(marginals, quality), Estimate(log_partition, **vars(quality)))


def sampled_quality(drawn: Drawn, seconds: float) -> Quality:
    """What weighted samples are worth, by the status that a judge gave them."""
    found, judged = drawn.samples.estimate, drawn.judged
    return Quality(
        status=judged.status,
        method=drawn.samples.method,
        seconds=seconds,
        ess=found.ess,
        khat=found.khat,
        num_samples=found.num_samples,
        degrees=drawn.samples.num_groups - 1,
        doubts=judged.doubts,
        visible_share=judged.visible_share,
    )


def sampled_answer(drawn: Drawn, seconds: float, upper: float | None = None) -> Answer:
    """What weighted samples say, with the status that a judge gave them.

    Parameters
    ----------
    drawn : samples given the evidence.
    seconds : time it took.
    upper : an upper bound on log Z.
    """
    samples, found = drawn.samples, drawn.samples.estimate
    bracket = None if upper is None else (samples.lower_bound, upper)
    if bracket is not None:
        beyond = judge_bracket(found.log_partition, found.stderr, bracket)
        drawn = replace(drawn, judged=doubted(drawn.judged, beyond))
    quality = sampled_quality(drawn, seconds)
    partition = Estimate(found.log_partition, found.stderr, found.elbo, bracket, **vars(quality))
    if bracket is not None and is_narrow(bracket):
        # Then log Z needs no further trust; the marginals do.
        value = min(max(found.log_partition, bracket[0]), bracket[1])
        partition = replace(partition, value=value, status="bounded", doubts=())
    refined = drawn.refined
    states = {variable.name: variable.states for variable in refined.model.variables}
    values, errors = refined.marginals(), refined.marginal_errors()
    marginals = Marginals(values, quality, errors, states)
    return Answer(marginals, partition, seconds=seconds, notes=drawn.notes)
