"""``fit``: train one neural sampler for a model, with settings that suit it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from deltaai.arguments import checked_count, checked_seed
from deltaai.budget import Budget
from deltaai.conditionals import Layout, Proposal
from deltaai.conditionals.proposal import refuse_zeros
from deltaai.errors import ConfigError, ModelError, Setting, StateError
from deltaai.heap import hand_back
from deltaai.inference.defaults import suitable_config, suitable_graph, suitable_hidden
from deltaai.inference.initial import check_initial, start_from_messages
from deltaai.inference.proposals import EvidenceKind, build_proposal
from deltaai.inference.sampler import Sampler
from deltaai.inference.training_memory import training_bytes
from deltaai.io import as_model
from deltaai.models import FactorGraph, States
from deltaai.models.smoothing import smoothed
from deltaai.progress import Fraction, fractions_of, reporting
from deltaai.sampling.orders import Orders, OrdersKind
from deltaai.threads import limited_threads
from deltaai.training.config import TrainingConfig
from deltaai.training.given_evidence import AnyEvidence, FixedEvidence
from deltaai.training.loop import Progress, Trainer
from deltaai.training.metrics import MetricsLog
from deltaai.training.schedules import inverse_temperature_at
from deltaai.training.task import Task
from deltaai.training.tasks import task_of

# The weights that training looks at are those of one evidence or none, no reason to stop.
WITH_EVIDENCE = {"steps": 1200, "polish_steps": 0, "target_ess": None}


@torch.inference_mode(False)
@torch.enable_grad()  # also where the caller records none
def fit(
    model: FactorGraph | str | Path,
    *,
    orders: OrdersKind = "one",
    seed: int = 0,
    family: str = "local",
    hidden: int | None = None,
    is_informed: bool = True,
    evidence: str | Sequence[str] | None = None,
    most_observed: int | None = None,
    smoothing: float | int | None = None,
    initial: str | None = None,
    states: States | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    metrics: str | Path | None = None,
    progress: bool | Fraction | None = None,
    watch: Callable[[Progress], None] | None = None,
    threads: int = 1,
    memory_limit: int | str | None = None,
    **settings: Any,  # noqa: ANN401
) -> Sampler:
    """Train a sampler for a model, with the local Delta objective unless another is named.

    Parameters
    ----------
    model : the target, or the path of a file with one; its factors must be positive everywhere,
        unless ``smoothing`` is given.
    orders : ``"one"`` trains one order; ``"many"`` trains random orders, so that the sampler can be
        asked in any of them.
    seed : of all randomness.
    family : conditionals of q: ``"local"`` (a small network a variable), ``"table"`` (small widths)
        or ``"mae"`` (the paper's masked autoencoder).
    hidden : hidden units of the networks (default: from the model and the family).
    is_informed : whether log-factors among known variables are part of the conditionals.
    evidence : ``"any"`` trains one q for any evidence: its conditionals see the evidence among
        their descendants, so that answers under new evidence have nearly even weights. A list of
        names trains q given the values of these variables, which are then needed every time; they
        leave the graph, which becomes narrower.
    most_observed : observed variables in training at most (default: a third of all).
    smoothing : train on tables whose zeros are floored at this share of their largest entry, such
        as 1e-3; needed if there are zeros. Estimates use the true factors all the same.
    initial : ``"bp"`` starts q at the messages of loopy belief propagation, if they converge; on
        forests of factors over two variables q is exact then. By default it starts at the
        log-factors alone.
    states : train at these states (a data set, a buffer) instead of those q draws.
    checkpoint : file to keep the state of the run in; needed to resume.
    resume : continue from that file if it exists.
    metrics : JSONL or CSV file for the course of training.
    progress : whether to show a bar; by default in a terminal and in a notebook. A function is
        called with the fraction done.
    watch : called after every update.
    threads : threads for training; more than one pays only for wide models on a quiet machine.
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
    settings : any field of ``TrainingConfig``, such as ``steps``, ``time_limit`` or ``objective``.
        A limit of time counts from the call on, reading and setting up included.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=3, sigma=0.2, seed=0)
    >>> sampler = fit(model, steps=40, seed=0)
    >>> sampler.log_partition(1000).ess_fraction > 0.9
    True
    """
    entered, budget = time.perf_counter(), Budget.of(memory_limit, settings.get("time_limit"))
    with budget.watched(f"the model in {model}" if isinstance(model, str | Path) else "it"):
        model = _checked_model(model, orders)
    seed = checked_seed(seed)
    with budget.watched("training"):
        threads = checked_count("threads", threads, 1)
        hidden = None if hidden is None else checked_count("hidden", hidden, 1)
        check_initial(initial)
        target = model if smoothing is None else smoothed(model, smoothing)
        refuse_zeros(target)
        given = _given(model, evidence, orders, states, settings)
        if initial is not None and isinstance(given, tuple):
            raise ConfigError(
                Setting("initial", "bp"),
                " starts from messages without evidence, and here there is some every time: leave "
                "it out, or choose ",
                Setting("evidence", "any"),
            )
        sources = Orders.of(
            suitable_graph(model, given if isinstance(given, tuple) else ()), orders
        )
        width = hidden or suitable_hidden(target, family)
        proposal = build_proposal(
            model,
            sources,
            width,
            family=family,
            is_informed=is_informed,
            evidence=given,
            smoothing=smoothing,
            seed=seed,
        )
        config = suitable_config(
            target,
            proposal.layout.num_slots,
            width,
            family,
            is_many=orders == "many",
            seed=seed,
            **({} if given is None else WITH_EVIDENCE) | settings,
        )
        if family == "local":
            _refuse_large(budget, proposal.layout, width, config, orders)
        identity: dict[str, str | int | float] = {
            "model": model.content_hash(),
            "orders": orders,
            "family": family,
            "hidden": width,
            "is_informed": int(is_informed),
            "smoothing": smoothing or 0,
        }
        if initial is not None:
            identity["initial"] = initial
            start_from_messages(proposal, orders, inverse_temperature_at(config, 0))
        if states is not None:
            identity["states"] = _content_hash(model, states)
        if given is None:
            task = task_of(config, proposal, sources, states)
        else:
            task = _task_given(given, proposal, sources, most_observed, identity)
        trainer = Trainer(task, config, identity)
    path = None if checkpoint is None else Path(checkpoint)
    is_resumed = resume and path is not None and path.exists()
    if is_resumed and path is not None:
        trainer.resume(path)
    trainer.seconds += time.perf_counter() - entered  # a limit of time is for all of it
    log_path = None if metrics is None else Path(metrics)
    with (
        reporting(progress, watch) as reports,
        limited_threads(threads),
        MetricsLog(log_path, trainer.step if is_resumed else None) as log,
    ):
        if not log.rows:  # a run that is resumed with a log for the first time
            log.extend(trainer.history)
        elif not trainer.history:  # or from a checkpoint that kept none
            trainer.history += log.rows
        told = fractions_of(progress, watch) if callable(progress) else reports.training
        trainer.run(checkpoint=path, metrics=log, watch=told)
        history = [dict(row) for row in trainer.history]
    del trainer, task
    hand_back()
    return Sampler(model, proposal, sources, config, family, width, given, smoothing, history)


def _checked_model(model: FactorGraph | str | Path, orders: OrdersKind) -> FactorGraph:
    """The model to train for, in orders that there are."""
    if orders not in get_args(OrdersKind):
        raise ConfigError(Setting("orders"), f" is {orders!r}: choose 'one' or 'many'")
    found = as_model(model)
    if found.num_variables == 0:
        raise ModelError("the model has no variables, so there is nothing to train")
    return found


def _task_given(
    given: Literal["any"] | tuple[int, ...],
    proposal: Proposal,
    sources: Orders,
    most_observed: int | None,
    identity: dict[str, str | int | float],
) -> Task:
    """Training for evidence, which the identity of the run then tells."""
    if given != "any":
        identity["evidence"] = str(given)
        return FixedEvidence(proposal, sources, given)
    num_variables = proposal.model.num_variables
    most = -(-num_variables // 3)
    if most_observed is not None:
        most = checked_count("most_observed", most_observed, 0, num_variables)
    identity |= {"evidence": "any", "most_observed": most}
    return AnyEvidence(proposal, sources, most)


def _refuse_large(
    budget: Budget, layout: Layout, hidden: int, config: TrainingConfig, orders: OrdersKind
) -> None:
    """Refuse updates that do not fit into memory."""
    needed = training_bytes(
        layout,
        hidden,
        config.batch_size,
        config.evaluation_samples,
        takes_masks=orders == "many" or layout.has_context,
    )
    budget.refuse("the updates of training", needed, "raise it, or lower batch_size or hidden")


def _content_hash(model: FactorGraph, states: States) -> str:
    """What tells states to train at from others, after they have been checked."""
    model.check_states(states)
    if not len(states):
        raise StateError("states to train at were given, but there are none")
    return hashlib.sha256(states.contiguous().cpu().numpy().tobytes()).hexdigest()


def _given(
    model: FactorGraph,
    evidence: str | Sequence[str] | None,
    orders: OrdersKind,
    states: States | None,
    settings: dict[str, Any],
) -> EvidenceKind:
    """Check what evidence q is to be trained for."""
    if evidence is None:
        return None
    if orders != "one":
        raise ConfigError("evidence is trained in one order: choose ", Setting("orders", "one"))
    if states is not None or settings.get("objective", "delta") != "delta":
        raise ConfigError(
            "with evidence, q is trained with the Delta objective at its own states: leave out ",
            Setting("states" if states is not None else "objective"),
        )
    if evidence == "any":
        return "any"
    if isinstance(evidence, str) or not isinstance(evidence, Iterable):
        raise ConfigError(Setting("evidence"), f" is {evidence!r}: give 'any', or a list of names")
    variables = tuple(sorted({model.index(name) for name in evidence}))
    if not variables or len(variables) == model.num_variables:
        raise ConfigError(
            f"evidence names {len(variables)} of {model.num_variables} variables: some, not all"
        )
    return variables
