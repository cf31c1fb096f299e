"""The samplers of the paper's synthetic figures, set up by name.

``delta`` is Delta-AI with the defaults of ``fit``: local updates, then a global phase (polishing)
where the weights are still uneven. ``delta-unpolished`` has local updates only, as many as it is
given, and does not stop before they are done. ``tb-local`` is trajectory balance with the
conditionals, orders, rates and phases of our defaults, so that it differs from ``delta`` in the
objective of the first phase alone, unless more updates are asked for. ``delta-paper`` and the
GFlowNets have the configuration of the paper's appendix: one masked autoencoder for all
conditionals that is not told the factors, Adam at 1e-3, new orders every 50 updates, one phase. Two
things are kinder to the rivals than the paper: log Z is learned from that of a flat target, not
from zero, and the vector of marginals learns 100 times as fast as the network (as in the paper's
experiment on MNIST; at the same rate all methods lag behind there).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast, get_args

from deltaai.errors import ConfigError
from deltaai.fitting import (
    Sampler,
    SamplerSpec,
    flat_log_partition,
    set_up_run,
    suitable_config,
    suitable_graph,
    suitable_hidden,
)
from deltaai.models import FactorGraph
from deltaai.objectives import AnyOrderObjective, BalanceName
from deltaai.randomness import generator_of
from deltaai.sampling import AnyOrderPolicy, OrdersKind
from deltaai.training import AnyOrderTask, Trainer, TrainingConfig, main_phase

ENDLESS = 10**9  # updates, where time is the limit
OURS = ("delta", "delta-unpolished", "tb-local")  # with the conditionals and rates of ``fit``


def structured(
    model: FactorGraph,
    method: str,
    orders: OrdersKind,
    seed: int,
    settings: Mapping[str, Any],
) -> tuple[Trainer, Sampler]:
    """Set up a run of a structured sampler, and the sampler that it trains.

    Parameters
    ----------
    model : the target.
    method : one of ``OURS``, ``"delta-paper"``, or an objective's name.
    orders : one order or many.
    seed : of all randomness.
    settings : ``hidden`` of the autoencoder, ``batch`` of its updates, ``steps`` of the schedule
        (0 for a constant rate and no end; not for ``"delta"``, and 0 for as many as that has in
        ``"tb-local"``), and any other field of the training's settings.
    """
    is_ours = method in OURS
    together = 16 if is_ours or method == "delta-paper" else 1
    family = "local" if is_ours else "mae"
    hidden = suitable_hidden(model, family) if is_ours else int(settings["hidden"])
    spec = SamplerSpec(orders=orders, family=family, hidden=hidden, is_informed=is_ours)
    proposal, sources = spec.build(model, suitable_graph(model), seed=seed, num_together=together)
    if is_ours:
        suitable = partial(
            suitable_config, model, proposal.layout, hidden, family, is_many=orders == "many"
        )
        given: dict[str, Any] = {}
        if method == "delta-unpolished":
            given = {"steps": int(settings["steps"]), "polish_steps": 0, "target_ess": None}
        elif method == "tb-local":  # an objective that is named gets no global phase by itself
            usual = suitable()
            given = {"objective": "tb", "polish_steps": usual.polish_steps}
            given["steps"] = int(settings.get("steps", 0)) or usual.steps
        config = suitable(**{**given, "seed": seed, **_fields(settings)})
    else:
        config = _paper_config(model, method, orders, seed, settings)
    sampler = Sampler(model, proposal, sources, config, spec)
    return set_up_run(sampler), sampler


def any_order(
    model: FactorGraph, method: str, seed: int, settings: Mapping[str, Any]
) -> tuple[Trainer, AnyOrderPolicy]:
    """Set up a run of an any-order GFlowNet, and the policy that it trains."""
    objective = cast(BalanceName, method)
    policy = AnyOrderPolicy(
        model.num_states.tolist(),
        hidden=int(settings["hidden"]),
        generator=generator_of(seed),
    )
    learned = AnyOrderObjective(objective, log_partition=flat_log_partition(model, objective))
    config = _paper_config(model, method, "many", seed, settings)
    task = AnyOrderTask(model, policy, learned)
    return Trainer([main_phase(config, task)], config), policy


def _paper_config(
    model: FactorGraph, method: str, orders: OrdersKind, seed: int, settings: Mapping[str, Any]
) -> TrainingConfig:
    steps = int(settings["steps"])
    chosen: dict[str, Any] = {
        "steps": steps or ENDLESS,
        "schedule": "step" if steps else "constant",
        "batch_size": int(settings["batch"]),
        "learning_rate": 1e-3,
        "resample_every": 1,
        "redraw_orders_every": 50,
        "evaluate_every": 0,
        "seed": seed,
    }
    if method == "delta-paper":
        objective = "sub-dags" if orders == "many" else "sampled"
        chosen |= {"objective": objective, "policy": "tempered", "temperature": 2.0}
    elif method in get_args(BalanceName):
        chosen |= {"objective": method, "policy": "uniform-mixture", "exploration": 0.1}
        chosen["log_partition"] = flat_log_partition(model, cast(BalanceName, method))
    else:
        raise ConfigError(f"there is no method {method!r} with the paper's configuration")
    return TrainingConfig(**{**chosen, **_fields(settings)})


def _fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are fields of a training run's, and not of the experiment's."""
    ours = {"hidden", "batch", "steps", "time_limit", "num_states", "num_paths", "num_chains"}
    return {name: value for name, value in settings.items() if name not in ours}
