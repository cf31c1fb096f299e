"""Many rows of evidence against one model: all of them in batches, by one method.

Where the tables fit, rows are answered exactly, many at a time
(:class:`~deltaai.exact.RowInference`), or one by one if each alone has an exact plan
(:mod:`deltaai.inference.exact_rows`). Otherwise one sampler is trained for all rows: given the
values of a fixed set if every row observes the same variables, for any evidence if not. A row is
judged by its weights and by a second opinion (:mod:`deltaai.inference.trust`). In very long tables
some rows, spread over the table, have a second opinion; the others are called ``"unchecked"``, and
if fault is found with a good part of those that were checked they are not trusted either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.arguments import MOST_SAMPLES, checked_count
from deltaai.errors import (
    ConfigError,
    EvidenceError,
    ImpossibleEvidenceError,
    MemoryLimitError,
    Setting,
    WeightError,
)
from deltaai.exact import RowInference, default_memory_limit
from deltaai.exact.inference import ExactInference, Progress
from deltaai.inference.estimate import Asked
from deltaai.inference.exact_rows import answer_rows_exactly
from deltaai.inference.fit import fit
from deltaai.inference.posterior import Drawn
from deltaai.inference.questions import (
    asked_names,
    refuse_joints,
    refuse_training,
    resolve,
    suitable_smoothing,
)
from deltaai.inference.sampler import Sampler
from deltaai.inference.table_answer import IMPOSSIBLE, TableAnswer
from deltaai.io.evidence_table import rows_from_table
from deltaai.models import FactorGraph, StateIndex
from deltaai.models.determinism import propagate_zeros
from deltaai.progress import reporting
from deltaai.randomness import generator_of
from deltaai.training.loop import Progress as TrainingProgress

METHODS = ("auto", "exact", "sampler")
NUM_SAMPLES = 1000  # of a row
CHECKED_ROWS = 1000  # rows that get a second opinion, at most
# Share of the checked rows that may be faulty before those that were not checked are doubted.
_SHARE_FAULTY = 0.1


def query_table(
    source: FactorGraph | Sampler | str | Path,
    evidence: object,
    of: Sequence[Asked] | None = None,
    *,
    method: str = "auto",
    num_samples: int | None = None,
    samples: int = 0,
    check_rows: int = CHECKED_ROWS,
    check_samples: int | None = None,
    memory_limit: int | str | None = None,
    time_limit: float | int | None = None,
    seed: int = 0,
    progress: bool | Progress | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
    **settings: Any,  # noqa: ANN401
) -> TableAnswer:
    """Posterior probabilities for many rows of evidence.

    Parameters
    ----------
    source : a model, a sampler that was trained for one, or the path of a file with either.
    evidence : a ``DataFrame`` with a column for each variable that may be observed and blanks where
        it is not, a list of mappings, or a tensor of states with -1 for unknown.
    of : the variables to report; all by default.
    method : ``"auto"`` is exact where the tables fit, ``"exact"``, or ``"sampler"``.
    num_samples : samples to draw for a row, where rows are sampled (1,000).
    samples : states to return for each row.
    check_rows : rows that get a second opinion at most, spread over the table, where rows are
        sampled; the others are ``"unchecked"``.
    check_samples : samples of a second opinion (as many as a row has).
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
    time_limit : seconds that training a sampler may take.
    seed : of all randomness.
    progress : whether to show bars while it takes long; by default in a terminal and in a notebook.
        A function is called with the fraction of the rows that is done.
    watch : called after every update of training.
    settings : of training, if a sampler has to be trained: what ``fit`` takes, such as ``steps``.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> answer = query_table(zoo.sprinkler(), [{"wet_grass": "yes"}, {}], of=["rain"])
    >>> answer.probabilities[:, 1].round(3).tolist(), answer.status
    ([0.708, 0.5], ('exact', 'exact'))
    """
    with reporting(progress, watch, "answering") as reports:
        return _ask(
            source,
            evidence,
            of,
            method=method,
            num_samples=num_samples,
            samples=samples,
            check_rows=check_rows,
            check_samples=check_samples,
            memory_limit=memory_limit,
            time_limit=time_limit,
            seed=seed,
            progress=reports.fraction,
            watch=reports.training,
            settings=settings,
        )


def _ask(
    source: FactorGraph | Sampler | str | Path,
    evidence: object,
    of: Sequence[Asked] | None,
    *,
    method: str,
    num_samples: int | None,
    samples: int,
    check_rows: int,
    check_samples: int | None,
    memory_limit: int | str | None,
    time_limit: float | int | None,
    seed: int,
    progress: Progress | None,
    watch: Callable[[TrainingProgress], None] | None,
    settings: dict[str, Any],
) -> TableAnswer:
    """Answer all rows, and tell those who listen how far it is."""
    start = time.perf_counter()
    question = resolve(
        source,
        evidence,
        method=method,
        methods=METHODS,
        num_samples=num_samples,
        usual_samples=NUM_SAMPLES,
        check_samples=check_samples,
        usual_checks=None,
        memory_limit=memory_limit,
        time_limit=time_limit,
        seed=seed,
    )
    samples = checked_count("samples", samples, 0, MOST_SAMPLES)
    source, model, num_samples = question.source, question.model, question.num_samples
    memory_limit, time_limit, seed = question.memory_limit, question.time_limit, question.seed
    rows = checked_rows(evidence, model)
    asked = refuse_joints(asked_names(model, of), "a table of cases", "ask for one case at a time")
    limit = default_memory_limit() if memory_limit is None else memory_limit
    generator = generator_of(seed)
    found = _Found(model, rows, asked, samples, question.notes)
    checks = checked_count("check_rows", check_rows), question.check_samples
    if isinstance(source, Sampler):
        if method == "exact":
            raise ConfigError(
                Setting("method"), " is 'exact', but a sampler was given: give its model"
            )
        _sampled(found, source, num_samples, checks, generator, progress)
        return found.answer("sampler", start)
    if method != "sampler":
        try:
            engine = RowInference(model, _always_observed(rows), memory_limit=limit)
        except MemoryLimitError:
            if not samples and _exact_one_by_one(found, limit, time_limit, progress):
                return found.answer("elimination, row by row", start)
            if method == "exact":
                raise
        else:
            _exact(found, engine, limit, generator, progress)
            return found.answer("elimination of many rows", start)
    if time_limit is not None:
        settings = {"time_limit": time_limit, **settings}
    sampler = _trained(model, rows, limit, seed, watch, settings)
    _sampled(found, sampler, num_samples, checks, generator, progress)
    return found.answer("sampler", start)


def checked_rows(evidence: object, model: FactorGraph) -> Int[Tensor, "row var"]:
    """Rows of evidence as states, -1 for unknown, from whatever holds them."""
    if not isinstance(evidence, Tensor):
        return rows_from_table(evidence, model)
    expected = f"integers of shape (rows, {model.num_variables}), with -1 for unknown"
    if evidence.ndim != 2 or evidence.shape[1] != model.num_variables:
        raise EvidenceError(f"rows have shape {tuple(evidence.shape)}: give {expected}")
    if evidence.is_floating_point() or bool(
        ((evidence < -1) | (evidence >= model.num_states)).any()
    ):
        raise EvidenceError(f"rows hold values that are no states: give {expected}")
    return evidence.long()


class _Found:
    """What is known of each row so far."""

    def __init__(
        self,
        model: FactorGraph,
        rows: Int[Tensor, "row var"],
        asked: list[str],
        samples: int,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.model, self.rows, self.asked, self.notes = model, rows, asked, notes
        offsets, sizes = model.state_offsets.tolist(), model.num_states.tolist()
        numbers = [model.index(name) for name in asked]
        self.pairs = [offsets[v] + state for v in numbers for state in range(sizes[v])]
        shape = (len(rows), len(self.pairs))
        self.probabilities, self.errors = np.full(shape, np.nan), np.zeros(shape)
        self.log_partition = np.full(len(rows), np.nan)
        self.stderr, self.ess, self.khat, self.visible = np.full((4, len(rows)), np.nan)
        self.status = ["untrusted"] * len(rows)
        self.doubts: list[tuple[str, ...]] = [()] * len(rows)
        kept = (len(rows), samples, model.num_variables)
        self.samples = torch.zeros(kept, dtype=torch.long, device="cpu") if samples else None

    def evidence(self, row: int) -> dict[str, StateIndex]:
        """Evidence of a row by name."""
        states = enumerate(self.rows[row].tolist())
        return self.model.named_evidence({v: state for v, state in states if state >= 0})

    def set_impossible(self, row: int) -> None:
        """No state agrees with the row's evidence."""
        self.status[row], self.log_partition[row] = IMPOSSIBLE, -np.inf
        self.stderr[row] = 0.0
        self.doubts[row] = ("the evidence has probability zero under the model",)

    def set_unsampled(self, row: int) -> None:
        """No sample of a row is possible; perhaps nothing is."""
        try:
            propagate_zeros(self.model, self.evidence(row))
        except ImpossibleEvidenceError:
            self.set_impossible(row)
        else:
            self.doubt(row, ("no sample agrees with the evidence: draw more, or train longer",))

    def set(self, row: int, drawn: Drawn) -> None:
        """Take down what a row's samples say, and what they are worth."""
        mean, error = drawn.refined.moments
        self.probabilities[row] = mean[self.pairs].numpy()
        self.errors[row] = error[self.pairs].numpy()
        estimate, judged = drawn.samples.estimate, drawn.judged
        self.log_partition[row], self.stderr[row] = estimate.log_partition, estimate.stderr
        self.ess[row], self.khat[row] = estimate.ess, estimate.khat
        self.status[row], self.doubts[row] = judged.status, judged.doubts
        if judged.visible_share is not None:
            self.visible[row] = judged.visible_share

    def doubt(self, row: int, doubts: tuple[str, ...]) -> None:
        """Reasons not to trust a row."""
        if doubts and self.status[row] != IMPOSSIBLE:
            self.status[row] = "untrusted"
            self.doubts[row] = tuple(dict.fromkeys(self.doubts[row] + doubts))

    def answer(self, method: str, start: float) -> TableAnswer:
        """All rows together."""
        return TableAnswer(
            model=self.model,
            names=tuple(self.asked),
            probabilities=self.probabilities,
            errors=self.errors,
            log_partition=self.log_partition,
            stderr=self.stderr,
            ess=self.ess,
            khat=self.khat,
            visible_share=self.visible,
            status=tuple(self.status),
            doubts=tuple("; ".join(some) for some in self.doubts),
            method=method,
            seconds=time.perf_counter() - start,
            samples=self.samples,
            notes=self.notes,
        )


def _always_observed(rows: Int[Tensor, "row var"]) -> list[int]:
    if not len(rows):
        return []
    return (rows >= 0).all(0).nonzero().flatten().tolist()


def _exact(
    found: _Found,
    engine: RowInference,
    memory_limit: int,
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    answers = engine.answer(found.rows, progress)
    found.log_partition = answers.log_partition.numpy()
    found.probabilities = answers.marginals[:, found.pairs].numpy()
    found.stderr = np.zeros(len(found.rows))
    found.status = ["exact"] * len(found.rows)
    for row in np.flatnonzero(found.log_partition == -np.inf).tolist():
        found.set_impossible(row)
    if found.samples is not None:
        for row, kept in enumerate(found.samples):
            if found.status[row] != IMPOSSIBLE:
                one = ExactInference(found.model, found.evidence(row), memory_limit=memory_limit)
                kept[:] = one.sample(len(kept), generator)


def _exact_one_by_one(
    found: _Found, memory_limit: int, time_limit: float | int | None, progress: Progress | None
) -> bool:
    """Answer each row by a plan of its own, if all of these are exact; say whether."""
    rows = [found.evidence(row) for row in range(len(found.rows))]
    answers = answer_rows_exactly(
        found.model, rows, memory_limit=memory_limit, time_limit=time_limit, progress=progress
    )
    if answers is None:
        return False
    for row, answer in enumerate(answers):
        if answer is None:
            found.set_impossible(row)
            continue
        asked = [answer.marginals[name] for name in found.asked]
        found.probabilities[row] = np.concatenate(asked) if asked else 0.0
        found.log_partition[row], found.stderr[row] = answer.log_partition, 0.0
        found.status[row] = "exact"
    return True


def _trained(
    model: FactorGraph,
    rows: Int[Tensor, "row var"],
    memory_limit: int,
    seed: int,
    watch: Callable[[TrainingProgress], None] | None,
    settings: dict[str, Any],
) -> Sampler:
    """A sampler for these rows: given a fixed set if all observe the same, else any evidence."""
    refuse_training(model, memory_limit, is_for_evidence=True)
    is_known = rows >= 0
    always = _always_observed(rows)
    observed: str | list[str] | None = "any"
    if not bool(is_known.any()):
        observed = None
    elif bool((is_known == is_known[0]).all()) and len(always) < model.num_variables:
        observed = [model.variables[v].name for v in always]
    most = int(is_known.sum(1).max()) if len(rows) else 0
    return fit(
        model,
        evidence=observed,
        most_observed=most if observed == "any" else None,
        smoothing=suitable_smoothing(model),
        seed=seed,
        progress=False,
        watch=watch,
        **settings,
    )


def _sampled(
    found: _Found,
    sampler: Sampler,
    num_samples: int,
    checks: tuple[int, int],
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    """Answer rows by samples; so many of them get a second opinion of so many samples."""
    rows = [found.evidence(row) for row in range(len(found.rows))]
    check_rows, check_samples = checks
    checked = set(np.linspace(0, max(len(rows) - 1, 0), check_rows).astype(int).tolist())
    faulty: list[str] = []
    for row, drawn in enumerate(sampler.posteriors(rows, num_samples, generator)):
        if progress is not None:
            progress(row / len(rows))
        is_checked = check_samples if row in checked else 0
        try:
            judged = sampler.judged(drawn, generator, check_samples=is_checked)
        except (WeightError, ImpossibleEvidenceError):
            found.set_unsampled(row)
            continue
        found.set(row, judged)
        faulty += found.doubts[row][:1] if row in checked else ()
        if found.samples is not None:
            kept = judged.samples.sample_apart(found.samples.shape[1], generator)
            found.samples[row] = kept
    if len(faulty) > _SHARE_FAULTY * len(checked):
        doubt = f"{len(faulty)} of {len(checked)} rows that were checked failed: {faulty[0]}"
        for row in set(range(len(rows))) - checked:
            found.doubt(row, (doubt,))
