"""``learn_model``: the parameters of a factor graph that make rows most likely."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from deltaai.arguments import checked_flag, checked_function, checked_object, checked_path
from deltaai.display import Card, Shown, plural
from deltaai.errors import MemoryLimitError, ModelError
from deltaai.exact import RowInference
from deltaai.io import is_there
from deltaai.learning.likelihood.config import LikelihoodConfig, split_settings
from deltaai.learning.likelihood.gradients import GradientSettings
from deltaai.learning.likelihood.held_out import HeldOut, HeldOutLikelihood
from deltaai.learning.likelihood.learner import Learner, Measure
from deltaai.learning.likelihood.learner_files import take_up_learner
from deltaai.learning.likelihood.parameters import plain
from deltaai.learning.likelihood.registry import build_gradient
from deltaai.learning.likelihood.rows import LearningRows
from deltaai.models import FactorGraph, States, on_cpu
from deltaai.progress import Fraction, Watch, fractions_of, reporting
from deltaai.randomness import generator_of
from deltaai.training import give_up, settle_earlier

# Entries of all tables up to which the exact gradient is the default: some hundredths of a second.
_MOST_ENTRIES = 2**18


@dataclass(frozen=True, eq=False, repr=False)
class LikelihoodResult(Shown):
    """What learning gave.

    Parameters
    ----------
    model : p with the learned values; it has no parameters any more.
    config : the settings.
    gradient : name of the gradient.
    held_out : likelihood of the rows that were held out, if any were.
    history : measurements, one row each.
    num_steps : updates that were made.
    is_converged : whether the gradient was zero in the end.
    """

    model: FactorGraph
    config: LikelihoodConfig
    gradient: str
    held_out: HeldOutLikelihood | None
    history: list[dict[str, Any]] = field(default_factory=list)
    num_steps: int = 0
    is_converged: bool = False

    def _card(self) -> Card:
        rows = [("gradient", self.gradient), ("updates", str(self.num_steps))]
        if self.held_out is not None:
            found = f"{self.held_out.log_likelihood:.4f} nats a row ({self.held_out.status})"
            rows.append(("held-out log-likelihood", found))
        title = f"Learned model of {plural(self.model.num_variables, 'variable')}"
        return Card(title, tuple(rows))


@torch.inference_mode(False)
@torch.enable_grad()  # also where the caller records none
def learn_model(
    model: FactorGraph,
    rows: States,
    *,
    gradient: str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    restart: bool = False,
    progress: bool | Fraction | None = None,
    watch: Watch | None = None,
    measure: Measure | None = None,
    **settings: Any,  # noqa: ANN401
) -> LikelihoodResult:
    """Learn the parameters of a model from complete or incomplete rows.

    Parameters
    ----------
    model : p, with parameters (see :func:`~deltaai.learning.learnable`); it is left as it is.
    rows : states of its variables, -1 where a cell is missing.
    gradient : ``"exact"`` (where tables fit), ``"delta"`` (an amortised q that follows p),
        ``"gibbs"`` (persistent chains), ``"tempering"`` (the same with replicas), ``"pseudo"``
        (another criterion, in closed form), or one that was registered. By default the exact one
        where it takes a moment, and Delta elsewhere.
    checkpoint : file to keep the state of the run in; needed to resume.
    resume : continue from that file, or begin if there is none yet.
    restart : begin anew though that file holds a run, which is given up.
    progress : whether to show a bar; by default in a terminal and in a notebook. A function is
        called with the fraction done.
    watch : called after every update.
    measure : called with p at every judgement (see ``evaluate_every``); the numbers that it returns
        by name go to the history.
    settings : any field of ``LikelihoodConfig`` or ``GradientSettings``, such as ``steps``,
        ``learning_rate``, ``weight_decay``, ``held_out``, ``patience`` or ``seed``.

    Examples
    --------
    >>> from deltaai.exact import exact
    >>> from deltaai.learning import learnable
    >>> from deltaai.models import zoo
    >>> truth = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    >>> rows = exact(truth).sample(1000, 0)
    >>> start = zoo.ising_lattice(side=3, sigma=0.0, seed=0)
    >>> learned = learn_model(learnable(start), rows, steps=60, learning_rate=0.1)
    >>> learned.held_out.status, learned.held_out.log_likelihood > -6.0
    ('exact', True)
    """
    checked_object("model", model, FactorGraph, "give one with parameters", ModelError)
    if not any(True for _ in model.parameters()):
        raise ModelError(
            "the model has no parameters, so there is nothing to learn: give learnable(model), in "
            "which tables and spins may change"
        )
    resume, restart = checked_flag("resume", resume), checked_flag("restart", restart)
    path = None if checkpoint is None else checked_path(checkpoint, "checkpoint")
    settle_earlier(path, resume=resume, restart=restart)
    checked_function("measure", measure)
    config, of_gradient = split_settings(settings)
    checked = LearningRows.of(model, rows)
    moving = model.to()  # a copy: the caller's model stays
    name = default_gradient(moving) if gradient is None else gradient
    learner = _set_up(moving, checked, name, config, of_gradient)
    learner.measure = measure
    if resume and path is not None and is_there(path):
        take_up_learner(learner, path)
    elif restart and path is not None:
        give_up(path)
    with reporting(progress, watch) as reports:
        told = fractions_of(progress, watch) if callable(progress) else reports.training
        learner.run(checkpoint=path, watch=told)
    return LikelihoodResult(
        model=plain(moving),
        config=config,
        gradient=name,
        held_out=learner.judged,
        history=learner.history,
        num_steps=learner.step,
        is_converged=learner.is_converged,
    )


def _set_up(
    model: FactorGraph,
    rows: LearningRows,
    name: str,
    config: LikelihoodConfig,
    of_gradient: dict[str, Any],
) -> Learner:
    """Everything a run needs, as its settings say."""
    settings = GradientSettings(**of_gradient, steps=config.steps, seed=config.seed)
    train, test = rows.split(float(config.held_out), generator_of(config.seed))
    built = build_gradient(name, model, train, settings)
    judging = generator_of(config.seed + 1 if config.seed < 2**62 else 0)
    held_out = None if test is None else HeldOut(model, test, built, judging)
    digest = hashlib.sha256(rows.states.cpu().numpy().tobytes()).hexdigest()
    identity = {
        "model": model.content_hash(learned=False),
        "start": model.content_hash(),
        "rows": digest,
        "gradient": f"{name} {sorted(of_gradient.items())}",
    }
    return Learner(model, built, config, held_out, identity)


def default_gradient(model: FactorGraph) -> str:
    """The exact gradient where it takes a moment, else Delta."""
    try:
        entries = RowInference(on_cpu(plain(model))).cost.total_entries
    except MemoryLimitError:
        return "delta"
    return "exact" if entries <= _MOST_ENTRIES else "delta"
