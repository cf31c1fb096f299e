"""How good samplers of continuous and mixed models get with the defaults of ``fit``.

Gaussian fields beside dense linear algebra, on lines and in boxes of eight deviations each way;
small densities beside quadrature; a switch over real children beside enumeration, whose states are
Gaussian one by one; a hidden Markov chain of 50 steps with real observations beside the recursions
forward and backward. `known` says whether q knows what it does by default, or networks are alone.

Errors are of weighted samples, the worst of all variables: of means in units of the deviation, of
deviations relative to themselves, of the probabilities of states as they are. Even exact samples
have errors: with 100,000 of them the worst mean of 900 variables is off by about 1 %. KL(q, p) is
the true log Z less the ELBO, in nats. Seconds are those of ``fit``.

    python benchmarks/continuous_figures.py [--only grid-10 banana] [--seeds 3]
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from dataclasses import dataclass

import numpy as np
import scipy.stats
import torch

import deltaai as dai
from deltaai.models import QuadraticGroup, zoo
from measure import header

COUPLING, REACH = 1.0, 8.0  # of fields; deviations from a mean to either end of its box
AT_ONCE = 20_000  # samples


@dataclass(frozen=True)
class Truth:
    """Log Z, and of each variable mean and deviation, or probabilities of its states."""

    log_partition: float
    moments: dict[str, tuple[float, float]]
    chances: dict[str, np.ndarray]
    evidence: dict[str, float]


@dataclass(frozen=True)
class Figure:
    """What is to be reached; a figure that is not named is not asked for."""

    error: float = 0.02
    log_partition: float = math.inf
    divergence: float = math.inf
    ess: float = 0.0
    seconds: float = math.inf


# -- models and truths -----------------------------------------------------------------------------


def of_field(model):
    """Log Z, means and covariance of a Gaussian model, by dense linear algebra."""
    count = model.num_variables
    precision, shift = np.zeros((count, count)), np.zeros(count)
    constant = 0.0
    for group in model.groups:
        assert isinstance(group, QuadraticGroup)
        scopes = group.scopes.numpy()
        np.add.at(precision, (scopes[:, :, None], scopes[:, None, :]), group.precision.numpy())
        np.add.at(shift, scopes, group.shift.numpy())
        constant += float(group.constant.sum())
    covariance = np.linalg.inv(precision)
    mean = covariance @ shift
    log_partition = 0.5 * (count * math.log(2 * math.pi) - np.linalg.slogdet(precision)[1])
    return constant + log_partition + 0.5 * shift @ mean, mean, np.sqrt(covariance.diagonal())


def field(model, is_boxed):
    """A field on lines or in boxes, whose ends cut nothing off that one would notice."""
    log_partition, mean, deviation = of_field(model)
    names = [variable.name for variable in model.variables]
    if is_boxed:
        ends = zip(mean - REACH * deviation, mean + REACH * deviation, strict=True)
        boxes = [dai.Variable(name, support=box) for name, box in zip(names, ends, strict=True)]
        model = dai.FactorGraph.from_groups(boxes, model.groups)
    moments = dict(zip(names, zip(mean, deviation, strict=True), strict=True))
    return model, Truth(log_partition, moments, {}, {})


def by_quadrature(model, boxes, points):
    """Sums over a grid of midpoints, which sees a density that ends on a border as it is."""
    axes = []
    for low, high in boxes:
        step = (high - low) / points
        axes.append(low + step * (np.arange(points) + 0.5))
    grid = torch.tensor(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(boxes)))
    density = model.log_score(grid).exp().reshape([points] * len(boxes)).numpy()
    total, moments = density.sum(), {}
    for number, (variable, axis) in enumerate(zip(model.variables, axes, strict=True)):
        others = tuple(other for other in range(len(axes)) if other != number)
        marginal = density.sum(others) / total
        mean = float(marginal @ axis)
        moments[variable.name] = (mean, math.sqrt(marginal @ (axis - mean) ** 2))
    cell = math.prod((high - low) / points for low, high in boxes)
    return Truth(math.log(total * cell), moments, {}, {})


def lines(*names):
    return [dai.Variable(name, support="line") for name in names]


def truncated(seed):
    """A normal density cut by a box and by the end of a half-line, not far from its mode."""
    variables = [dai.Variable("x", support=(0, 1)), dai.Variable("y", support=(0, None))]
    factor = dai.QuadraticFactor(["x", "y"], [[4, 1.5], [1.5, 2.0]], [2.0, 1.0])
    model = dai.FactorGraph(variables, [factor])
    return model, by_quadrature(model, [(0, 1), (0, 8)], 1500)


def truncated_four(seed):
    """Four variables in a chain, each cut well within a deviation or two."""
    ends = [(-1, 1), (0, 2), (-0.5, 1.5), (-2, 0)]
    names = ["a", "b", "c", "d"]
    variables = [dai.Variable(n, support=box) for n, box in zip(names, ends, strict=True)]
    factors = [dai.QuadraticFactor([n], 1.0, 0.5) for n in names]
    pairs = itertools.pairwise(names)
    factors += [dai.QuadraticFactor(pair, [[2.0, -1.8], [-1.8, 2.0]]) for pair in pairs]
    model = dai.FactorGraph(variables, factors)
    return model, by_quadrature(model, ends, 60)


def banana(seed):
    """A normal x, and y within half a deviation of x²."""
    bent = dai.FunctionFactor(["x", "y"], lambda v: -2 * (v[:, 1] - v[:, 0] ** 2) ** 2)
    model = dai.FactorGraph(lines("x", "y"), [dai.GaussianFactor("x", 0.0, 1.0), bent])
    return model, by_quadrature(model, [(-6, 6), (-4, 38)], 1500)


def modes(places, shares, covariances):
    """A mixture, each of whose normal densities integrates to its share: no sum is needed."""
    shares, places = np.array(shares), np.array(places)
    names = ["x", "y", "u", "v"][: places.shape[1]]
    pairs = zip(places.tolist(), covariances, strict=True)
    parts = [dai.GaussianFactor(names, place, covariance) for place, covariance in pairs]
    model = dai.FactorGraph(lines(*names), [dai.MixtureFactor(parts, np.log(shares))])
    spread = np.stack([np.diag(covariance) for covariance in covariances])
    mean = shares @ places
    deviation = np.sqrt(shares @ (spread + (places - mean) ** 2))
    moments = dict(zip(names, zip(mean, deviation, strict=True), strict=True))
    return model, Truth(math.log(shares.sum()), moments, {}, {})


def two_modes(seed):
    spread = [[[1, 0.5], [0.5, 1.0]], [[0.5, -0.3], [-0.3, 1.0]]]
    return modes([[-3.0, 0.0], [3.0, 1.0]], [0.3, 0.7], spread)


def three_modes(seed):
    places = [[-6.0, 0.0], [0.0, 4.0], [5.0, -4.0]]
    return modes(places, [0.2, 0.5, 0.3], [[[0.4, 0.1], [0.1, 0.5]]] * 3)


def three_modes_of_four(seed):
    rng = np.random.default_rng(seed)
    places = 3.0 * rng.normal(size=(3, 4))
    spread = []
    for _ in range(3):
        root = rng.normal(size=(4, 4)) / 2
        spread.append((root @ root.T + 0.3 * np.eye(4)).tolist())
    return modes(places, [0.25, 0.45, 0.3], spread)


def switch(seed, children=6):
    """A switch of three states, over children that are a chain and whose place it moves."""
    rng = np.random.default_rng(seed)
    names = [f"x{n}" for n in range(children)]
    bias = 1.5 * rng.normal(size=(children, 3))
    scale, own = np.array([0.5, 1.0, 2.0]), np.array([0.0, 1.0, 0.5])
    factors = [dai.TableFactor(["s"], own)]
    for name, row in zip(names, bias, strict=True):
        factors.append(dai.LinearGaussian(name, given=["s"], bias=row, scale=scale))
    tie = np.array([[0.5, 0.3], [0.3, 0.5]])
    pairs = itertools.pairwise(names)
    factors += [dai.QuadraticFactor(pair, tie) for pair in pairs]
    model = dai.FactorGraph([dai.Variable("s", ["a", "b", "c"]), *lines(*names)], factors)
    logs, means, variances = [], [], []
    for state in range(3):
        sharp = np.eye(children) / scale[state] ** 2
        shift = bias[:, state] / scale[state] ** 2
        log = own[state] - children * math.log(scale[state]) - 0.5 * bias[:, state] @ shift
        for n in range(children - 1):
            sharp[n : n + 2, n : n + 2] += tie
        covariance = np.linalg.inv(sharp)
        means.append(covariance @ shift)
        variances.append(covariance.diagonal())
        logs.append(log - 0.5 * np.linalg.slogdet(sharp)[1] + 0.5 * shift @ means[-1])
    log_partition = np.logaddexp.reduce(logs)
    chances = np.exp(np.array(logs) - log_partition)
    mean = chances @ np.array(means)
    deviation = np.sqrt(chances @ (np.array(variances) + (np.array(means) - mean) ** 2))
    moments = dict(zip(names, zip(mean, deviation, strict=True), strict=True))
    return model, Truth(float(log_partition), moments, {"s": chances}, {})


def hidden_chain(seed, length=50):
    """States that move, and one real observation of each; the truth by forward and backward."""
    move = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    start, means, scales = np.array([0.5, 0.3, 0.2]), np.array([-1.0, 0.5, 2.0]), [0.5, 0.7, 1.0]
    variables, factors, evidence, likelihoods = [], [], {}, []
    rng, state = np.random.default_rng(seed), 0
    for t in range(length):
        variables += [dai.Variable(f"z{t}", ["a", "b", "c"]), *lines(f"y{t}")]
        given = [f"z{t - 1}"] if t else []
        factors.append(dai.ConditionalTable(f"z{t}", given, move if t else start))
        factors.append(dai.LinearGaussian(f"y{t}", given=[f"z{t}"], bias=means, scale=scales))
        state = rng.choice(3, p=move[state] if t else start)
        evidence[f"y{t}"] = float(rng.normal(means[state], scales[state]))
        likelihoods.append(scipy.stats.norm(means, scales).pdf(evidence[f"y{t}"]))
    forward, total = [], 0.0
    for t, likelihood in enumerate(likelihoods):
        both = (forward[-1] @ move if t else start) * likelihood
        total += math.log(both.sum())
        forward.append(both / both.sum())
    backward, posteriors = np.ones(3), {f"z{length - 1}": forward[-1]}
    for t in range(length - 1, 0, -1):
        backward = move @ (likelihoods[t] * backward)
        backward /= backward.sum()
        both = forward[t - 1] * backward
        posteriors[f"z{t - 1}"] = both / both.sum()
    return dai.FactorGraph(variables, factors), Truth(total, {}, posteriors, evidence)


def tree(seed):
    return zoo.gaussian_tree(100, COUPLING, seed)


def grid(side):
    return lambda seed: zoo.gaussian_lattice(side, COUPLING, seed)


IN_FIELDS = Figure(divergence=0.02, ess=0.9)
SMALL = Figure(error=0.01, log_partition=0.01)
CASES = {
    "tree-100": (lambda seed: field(tree(seed), False), IN_FIELDS),
    "tree-100, boxes": (lambda seed: field(tree(seed), True), IN_FIELDS),
    "grid-10": (lambda seed: field(grid(10)(seed), False), IN_FIELDS),
    "grid-10, boxes": (lambda seed: field(grid(10)(seed), True), IN_FIELDS),
    "grid-30": (lambda seed: field(grid(30)(seed), False), Figure(ess=0.6, seconds=120)),
    "grid-30, boxes": (lambda seed: field(grid(30)(seed), True), Figure(ess=0.6, seconds=120)),
    "truncated": (truncated, SMALL),
    "truncated-4": (truncated_four, SMALL),
    "banana": (banana, SMALL),
    "two-modes": (two_modes, SMALL),
    "three-modes": (three_modes, SMALL),
    "three-modes-4": (three_modes_of_four, SMALL),
    "switch": (switch, SMALL),
    "hidden-chain": (hidden_chain, SMALL),
}


# -- judging ---------------------------------------------------------------------------------------


def judge(sampler, truth, num_samples):
    """Errors of weighted samples, log Z, divergence and the share of effective samples."""
    model = sampler.model
    generator = torch.Generator().manual_seed(12345)
    names = [variable.name for variable in model.variables]
    sums, squares, total, of_squares, excess = 0.0, 0.0, 0.0, 0.0, 0.0
    counts = {name: np.zeros(len(share)) for name, share in truth.chances.items()}
    middle = torch.tensor([truth.moments.get(name, (0.0, 1.0))[0] for name in names]).double()
    done = 0
    while done < num_samples:
        drawn = sampler.posterior(truth.evidence, min(AT_ONCE, num_samples - done), generator)
        off = drawn.log_weights - truth.log_partition
        weights, x = off.exp(), drawn.states.double() - middle
        done += len(off)
        sums, squares = sums + weights @ x, squares + weights @ x.square()
        total, of_squares = total + float(weights.sum()), of_squares + float(weights @ weights)
        excess += float(off.sum())
        for name, count in counts.items():
            column = drawn.states[:, names.index(name)].long().numpy()
            counts[name] = count + np.bincount(column, weights.numpy(), minlength=len(count))
    mean = sums / total
    deviation = (squares / total - mean.square()).clamp(min=0).sqrt()
    of_means, of_deviations = [0.0], [0.0]
    for name, (_, spread) in truth.moments.items():
        number = names.index(name)
        of_means.append(abs(float(mean[number])) / spread)
        of_deviations.append(abs(float(deviation[number]) / spread - 1))
    of_chances = [np.abs(counts[n] / total - share).max() for n, share in truth.chances.items()]
    return {
        "mean": max(of_means),
        "deviation": max(of_deviations),
        "chance": max(of_chances, default=0.0),
        "log_partition": math.log(total / done),
        "divergence": -excess / done,
        "ess": total**2 / of_squares / done,
    }


def status_of(sampler, evidence):
    """How far an answer of the sampler says that it can be trusted; a dash if it does not yet."""
    try:
        return sampler.log_partition(10_000, 0, evidence=evidence).status
    except dai.DeltaAIError:
        return "-"


def is_met(found, figure, seconds):
    return (
        max(found["mean"], found["deviation"], found["chance"]) <= figure.error
        and abs(found["log_partition"]) <= figure.log_partition
        and found["divergence"] <= figure.divergence
        and found["ess"] >= figure.ess
        and seconds <= figure.seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--known", choices=("yes", "no", "both"), default="yes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    header("Samplers of continuous and mixed models, with the defaults of fit")
    print(
        "| model | known | seed | updates | wall s | CPU s | log Z off by | KL(q, p) | ESS | ",
        end="",
    )
    print("means | deviations | states | status | met |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    all_met = True
    for name in options.only:
        build, figure = CASES[name]
        for is_informed in {"yes": [True], "no": [False]}.get(options.known, [True, False]):
            for seed in range(options.seeds):
                model, truth = build(seed)
                given = {"evidence": list(truth.evidence)} if truth.evidence else {}
                wall, cpu = time.perf_counter(), time.process_time()
                sampler = dai.fit(
                    model, is_informed=is_informed, seed=seed, progress=False, **given
                )
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                found = judge(sampler, truth, options.samples)
                status = status_of(sampler, truth.evidence)
                met = is_met(found, figure, cpu)
                all_met &= met
                chance = f"{found['chance']:.4f}" if truth.chances else "-"
                errors = f"{found['mean']:.2%} | {found['deviation']:.2%}"
                print(
                    f"| {name} | {'yes' if is_informed else 'no'} | {seed} "
                    f"| {sampler.history[-1]['step']} | {wall:.1f} | {cpu:.1f} "
                    f"| {found['log_partition']:+.4f} | {found['divergence']:.4f} "
                    f"| {found['ess']:.1%} | {errors if truth.moments else '- | -'} "
                    f"| {chance} | {status} | {'yes' if met else 'NO'} |",
                    flush=True,
                )
    sys.exit(not all_met)


if __name__ == "__main__":
    main()
