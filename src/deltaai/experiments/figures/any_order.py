"""Figure "Wall-clock training convergence ... with unstructured GFlowNet samplers".

As :mod:`deltaai.experiments.figures.synthetic_gfn`, with rivals that pick the order of the
variables themselves and know nothing of the graph. Their NLL is estimated from backward paths,
which is an upper bound on average.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltaai.experiments.figures import synthetic_gfn
from deltaai.experiments.harness.curves import training_curve
from deltaai.experiments.harness.parts import Experiment, Part, Row
from deltaai.experiments.harness.samplers import any_order
from deltaai.experiments.harness.targets import any_order_judge, target, truth_of

UNSTRUCTURED = {
    "any-tb": "any-order TB",
    "any-db": "any-order DB",
    "any-subtb": "any-order SubTB",
    "any-fl-db": "any-order FL-DB",
    "any-fl-subtb": "any-order FL-SubTB",
}
METHODS = {
    "delta": "Δ-AI, our defaults",
    "delta-paper": "Δ-AI, paper's configuration",
    "tb": "TB, structured",
    **UNSTRUCTURED,
}
MODELS = {**synthetic_gfn.MODELS, "smoke": ("ladder-6",), "small": ("lattice-64",)}
# Seconds for an unstructured sampler; the structured ones as in the other figure, or as many.
TIME_LIMITS = {"smoke": 1.0, "small": 75.0, "paper": 86400.0}
NUM_STATES = {"smoke": 32, "small": 250, "paper": 1000}
NUM_PATHS = {"smoke": 4, "small": 8, "paper": 20}


def parts(scale: str, num_seeds: int) -> list[Part]:
    """Every method on every target."""
    made = []
    for seed in range(num_seeds):
        for model in MODELS[scale]:
            for method in METHODS:
                settings = synthetic_gfn.settings_of(scale, model, method)
                if method in UNSTRUCTURED:
                    settings["time_limit"] = TIME_LIMITS[scale]
                    settings["num_states"] = NUM_STATES[scale]
                    settings["num_paths"] = NUM_PATHS[scale]
                made.append(Part(model, method, seed, scale, settings))
    return made


def run_part(part: Part) -> Iterator[Row]:
    """Train one sampler and judge it on the way."""
    if part.method not in UNSTRUCTURED:
        yield from synthetic_gfn.run_part(part)
        return
    options = dict(part.options)
    sigma, time_limit = float(options.pop("sigma")), float(options["time_limit"])
    model = target(part.model, sigma, part.seed)
    truth = truth_of(part.model, sigma, part.seed, int(options["num_states"]))
    objective = part.method.removeprefix("any-")
    trainer, policy = any_order(model, objective, part.seed, options)
    measure = any_order_judge(policy, truth, int(options["num_paths"]))
    yield from training_curve(trainer, measure, time_limit)


EXPERIMENT = Experiment(
    name="any-order",
    title="Δ-AI and any-order GFlowNets",
    description="NLL over training time: Delta-AI against samplers that ignore the graph.",
    metric="gap",
    metric_label="NLL above the target's own, nats",
    parts=parts,
    run_part=run_part,
    method_labels=METHODS,
    model_labels=synthetic_gfn.EXPERIMENT.model_labels,
    thresholds=(10.0, 3.0, 1.0, 0.1),
    notes=(
        "The NLL of any-order samplers is estimated from backward paths (8 a state at scale "
        "small), an upper bound on average; the structured ones have it exactly. Only *Δ-AI, our "
        "defaults* may have a global phase after its local updates."
    ),
)
