"""Figure "score matching": what the local objective becomes as its steps become small.

The proposition of the appendix "Delta-AI with continuous variables": at states x of p, with other
values x_u' = x_u + h and d variables,

    d/h² · mean over u of (finite residual)²   ->   |∇ log p(x) - ∇ log q(x)|²      as h -> 0.

What is shown is how far the left side is from the right, relative to it, over h: for steps that
all go one way, where the distance falls as h, and for steps in either direction, whose first-order
terms cancel. q has random weights, in double precision; nothing is trained, and states are exact
samples of p.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.exact import exact
from deltaai.experiments.harness.parts import Experiment, Part, Row, Setting
from deltaai.fitting import SamplerSpec, suitable_graph
from deltaai.models import FactorGraph, FunctionFactor, Variable, zoo
from deltaai.objectives import ScoreObjective, delta_residuals, prepare_delta, score_residuals
from deltaai.randomness import generator_of, normal
from deltaai.sampling import Orders, Paths

METHODS = {"one-way": "steps of +h", "both-ways": "steps of +h and -h"}
MODELS = {"field": "Gaussian lattice", "bent": "bent chain"}
SCALES: dict[str, dict[str, Setting]] = {
    "smoke": {"size": 3, "num_states": 50},
    "small": {"size": 5, "num_states": 2000},
    "paper": {"size": 10, "num_states": 10_000},
}
_STEPS = tuple(10.0 ** (-k / 2) for k in range(8, -1, -1))  # 1e-4 to 1, in standard coordinates
_NOISE, _SPREAD = 0.2, 0.5  # of q's weights; of a link of the bent chain


def parts(scale: str, num_seeds: int) -> list[Part]:
    """Both kinds of steps, at every model."""
    return [
        Part(model, method, seed, scale, SCALES[scale])
        for seed in range(num_seeds)
        for model in MODELS
        for method in METHODS
    ]


def run_part(part: Part) -> Iterator[Row]:
    """Compare both sides at one set of states for every step."""
    size, count = int(part.options["size"]), int(part.options["num_states"])
    build = _field if part.model == "field" else _bent_chain
    model, states = build(size, count, part.seed)
    proposal, orders = _random_q(model, part.seed)
    units = proposal.target.units
    assert units is not None
    columns = units.inward(states.T.contiguous())
    paths = Paths(columns, (orders.fixed,))
    batch = ScoreObjective(proposal).prepare(proposal, paths, None)
    wanted = score_residuals(proposal, batch).detach().square().sum(0).mean()
    yield Row(0, 0.0, "divergence", float(wanted))
    for number, step in enumerate(_STEPS):
        found = _finite(proposal, columns, step)
        if part.method == "both-ways":
            found = (found + _finite(proposal, columns, -step)) / 2
        gap = abs(float(found / wanted) - 1)
        yield Row(number, step, "gap", gap)


def _finite(proposal: Proposal, columns: Float64[Tensor, "var batch"], step: float) -> Tensor:
    """The left side: squared residuals over h², summed over variables."""
    batch = prepare_delta(proposal, columns, columns + step)
    return delta_residuals(proposal, batch).detach().square().sum(0).mean() / step**2


def _random_q(model: FactorGraph, seed: int) -> tuple[Proposal, Orders]:
    """Q with random weights, in double precision."""
    spec = SamplerSpec(hidden=16, is_informed=False)
    proposal, orders = spec.build(model, suitable_graph(model), seed=seed)
    proposal.conditionals.double()
    generator = generator_of(seed)
    with torch.no_grad():
        for value in proposal.conditionals.parameters():
            value.add_(
                _NOISE * normal(value.shape, generator, dtype=value.dtype, device=value.device)
            )
    return Proposal(proposal.target, proposal.conditionals, knowledge=False), orders


def _field(size: int, count: int, seed: int) -> tuple[FactorGraph, Float64[Tensor, "row var"]]:
    model = zoo.gaussian_lattice(side=size, coupling=0.5, seed=seed)
    return model, exact(model).sample(count, seed)


def _bent_chain(size: int, count: int, seed: int) -> tuple[FactorGraph, Float64[Tensor, "row var"]]:
    """x_1 ~ N(0, 1), then x_{n+1} ~ N(sin 2 x_n, s²)."""
    generator = generator_of(seed)
    variables = [Variable(f"x{n}", support="line") for n in range(size)]
    factors = [FunctionFactor("x0", _first)]
    factors += [FunctionFactor([f"x{n}", f"x{n + 1}"], _link) for n in range(size - 1)]
    noise = torch.randn(count, size, generator=generator, dtype=torch.float64, device="cpu")
    columns = [noise[:, 0]]
    for n in range(1, size):
        columns.append((2 * columns[-1]).sin() + _SPREAD * noise[:, n])
    return FactorGraph(variables, factors), torch.stack(columns, dim=1)


def _first(values: Tensor) -> Tensor:
    return -0.5 * values[:, 0].square() - 0.5 * math.log(2 * math.pi)


def _link(values: Tensor) -> Tensor:
    apart = (values[:, 1] - (2 * values[:, 0]).sin()) / _SPREAD
    return -0.5 * apart.square() - math.log(_SPREAD) - 0.5 * math.log(2 * math.pi)


EXPERIMENT = Experiment(
    name="score-matching",
    title="The local objective and score matching",
    description="Relative distance of the finite form from the score form over the size of a step.",
    metric="gap",
    metric_label="relative distance from the score form",
    parts=parts,
    run_part=run_part,
    method_labels=METHODS,
    model_labels=MODELS,
    thresholds=(),
    time_label="step h, in standard coordinates",
    notes=(
        "Nothing is trained: q has random weights, states are exact samples of p, and arithmetic "
        "is in double precision. What stands for time is the step h; smaller is nearer to the "
        "limit, and *final value* is that of the largest step."
    ),
)
