"""``fit``: train one neural sampler for a model, with settings that suit it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from deltaai.arguments import (
    checked_choice,
    checked_count,
    checked_flag,
    checked_items,
    checked_path,
    checked_seed,
)
from deltaai.budget import Budget
from deltaai.conditionals import (
    FAMILIES,
    REAL_HEADS,
    MessageKnowledge,
    Proposal,
    refuse_zeros,
    without_vertices,
)
from deltaai.devices import Device, checked_device
from deltaai.errors import (
    ConfigError,
    ModelError,
    Setting,
    StateError,
    TimeLimitError,
    shown,
)
from deltaai.fitting.defaults import (
    may_have_messages,
    suitable_config,
    suitable_graph,
    suitable_head,
    suitable_hidden,
    suitable_messages,
)
from deltaai.fitting.initial import check_initial, start_from_messages
from deltaai.fitting.runs import default_most_observed, set_up_run
from deltaai.fitting.sampler import Sampler
from deltaai.fitting.spec import MOST_ENTRIES, EvidenceFor, SamplerSpec
from deltaai.fitting.training_memory import bytes_per_column, training_bytes
from deltaai.graphs import ChordalGraph
from deltaai.heap import hand_back
from deltaai.io import as_model, is_there
from deltaai.models import FactorGraph, StandardUnits, States, on_device, smoothed
from deltaai.progress import Fraction, fractions_of, reporting
from deltaai.sampling import OrdersKind
from deltaai.threads import limited_threads
from deltaai.training import (
    MetricsLog,
    TrainingConfig,
    TrainingProgress,
    give_up,
    inverse_temperature_at,
    settle_earlier,
)

_MOST_THREADS, _MOST_HIDDEN, _MOST_COMPONENTS = 2**10, 2**16, 1000  # more is a slip of the hand
# What an update holds takes so long to write and read again, on one core; and seconds of work that
# an update has in any case.
_SECONDS_PER_BYTE, _LEAST_WORK = 2e-9, 1.0
# The weights that training looks at are those of one evidence or none, no reason to stop.
WITH_EVIDENCE = {"steps": 1200, "polish_steps": 0, "target_ess": None}


@torch.inference_mode(False)
@torch.enable_grad()  # also where the caller records none
def fit(
    model: FactorGraph | str | Path,
    *,
    orders: OrdersKind | None = None,
    seed: int = 0,
    family: str | None = None,
    hidden: int | None = None,
    is_informed: bool | None = None,
    head: str | None = None,
    components: int | None = None,
    evidence: str | Sequence[str] | None = None,
    most_observed: int | None = None,
    smoothing: float | int | None = None,
    initial: str | None = None,
    message_entries: int | None = None,
    start: Sampler | None = None,
    states: States | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    restart: bool = False,
    metrics: str | Path | None = None,
    progress: bool | Fraction | None = None,
    watch: Callable[[TrainingProgress], None] | None = None,
    threads: int = 1,
    memory_limit: int | str | None = None,
    device: Device = None,
    **settings: Any,  # noqa: ANN401
) -> Sampler:
    """Train a sampler for a model, with the local Delta objective unless another is named.

    Parameters
    ----------
    model : the target, or the path of a file with one; its factors must be positive everywhere,
        unless ``smoothing`` is given.
    orders : ``"one"``, the default, trains one order; ``"many"`` trains random orders, so that the
        sampler can be asked in any of them.
    seed : of all randomness.
    family : conditionals of q: ``"local"`` (the default, a small network a variable), ``"table"``
        (small widths) or ``"mae"`` (the paper's masked autoencoder).
    hidden : hidden units of the networks (default: from the model and the family).
    is_informed : whether log-factors among known variables are part of the conditionals; they are
        by default.
    head : conditionals of real variables: ``"normal"``, truncated where they are bounded (the
        default if all factors are quadratic); ``"mixture"`` of such (the default elsewhere), which
        can hold several modes; or ``"beta"``, in boxes.
    components : of a mixture; three by default.
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
    message_entries : entries of the tables in which messages from what comes later are computed
        before training, with which q begins; 0 for none, and then q begins at the log-factors
        alone. By default as many as memory and a second or two allow, where the model has states
        only, is too wide for exact tables of that size and positive everywhere, and q is for one
        order without evidence.
    start : a sampler to go on from, for the same variables and a graph that contains the model's:
        after a model was edited, or to train a sampler further. What q is, is then the same.
    states : train at these states (a data set, a buffer) instead of those q draws.
    checkpoint : file to keep the state of the run in; needed to resume.
    resume : continue from that file, or begin if there is none yet.
    restart : begin anew though that file holds a run, which is given up. Without either a file
        that is there is not touched.
    metrics : JSONL or CSV file for the course of training.
    progress : whether to show a bar; by default in a terminal and in a notebook. A function is
        called with the fraction done.
    watch : called after every update.
    threads : threads for training; more than one pays only for wide models on a quiet machine.
    memory_limit : bytes that may be used, also as ``"4GB"`` (default: half of what is free).
        A limit of time counts from the call on, reading and setting up included.
    device : where to train, such as ``"cuda"``; the sampler stays there. By default, where the
        model is. Samples are judged on the CPU.
    settings : any field of ``TrainingConfig``, such as ``steps``, ``time_limit`` or ``objective``.

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
        model = _checked_model(model, device)
    seed = checked_seed(seed)
    threads = checked_count("threads", threads, 1, _MOST_THREADS)
    resume, restart = checked_flag("resume", resume), checked_flag("restart", restart)
    path = None if checkpoint is None else checked_path(checkpoint, "checkpoint")
    settle_earlier(path, resume=resume, restart=restart)
    is_resumed = resume and path is not None and is_there(path)
    log_path = None if metrics is None else checked_path(metrics, "metrics")
    with budget.watched("training"):
        asked: dict[str, Any] = {
            "orders": orders,
            "family": family,
            "hidden": hidden,
            "is_informed": is_informed,
            "head": head,
            "components": components,
        }
        asked |= {"evidence": _given(model, evidence), "smoothing": smoothing}
        spec = _spec(model, start, asked)
        target = model if spec.smoothing is None else smoothed(model, spec.smoothing)
        refuse_zeros(target)
        fixed = spec.evidence if isinstance(spec.evidence, tuple) else ()
        _check_start(initial, start, fixed)
        graph = suitable_graph(model, fixed) if start is None else _graph_of(start, model, fixed)
        spec = _with_messages(spec, model, graph, message_entries, budget, start, initial)
        proposal, sources = spec.build(model, graph, seed=seed, units=_units_of(start))
        _take_weights(start, proposal)
        usual: dict[str, Any] = {} if spec.evidence is None else WITH_EVIDENCE
        usual = usual if states is None else {**usual, "values": "data"}
        config = suitable_config(
            target,
            proposal.layout,
            spec.hidden,
            spec.family,
            is_many=spec.orders == "many",
            has_modes=proposal.has_modes,
            has_messages=spec.message_entries is not None,
            seed=seed,
            **{**usual, **settings},
        )
        if spec.family == "local":
            _refuse_large(budget, proposal, spec, config)
        if initial is not None:
            start_from_messages(proposal.tempered(inverse_temperature_at(config, 0)), spec.orders)
        most_observed = _most_observed(most_observed, spec, model.num_variables)
        identity: dict[str, str | int | float] = {
            "model": model.content_hash(learned=False),
            "spec": json.dumps(spec.to_dict(), sort_keys=True),
            "start": ""
            if start is None
            else _hash_of(start.proposal.trained.state_dict().values()),
            "initial": initial or "",
            "states": "" if states is None else _content_hash(model, states),
            "most_observed": -1 if most_observed is None else most_observed,
        }
        sampler = Sampler(model, proposal, sources, config, spec)
        trainer = set_up_run(sampler, states=states, most_observed=most_observed, identity=identity)
    if is_resumed and path is not None:
        trainer.resume(path)
    elif restart and path is not None:
        give_up(path)
    trainer.seconds += time.perf_counter() - entered  # a limit of time is for all of it
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
        sampler.history = [dict(row) for row in trainer.history]
    del trainer  # its batches and moments are not needed any more
    hand_back(looks_for_circles=True)
    return sampler


def _spec(model: FactorGraph, start: Sampler | None, asked: dict[str, Any]) -> SamplerSpec:
    """What q is to be: as asked for, by default, or as the sampler to start from."""
    if start is not None and not isinstance(start, Sampler):
        raise ConfigError(Setting("start"), f" is a {type(start).__name__}: give a Sampler")
    given = {name: value for name, value in asked.items() if value is not None}
    if "orders" in given:
        checked_choice("orders", given["orders"], get_args(OrdersKind))
    if "family" in given:
        checked_choice("family", given["family"], tuple(FAMILIES))
    if "is_informed" in given:
        given["is_informed"] = checked_flag("is_informed", given["is_informed"])
    if "head" in given:
        checked_choice("head", given["head"], tuple(REAL_HEADS))
    if "components" in given:
        given["components"] = checked_count("components", given["components"], 1, _MOST_COMPONENTS)
    if "hidden" in given:
        given["hidden"] = checked_count("hidden", given["hidden"], 1, _MOST_HIDDEN)
    if start is None:
        family = given.get("family", SamplerSpec.family)
        smooth = given.get("smoothing")
        target = model if smooth is None else smoothed(model, smooth)
        usual = {"hidden": suitable_hidden(target, family), "head": suitable_head(model)}
        return SamplerSpec(**{**usual, **given})
    return _as_started(start, given)


def _as_started(start: Sampler, given: Mapping[str, Any]) -> SamplerSpec:
    """What the sampler to start from is, which what is asked for must agree with."""
    for name, value in given.items():
        theirs = getattr(start.spec, name)
        if theirs != value:
            raise ConfigError(
                "the sampler to start from has ",
                Setting(name, theirs),
                f", and {value!r} was asked for: leave it out, or fit without ",
                Setting("start"),
            )
    return start.spec


def _with_messages(
    spec: SamplerSpec,
    model: FactorGraph,
    graph: ChordalGraph,
    asked: int | None,
    budget: Budget,
    start: Sampler | None,
    initial: str | None,
) -> SamplerSpec:
    """The same with messages, if they are asked for or worth it; those of the start stay."""
    if asked is not None:
        entries = checked_count("message_entries", asked, 0, MOST_ENTRIES) or None
        if start is not None:
            return _as_started(start, {"message_entries": entries})
        if entries is not None and initial is not None:
            raise ConfigError(
                Setting("initial", initial),
                " and ",
                Setting("message_entries", asked),
                " are two starts: give one",
            )
        return replace(spec, message_entries=entries)
    if start is not None or initial is not None or not may_have_messages(spec, model):
        return spec
    # The limit and not what is left of it, so that a run that is taken up has the same.
    seconds = math.inf if budget.time_limit is None else float(budget.time_limit)
    chosen = suitable_messages(model, graph, budget.memory, seconds)
    return spec if chosen is None else replace(spec, message_entries=chosen[0])


def _take_weights(start: Sampler | None, proposal: Proposal) -> None:
    """Put the weights of the sampler to start from into q, if there is one."""
    if start is None:
        return
    if start.proposal.layout.inputs != proposal.layout.inputs:
        raise ModelError(
            "the factors of the model give messages between other variables than the sampler to "
            "start from has: fit without it"
        )
    proposal.conditionals.load_state_dict(start.proposal.conditionals.state_dict())


def _units_of(start: Sampler | None) -> StandardUnits | None:
    """The units that weights to go on from were trained in."""
    return None if start is None else start.proposal.target.units


def _check_start(initial: str | None, start: Sampler | None, fixed: Sequence[int]) -> None:
    """Refuse starts that exclude each other."""
    check_initial(initial)
    if initial is not None and start is not None:
        raise ConfigError(
            "a sampler to start from and ", Setting("initial", initial), " are two starts: give one"
        )
    if initial is not None and fixed:
        raise ConfigError(
            Setting("initial", "bp"),
            " starts from messages without evidence, and here there is some every time: leave it "
            "out, or choose ",
            Setting("evidence", "any"),
        )


def _graph_of(start: Sampler, model: FactorGraph, observed: Sequence[int]) -> ChordalGraph:
    """The graph of a sampler, if it is one for the model too."""
    if start.model.variables != model.variables:
        raise ModelError(
            "the sampler to start from is for other variables or states than the model: fit "
            "without it"
        )
    if not start.orders.graph.contains(without_vertices(model.markov_graph(), observed)):
        raise ModelError(
            "the model joins variables that the sampler to start from knows to be apart: fit "
            "without it"
        )
    return start.orders.graph


def _most_observed(most_observed: int | None, spec: SamplerSpec, num_variables: int) -> int | None:
    if spec.evidence == "any":
        if most_observed is None:
            return default_most_observed(num_variables)
        return checked_count("most_observed", most_observed, 0, num_variables)
    if most_observed is not None:
        raise ConfigError(
            Setting("most_observed"),
            " is for evidence that varies, and what is observed does not vary here: leave it out, "
            "or choose ",
            Setting("evidence", "any"),
        )
    return None


def _hash_of(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for value in tensors:
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _checked_model(model: FactorGraph | str | Path, device: Device) -> FactorGraph:
    """The model to train for, where it is to be trained."""
    wanted, found = checked_device(device), as_model(model)
    if found.num_variables == 0:
        raise ModelError("the model has no variables, so there is nothing to train")
    return on_device(found, wanted)


def _refuse_large(
    budget: Budget, proposal: Proposal, spec: SamplerSpec, config: TrainingConfig
) -> None:
    """Refuse updates that do not fit into memory, and a first one that cannot end in time."""
    layout, knowledge = proposal.layout, proposal.knowledge
    kept = knowledge.plan.kept_bytes if isinstance(knowledge, MessageKnowledge) else 0
    needed = kept + training_bytes(
        layout,
        spec.hidden,
        config.batch_size,
        config.evaluation_samples,
        takes_masks=spec.has_masks,
    )
    budget.refuse("the updates of training", needed, "raise it, or lower batch_size or hidden")
    each = bytes_per_column(layout, spec.hidden, takes_masks=spec.has_masks)
    seconds = _SECONDS_PER_BYTE * config.batch_size * each
    if budget.time_limit is not None and seconds > max(budget.seconds_left, _LEAST_WORK):
        raise TimeLimitError("the first update of training", budget.time_limit)


def _content_hash(model: FactorGraph, states: States) -> str:
    """What tells states to train at from others, after they have been checked."""
    model.check_states(states)
    if not len(states):
        raise StateError("states to train at were given, but there are none")
    return hashlib.sha256(states.contiguous().cpu().numpy().tobytes()).hexdigest()


def _given(model: FactorGraph, evidence: str | Sequence[str] | None) -> EvidenceFor:
    """Check what evidence q is to be trained for."""
    if evidence is None:
        return None
    if isinstance(evidence, str) and evidence == "any":
        return "any"
    if isinstance(evidence, str | bytes | Mapping) or not isinstance(evidence, Iterable):
        raise ConfigError(
            Setting("evidence"), f" is {shown(evidence)}: give 'any', or a list of names"
        )
    listed = checked_items("evidence", evidence, "names")
    variables = tuple(sorted({model.index(name) for name in listed}))
    if not variables or len(variables) == model.num_variables:
        raise ConfigError(
            f"evidence names {len(variables)} of {model.num_variables} variables: some, not all"
        )
    return variables
