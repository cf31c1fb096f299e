"""Figure "recovery of an Ising model": -log RMSE(J) over learning time, by each gradient.

See :mod:`deltaai.experiments.harness.recovery` for the task. With the structure known every method
learns the couplings of the torus. All start from the maximum of the pseudo-likelihood, which is the
first part of their curves; ``exact`` goes on to the maximum of the likelihood by L-BFGS. At sigma
.5 a spin that differs from its neighbours is so rare that some edges are never broken in 2000 rows,
and that maximum lies at infinity: so all methods have the same prior, normal with variance 1 on the
coupling of an edge; elsewhere it hardly matters.

With the structure unknown all pairs are learned with a penalty on their sizes. Two methods more
know the structure and have a prior that pulls couplings to their mean (``-shared``): no unbiased
estimate of couplings one by one comes nearer than the bound of Cramér and Rao. The strength of
either is chosen by the pseudo-likelihood of a fifth of the rows, which are held out for that alone.
The likelihood has half of it: the pseudo-likelihood has every coupling in two conditionals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltaai.experiments.harness import recovery
from deltaai.experiments.harness.curves import LearningCurve
from deltaai.experiments.harness.parts import Experiment, Part, Row, Setting
from deltaai.experiments.harness.results import GROUND_TRUTH
from deltaai.learning import learn_model, learnable
from deltaai.models import FactorGraph, States

METHODS = {
    "exact": "exact gradient",
    "delta": "Δ-AI",
    "gibbs": "Gibbs chains",
    "tempering": "parallel tempering",
    "pseudo": "pseudo-likelihood",
    "exact-shared": "exact gradient, couplings pulled to their mean",
    "delta-shared": "Δ-AI, couplings pulled to their mean",
}
_SHARED = "-shared"
# Inference for all pairs has no tables that fit, and replicas of dense models are slow.
UNKNOWN_METHODS = ("delta", "gibbs", "pseudo")
SCALES: dict[str, dict[str, Setting]] = {
    "smoke": {"side": 4, "num_rows": 200, "num_samples": 100},
    "small": {"side": 10, "num_rows": 2000, "num_samples": 2000},
    "paper": {"side": 10, "num_rows": 2000, "num_samples": 8000},
}
SIGMAS = {"smoke": (0.1,), "small": recovery.SIGMAS, "paper": recovery.SIGMAS}
STEPS = {"smoke": 0.1, "small": 1.0, "paper": 4.0}  # times the numbers below
_KNOWN: dict[str, dict[str, Any]] = {
    "exact": {"optimizer": "lbfgs", "steps": 100, "tolerance": 1e-5},
    "delta": {"steps": 150, "learning_rate": 0.02, "q_updates": 2, "q_warmup": 200, "q_ess": 0.8},
    "gibbs": {"steps": 300, "learning_rate": 0.02, "sweeps": 5},
    "tempering": {"steps": 100, "learning_rate": 0.02, "sweeps": 2},
    "pseudo": {"optimizer": "lbfgs", "steps": 100, "tolerance": 1e-6},
}
_UNKNOWN: dict[str, dict[str, Any]] = {
    "delta": {"steps": 100, "learning_rate": 0.01, "q_updates": 2, "q_warmup": 60, "q_ess": 0.8},
    "gibbs": {"steps": 200, "learning_rate": 0.01, "sweeps": 2},
    "pseudo": {"optimizer": "lbfgs", "steps": 50, "tolerance": 1e-3},
}
_SEARCH_STEPS = 30  # for each strength that is tried
_REPLICA_SHARE = 4  # tempering has so many chains fewer, for each has a dozen replicas
_PRIOR_VARIANCE = 1.0


def parts(scale: str, num_seeds: int) -> list[Part]:
    """Every method at every sigma, with the structure known and unknown."""
    return [
        Part(f"{kind}-{sigma:g}", method, seed, scale, {**SCALES[scale], "factor": STEPS[scale]})
        for seed in range(num_seeds)
        for kind, methods in (("known", METHODS), ("unknown", UNKNOWN_METHODS))
        for sigma in SIGMAS[scale]
        for method in methods
    ]


def run_part(part: Part) -> Iterator[Row]:
    """Learn by one gradient and measure the couplings on the way."""
    kind, _, text = part.model.partition("-")
    options, sigma = part.options, float(text)
    side, count = int(options["side"]), int(options["num_rows"])
    rows = recovery.exact_rows(side, sigma, count, part.seed)
    is_known = kind == "known"
    pairs = recovery.torus_edges(side) if is_known else recovery.all_pairs(side)
    model, gradient = recovery.with_strength(pairs, 0.0), part.method.removesuffix(_SHARED)
    curve = LearningCurve(
        lambda p: {"score": recovery.score(p, side, sigma), "num_edges": _num_edges(p)}
    )
    curve.note(GROUND_TRUTH, 1.0)
    curve.take(model)
    first: dict[str, Any] = {"weight_decay": 1 / (count * _PRIOR_VARIANCE)}
    then = first
    if not is_known or gradient != part.method:
        prior = recovery.SHARED if is_known else recovery.SPARSE
        steps = max(int(_SEARCH_STEPS * float(options["factor"])), 1)
        strength = recovery.chosen_strength(prior, model, rows, steps)
        curve.note("strength of the prior", strength)
        first, then = prior.settings(strength), prior.settings(strength / 2)
    model = _learned(part, "pseudo", model, rows, curve, first)
    if gradient != "pseudo":
        model = _learned(part, gradient, model, rows, curve, then)
    curve.take(model)
    yield from curve.rows()


def _learned(
    part: Part,
    method: str,
    model: FactorGraph,
    rows: States,
    curve: LearningCurve,
    prior: dict[str, Any],
) -> FactorGraph:
    settings = dict((_KNOWN if part.model.startswith("known") else _UNKNOWN)[method])
    settings["steps"] = max(int(settings["steps"] * float(part.options["factor"])), 1)
    samples = int(part.options["num_samples"])
    settings["num_samples"] = samples // (_REPLICA_SHARE if method == "tempering" else 1)
    return learn_model(
        learnable(model),
        rows,
        gradient=method,
        batch_size=None,
        held_out=0,
        evaluate_every=1,
        measure=curve.look,
        seed=part.seed,
        **settings,
        **prior,
    ).model


def _num_edges(model: FactorGraph) -> float:
    (group,) = model.groups
    return float((group.log_tables().detach().flatten(1) != 0).any(1).sum())


EXPERIMENT = Experiment(
    name="ebm-recovery",
    title="Recovery of an Ising model on a 10 x 10 torus from 2000 rows",
    description="-log RMSE(J) over learning time: every gradient of the likelihood.",
    metric="score",
    metric_label="-log RMSE(J)",
    parts=parts,
    run_part=run_part,
    method_labels=METHODS,
    model_labels={
        f"{kind}-{sigma:g}": f"σ = {sigma:g}, structure {kind}"
        for kind in ("known", "unknown")
        for sigma in recovery.SIGMAS
    },
    thresholds=(),
    is_log_value=False,
    time_label="processor time (seconds)",
    is_larger_better=True,
    references={
        f"{kind}-{sigma:g}": {name: values[place] for name, values in recovery.PUBLISHED.items()}
        for kind in ("known", "unknown")
        for place, sigma in enumerate(recovery.SIGMAS)
    },
    notes=(
        "Larger is better. RMSE is over all n² entries of J, zeros included; an estimate of zero "
        "everywhere, where all curves begin, has -log(σ / 5). Published values, as far as known, "
        "are of models that learn all pairs. All curves begin with the pseudo-likelihood, that of "
        "the structure unknown with the search for the strength of a prior."
    ),
)
