"""Settings that suit a model, so that ``fit`` needs no tuning.

What matters is how peaked the target is, measured by how much one flip changes its log score: a
peaked target is approached from a flat one (annealing) and given more updates. Where the local
updates do not reach the target, polishing with full samples follows. The batch is as large as keeps
an update fast.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast, get_args

import torch

from deltaai.arguments import checked_choice, checked_count
from deltaai.conditionals import FAMILIES, Layout, bent_variables, without_vertices
from deltaai.fitting.spec import EvidenceFor, SamplerSpec
from deltaai.fitting.training_memory import training_bytes
from deltaai.graphs import ChordalGraph, eliminate, min_fill_order
from deltaai.importance import estimate_from_log_weights
from deltaai.messages import MessagePlan, MessageSampler, affordable_messages
from deltaai.models import FactorGraph, has_zeros, standard_units
from deltaai.objectives import BalanceName
from deltaai.randomness import uniform
from deltaai.sampling import Orders
from deltaai.training import TrainingConfig, objective_names
from deltaai.watch import look

_HIDDEN_MILD, _HIDDEN_PEAKED = 16, 32
_PEAKED = 4.0  # nats that one flip changes the log score by, on average
_MEDIUM = 2.0
_WIDER_FOR_STATES = 1.5
_PEAKED_IF_REAL = 3.0
_WORK = 6_000_000  # hidden units times flips times states in one update
_FREE = 16  # logits and features of a network that take no longer than its hidden units
# Logits from which on a model is large because of its states; and those of an estimate, all
# samples together.
_MANY_ROWS, _ESTIMATED_ROWS = 10_000, 2**23
# Ratios of one flip that are looked at at once, and at how many states.
_MOST_RATIOS, _FEWEST_STATES, _MOST_STATES = 2**20, 4, 64
_DRAWING_BYTES, _COLUMNS_PER_MEMORY = 2**28, 4
_COPIES_OF_ROWS = 4  # of features and logits, beyond one of each for a variable
# Messages: entries of all tables, one over the share of the limits that they may take, and seconds
# for an entry and for a variable's tables, planning included.
_MESSAGE_ENTRIES, _MESSAGE_SHARE = 2**24, 4
_SECONDS_PER_ENTRY, _SECONDS_PER_BUCKET = 6e-8, 8e-4
# Of an update and of a hidden unit in it, where passes are compiled and elsewhere; and of asking,
# for each variable: samples, second opinion and bound.
_SECONDS_PER_UPDATE, _SECONDS_PER_UNIT, _SECONDS_PER_UNIT_UNCOMPILED = 6e-3, 1.5e-9, 8e-9
_SECONDS_ASKED = 5e-3
# Samples by which messages are tried, and the share of effective ones that needs no training.
_TRIED, _EVEN_ENOUGH = 256, 0.5


@torch.no_grad()
def peakedness(model: FactorGraph) -> float:
    """Mean size of the change of the log score by one flip, at uniform states.

    Of large models a few states tell as much, and take little memory and time. Real variables come
    in units of their own width, so that they are peaked alike.
    """
    if not model.is_discrete:
        return _PEAKED_IF_REAL
    generator = torch.Generator().manual_seed(0)
    num_ratios = int(model.state_offsets[-1])
    count = min(max(_MOST_RATIOS // max(num_ratios, 1), _FEWEST_STATES), _MOST_STATES)
    shape = (count, model.num_variables)
    chance = uniform(shape, generator, dtype=torch.float64, device=model.device)
    x, at_once = (chance * model.num_states).long(), max(_MOST_RATIOS // max(num_ratios, 1), 1)
    total = 0.0
    for some in torch.split(x, at_once):
        look()
        total += float(model.log_ratios(some).abs().sum())
    return total / max(count * (num_ratios - model.num_variables), 1)


def suitable_graph(model: FactorGraph, observed: Sequence[int] = ()) -> ChordalGraph:
    """Chordal completion by min-fill: not always the narrowest, but its DAGs have few levels.

    Variables that are observed every time are joined to nothing. Real variables come after those
    with states if that joins few more: given states they have one mode rather than one for each.
    Those that are normal given the rest come last of all if that makes no clique larger.
    """
    graph = without_vertices(model.markov_graph(), observed)
    usual = eliminate(graph, min_fill_order(graph))
    is_real = model.is_real.tolist()
    if any(is_real) and not all(is_real):
        states = [variable for variable, real in enumerate(is_real) if not real]
        split = eliminate(graph, min_fill_order(graph, last=states))
        if split.width <= _WIDER_FOR_STATES * usual.width + 2:
            usual = split
    if any(is_real) and (bent := bent_variables(model)):
        states = [variable for variable, real in enumerate(is_real) if not real]
        split = eliminate(graph, min_fill_order(graph, last=[*states, *bent]))
        if split.width <= usual.width:
            usual = split
    return ChordalGraph.from_elimination(usual)


def may_have_messages(spec: SamplerSpec, model: FactorGraph) -> bool:
    """Whether q can begin at messages: see :meth:`SamplerSpec.build`."""
    is_plain = spec.family == "local" and spec.smoothing is None and spec.is_informed
    return is_plain and not spec.has_masks and model.is_discrete


def suitable_messages(
    model: FactorGraph, graph: ChordalGraph, memory: int, seconds: float = math.inf
) -> tuple[int, MessagePlan] | None:
    """Entries of the tables of messages; none where nothing would be split, or none fit.

    A q of a model that narrow learns in seconds, and such a model is better asked exactly.

    Parameters
    ----------
    graph : whose order of elimination is taken.
    memory, seconds : a share of which messages may take.
    """
    memory //= _MESSAGE_SHARE
    left = seconds / _MESSAGE_SHARE - _SECONDS_PER_BUCKET * model.num_variables
    if left <= 0:
        return None
    most = int(min(_MESSAGE_ENTRIES, left / _SECONDS_PER_ENTRY))
    entries, plan = affordable_messages(
        model, graph.order, memory=memory, most_total_entries=max(most, 1)
    )
    is_affordable = plan.plan.memory <= memory and plan.plan.total_entries <= most
    return None if plan.is_exact or not is_affordable else (entries, plan)


def suitable_hidden(model: FactorGraph, family: str) -> int:
    """Hidden units of the networks: the paper's number for its own, few for local ones."""
    chosen = FAMILIES[family].hidden
    if chosen is not None:
        return chosen
    return _HIDDEN_PEAKED if peakedness(model) > 1.0 else _HIDDEN_MILD


def suitable_head(model: FactorGraph) -> str:
    """Conditionals of real variables: normal if all factors are quadratic, else mixtures."""
    return "normal" if _is_quadratic(model) else "mixture"


def _is_quadratic(model: FactorGraph) -> bool:
    return all(group.is_quadratic or group.has_tables for group in model.groups)


def suitable_config(
    model: FactorGraph,
    layout: Layout,
    hidden: int,
    family: str,
    *,
    is_many: bool,
    has_modes: bool = False,
    has_messages: bool = False,
    **given: Any,  # noqa: ANN401
) -> TrainingConfig:
    """Settings for a model; those given by the user win.

    Parameters
    ----------
    layout : inputs of the conditionals.
    hidden, family : which conditionals.
    is_many : whether for many orders.
    has_modes : whether there may be several modes far apart, among real variables.
    has_messages : whether q begins at messages; then it is near the target from the start.
    given : settings that the user chose.
    """
    size = peakedness(model)
    is_peaked = (size > _PEAKED or has_modes) and not has_messages
    updates = 1000 if is_many or has_modes else 700 if is_peaked else 600 if size > _MEDIUM else 300
    steps = checked_count("steps", given.get("steps", updates))
    num_rows = _rows_of_large(layout)
    has_very_many = num_rows > _MANY_ROWS
    batch = max(int(_WORK / max(_work_of(layout, hidden), 1)), 4 if has_very_many else 64)
    chosen: dict[str, Any] = {
        "steps": steps,
        "polish_steps": 0 if has_very_many or "steps" in given or "objective" in given else 400,
        "batch_size": min(batch, 256),
        "learning_rate": _rate(family, is_many=is_many, is_discrete=layout.is_discrete),
        "resample_every": 4,
        "redraw_orders_every": 8,
        "gradient_clip": 10.0 if layout.is_discrete else 1.0,
        "anneal_steps": int(0.6 * steps) if is_peaked else 0,
        "anneal_start": 0.05 if has_modes else min(1.0, 1.0 / size) if is_peaked else 0.1,
        "evaluate_every": 25,
        # A q of quadratic factors alone is right before training where nothing is cut off.
        "evaluate_first": has_messages or (not model.is_discrete and _is_quadratic(model)),
    }
    if has_very_many:
        chosen["evaluation_samples"] = min(max(_ESTIMATED_ROWS // num_rows, 64), 1000)
    objective = checked_choice("objective", given.get("objective", "delta"), objective_names())
    if objective in get_args(BalanceName) and "log_partition" not in given:
        chosen["log_partition"] = flat_log_partition(model, cast(BalanceName, objective))
    if "target_ess" not in given and "target_kl" not in given:
        chosen["target_ess"] = 0.98 if is_many else 0.998
    return TrainingConfig.from_dict({**chosen, **given})


def _work_of(layout: Layout, hidden: int) -> float:
    """Work of one state in an update: hidden units of all flips, more where there are many states.

    A hidden unit takes as long as some multiplications, so only logits and features beyond these
    count.
    """
    flips = sum(
        block.size * block.num_inputs * max((block.num_logits + block.num_features) / _FREE, 1.0)
        for block in layout.blocks
    )
    return hidden * flips + _rows_of_large(layout)


def _rows_of_large(layout: Layout) -> int:
    """Logits of the variables that have more of them than are free."""
    return sum(b.size * b.num_logits for b in layout.blocks if b.num_logits > _FREE)


@dataclass(frozen=True)
class TrainingCost:
    """What training a sampler and drawing from it would take, before anything is allocated.

    Parameters
    ----------
    peak_bytes : memory at the worst moment of training, beyond that of the model.
    seconds : time on one core until a question is answered, roughly.
    ess : share of effective samples that messages have without any training, if they were tried.
    """

    peak_bytes: int
    seconds: float
    ess: float | None = None


def training_cost(
    model: FactorGraph,
    evidence: EvidenceFor = None,
    memory: int | None = None,
    most_seconds: float | int = 0.0,
) -> TrainingCost:
    """Predict the cost of ``fit`` with default settings, from the sizes of its batches alone.

    Parameters
    ----------
    evidence : ``"any"``, or the variables that are observed every time.
    memory : bytes that it may take (default: any number).
    most_seconds : if messages are predicted to take less they are tried, for where they are good
        enough nothing is trained.
    """
    graph = suitable_graph(model, evidence if isinstance(evidence, tuple) else ())
    spec, plan = SamplerSpec(evidence=evidence), None
    if may_have_messages(spec, model) and not has_zeros(model):
        chosen = suitable_messages(model, graph, sys.maxsize if memory is None else memory)
        plan = None if chosen is None else chosen[1]
    layout = spec.layout(model, Orders.of(graph, spec.orders), plan=plan)
    hidden = suitable_hidden(model, "local")
    config = suitable_config(
        model, layout, hidden, "local", is_many=False, has_messages=plan is not None
    )
    peak_bytes = training_bytes(
        layout,
        hidden,
        config.batch_size,
        config.evaluation_samples,
        takes_masks=spec.has_masks,
    )
    units = _work_of(layout, hidden) + hidden * model.num_variables  # flips included
    updates, ess, first = config.steps + config.polish_steps, None, 0.0
    if plan is not None:
        peak_bytes = max(peak_bytes + plan.kept_bytes, plan.plan.memory)
        first = _SECONDS_PER_ENTRY * plan.plan.total_entries
        first += _SECONDS_PER_BUCKET * model.num_variables
        updates = config.steps
        if first <= most_seconds:
            ess = _tried(model, graph, plan)
            updates = 0 if ess >= _EVEN_ENOUGH else updates
    is_binary = model.is_discrete and set(model.num_states.tolist()) <= {2}
    is_compiled = is_binary and find_spec("numba") is not None
    each = _SECONDS_PER_UNIT if is_compiled else _SECONDS_PER_UNIT_UNCOMPILED
    seconds = updates * (_SECONDS_PER_UPDATE + each * config.batch_size * units)
    seconds += first + _SECONDS_ASKED * model.num_variables
    return TrainingCost(peak_bytes, seconds, ess)


def _tried(model: FactorGraph, graph: ChordalGraph, plan: MessagePlan) -> float:
    """The share of effective samples of messages: the same that q would begin at."""
    sampler = MessageSampler.build(
        model,
        memory_limit=max(2 * plan.plan.memory, 1),
        most_total_entries=plan.plan.total_entries,
        elimination=eliminate(model.markov_graph(), graph.order),
    )
    _, log_weights = sampler.draw(_TRIED, 1, torch.Generator().manual_seed(0))
    return estimate_from_log_weights(log_weights).ess_fraction


def columns_at_once(layout: Layout, memory: int = _COLUMNS_PER_MEMORY * _DRAWING_BYTES) -> int:
    """How many states to draw at once, so that inputs and hidden units stay within some memory.

    Parameters
    ----------
    layout : inputs of the conditionals.
    memory : bytes of all that is going on; a part of it is for these.

    >>> path = Layout.build([2] * 3, [(), (0,), (1,)])
    >>> columns_at_once(path), columns_at_once(path, 10**6), columns_at_once(path, 10**3)
    (8192, 637, 16)
    """
    num_variables = layout.num_variables
    more_rows = max(layout.num_rows + layout.encoding.num_rows - 2 * num_variables, 0)
    each = 4 * (layout.num_slots + _HIDDEN_PEAKED * num_variables + _COPIES_OF_ROWS * more_rows)
    within = min(_DRAWING_BYTES, memory // _COLUMNS_PER_MEMORY)
    return min(max(within // max(each, 1), 16), 8192)


def flat_log_partition(model: FactorGraph, objective: BalanceName) -> float:
    """Log Z of a flat target with the model's mean log score: where to learn log Z from.

    From zero it would take a large model thousands of updates to come near. The forward-looking
    objectives learn log Z less the score of nothing, which is that mean, or about.
    """
    if not model.is_discrete:
        return 0.0 if objective.startswith("fl-") else _wide_log_partition(model)
    entropy = float(model.num_states.double().log().sum())
    if objective.startswith("fl-"):
        return entropy
    generator = torch.Generator().manual_seed(0)
    shape = (256, model.num_variables)
    chance = uniform(shape, generator, dtype=torch.float64, device=model.device)
    with torch.no_grad():
        return entropy + float(model.log_score((chance * model.num_states).long()).double().mean())


def _wide_log_partition(model: FactorGraph) -> float:
    """Log Z as a wide normal density about the modes would have it."""
    units = standard_units(model)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(
        model.num_variables, 256, generator=generator, dtype=torch.float64, device="cpu"
    )
    low, high = (bound.cpu()[:, None] for bound in model.bounds)
    columns = units.outward(noise.tanh()).clamp(low, high)
    columns = columns.where(model.is_real.cpu()[:, None], (low + (noise > 0) * (high > low)))
    with torch.no_grad():
        scores = model.log_score(columns.T.to(model.device)).double()
    return float(scores.nan_to_num(neginf=-1e6).median()) + units.log_volume


def _rate(family: str, *, is_many: bool, is_discrete: bool) -> float | int:
    chosen = FAMILIES[family].learning_rate
    if chosen is not None:
        return chosen
    if not is_discrete:  # scales are exponentials of what networks give
        return 1e-2 if is_many else 5e-3
    return 3e-2 if is_many else 1e-2
