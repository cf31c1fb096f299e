"""Planted errors over real variables: wrong samples are doubted, right ones are not."""

import json
import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from deltaai.answering import query
from deltaai.fitting import fit, load_sampler
from deltaai.models import (
    FactorGraph,
    FunctionFactor,
    GaussianFactor,
    LinearGaussian,
    MixtureFactor,
    TableFactor,
    Variable,
)
from deltaai.trust import (
    judge_coverage,
    judge_marginals,
    judge_partition,
    judge_samples,
    second_opinion,
    smallest_seen,
    verdict,
)
from deltaai.trust.weighted import WeightedSamples

NUM_SAMPLES = 4000  # as many as opinions have


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Mixture:
    """A mixture of normals with even deviations: what is drawn from, and what is to be drawn."""

    def __init__(self, means, deviations, weights):
        self.means = torch.tensor(means).double()
        self.deviations = torch.tensor(deviations).double()
        self.log_weights = torch.tensor(weights).double().log()

    @property
    def model(self):
        names = [f"x{number}" for number in range(self.means.shape[1])]
        parts = [
            GaussianFactor(names, mean, deviation**2 * np.eye(len(names)))
            for mean, deviation in zip(self.means, self.deviations.tolist(), strict=True)
        ]
        variables = [Variable(name, support="line") for name in names]
        return FactorGraph(variables, [MixtureFactor(parts, self.log_weights)])

    def without(self, mode):
        kept = [number for number in range(len(self.means)) if number != mode]
        weights = self.log_weights[kept].softmax(0)
        return Mixture(self.means[kept].tolist(), self.deviations[kept].tolist(), weights.tolist())

    def scaled(self, factor):
        deviations = (factor * self.deviations).tolist()
        return Mixture(self.means.tolist(), deviations, self.log_weights.exp().tolist())

    def draw(self, count, seed):
        randomness = generator(seed)
        chosen = torch.multinomial(
            self.log_weights.exp(), count, replacement=True, generator=randomness
        )
        noise = torch.randn(count, self.means.shape[1], generator=randomness).double()
        return self.means[chosen] + self.deviations[chosen, None] * noise

    def log_density(self, x):
        scaled = (x[:, None] - self.means) / self.deviations[:, None]
        each = -0.5 * scaled.square().sum(2) - self.means.shape[1] * (
            self.deviations.log() + 0.5 * math.log(2 * math.pi)
        )
        return torch.logsumexp(each + self.log_weights, 1)


TARGETS = {
    "two modes": Mixture([[-15.0, 0.0], [15.0, 5.0]], [1.0, 1.0], [0.5, 0.5]),
    "a small mode": Mixture([[0.0, 0.0, 0.0], [8.0, -30.0, 4.0]], [1.0, 0.6], [0.93, 0.07]),
    "three modes": Mixture(
        [[0.0, 0.0, 0.0, 0.0], [30.0, 0.0, 0.0, 9.0], [0.0, -40.0, 5.0, 0.0]],
        [1.0, 0.5, 2.0],
        [0.3, 0.4, 0.3],
    ),
    "one mode": Mixture([[3.0, -100.0, 0.01]], [0.2], [1.0]),
}


@cache
def opinion_on(name, seed):
    return second_opinion(TARGETS[name].model, {}, generator(seed), num_samples=NUM_SAMPLES)


def verdict_on(name, proposal, seed=0, count=4000, opinion_seed=0):
    """What is said of samples of a proposal, as of those of a sampler."""
    model, opinion = TARGETS[name].model, opinion_on(name, opinion_seed)
    states = proposal.draw(count, seed + 100)

    def excess(x):
        return model.log_score(x) - proposal.log_density(x)

    answer = WeightedSamples(model, states, excess(states), {})
    doubts = (
        judge_samples(answer, answer),
        judge_partition(answer, opinion),
        judge_marginals(answer, opinion),
        judge_coverage(answer.log_weights, answer.log_weights, opinion, excess(opinion.states)),
    )
    return verdict(*doubts, visible_share=smallest_seen(opinion))


@pytest.mark.parametrize("name", TARGETS)
def test_an_opinion_is_right_and_sees_enough(name):
    for seed in range(2):
        found = opinion_on(name, seed)
        assert found.method == "annealed chains"
        assert found.visible_share < 0.03
        assert abs(found.estimate.log_partition) < 4 * found.estimate.stderr


@pytest.mark.parametrize("name", TARGETS)
def test_right_samples_are_not_doubted(name):
    for seed in range(8):
        found = verdict_on(name, TARGETS[name], seed, opinion_seed=seed % 2)
        assert found.status == "estimated", str(found)
    # Not quite right, but their weights are known.
    for seed in range(4):
        found = verdict_on(name, TARGETS[name].scaled(1.1), seed, opinion_seed=seed % 2)
        assert found.status == "estimated", str(found)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("two modes", 0),
        ("two modes", 1),
        ("a small mode", 0),
        ("a small mode", 1),
        ("three modes", 0),
        ("three modes", 1),
        ("three modes", 2),
    ],
)
def test_a_lost_mode_is_noticed_though_weights_are_even(name, mode):
    proposal = TARGETS[name].without(mode)
    for seed in range(3):
        found = verdict_on(name, proposal, seed, opinion_seed=seed % 2)
        assert found.status == "untrusted"


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_wrong_scale_that_weights_do_not_know_of_is_noticed(name, factor):
    """Samples that are too narrow or too wide, and a q that takes them for draws of p."""
    model, opinion = TARGETS[name].model, opinion_on(name, 0)
    for seed in range(3):
        states = TARGETS[name].scaled(factor).draw(4000, seed)
        answer = WeightedSamples(model, states, torch.zeros(4000).double(), {})
        assert judge_marginals(answer, opinion) != ()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_a_wrong_scale_is_doubted_or_its_weights_make_it_right(name, factor):
    for seed in range(4):
        proposal = TARGETS[name].scaled(factor)
        if verdict_on(name, proposal, seed).status == "untrusted":
            continue
        states = proposal.draw(4000, seed + 100)
        log_weights = TARGETS[name].log_density(states) - proposal.log_density(states)
        answer = WeightedSamples(TARGETS[name].model, states, log_weights, {})
        assert abs(answer.estimate.log_partition) < 4 * answer.estimate.stderr
        mean = answer.log_weights.softmax(0) @ states
        wanted = TARGETS[name].log_weights.exp() @ TARGETS[name].means
        assert float((mean - wanted).abs().max()) < 0.15 * float(states.std(0).max())


@pytest.mark.parametrize("name", TARGETS)
def test_an_untrained_wide_q_is_noticed(name):
    """As it is before training: one normal density that is far too wide."""
    count = TARGETS[name].means.shape[1]
    wide = Mixture([[0.0] * count], [60.0], [1.0])
    for seed in range(2):
        assert verdict_on(name, wide, seed).status == "untrusted"


# -- boxes, half-lines and states --------------------------------------------------------------

MIXED = FactorGraph(
    [
        Variable("s", ["a", "b"]),
        Variable("x", support=(-10, 10)),
        Variable("y", support=(0, None)),
    ],
    [
        TableFactor(["s"], [0.0, -0.4]),
        LinearGaussian("x", given=["s"], bias=[-6.0, 5.0], scale=[0.4, 0.8]),
        FunctionFactor(["x", "y"], lambda v: -v[:, 1] * (1 + 0.1 * v[:, 0].cos())),
    ],
)


def draws_of_mixed(count, seed, lost=None, factor=1.0):
    """Draws of s, x and y one after the other, with the weights of those that are nearly right."""
    rng = np.random.default_rng(seed)
    share = {None: 0.4, 0: 1.0, 1: 0.0}[lost]
    s = (rng.random(count) < share).astype(float)
    mean, sd = np.where(s, 5.0, -6.0), np.where(s, 0.8, 0.4) * factor
    x = stats.norm.rvs(mean, sd, random_state=rng)
    y = rng.exponential(size=count)
    log_q = stats.norm.logpdf(x, mean, sd) - y
    log_q += np.log(np.where(s, share, 1 - share))
    states = torch.from_numpy(np.stack((s, x, y), 1))
    return states, MIXED.log_score(states) - torch.from_numpy(log_q)


@cache
def opinion_on_mixed():
    return second_opinion(MIXED, {}, generator(), num_samples=NUM_SAMPLES)


def test_mixed_models_are_judged_by_states_and_bins():
    opinion = opinion_on_mixed()
    assert set(opinion.states[:, 0].tolist()) == {0.0, 1.0}
    for seed in range(6):
        right = WeightedSamples(MIXED, *draws_of_mixed(4000, seed), {})
        assert judge_samples(right, right) == ()
        assert judge_partition(right, opinion) == ()
        assert judge_marginals(right, opinion) == ()
    for lost in (0, 1):
        wrong = WeightedSamples(MIXED, *draws_of_mixed(4000, 0, lost), {})
        assert judge_partition(wrong, opinion) != ()
        assert "P(" in judge_marginals(wrong, opinion)[0]


def test_evidence_on_states_and_on_numbers():
    """What is left is judged alike, all real, all of states, or nothing."""
    for observed in ({0: 1}, {1: 0.5}, {2: 0.3}, {1: -5.5, 2: 1.0}):
        found = second_opinion(MIXED, observed, generator(), num_samples=500)
        for variable, value in observed.items():
            assert bool((found.states[:, variable] == value).all())
        MIXED.check_states(found.states)
        assert found.visible_share < 0.1
        mean, error = found.moments
        torch.testing.assert_close(mean.sum(), torch.tensor(3.0).double())
        assert bool(((error == 0) == ((mean == 0) | (mean == 1))).all() or len(observed) < 2)
    given = second_opinion(MIXED, {1: 0.5}, generator(), num_samples=500)
    both = [MIXED.log_score(torch.tensor([[s, 0.5, 1.0]]).double()) for s in (0.0, 1.0)]
    wanted = float(torch.cat(both).softmax(0)[1])
    assert given.marginals()["s"][1] == pytest.approx(wanted, abs=0.03)


# -- every way to ask ---------------------------------------------------------------------------


def pair_of(places, deviation):
    """Equal normals about some places, x and y alike."""
    names = ["x", "y"]
    parts = [GaussianFactor(names, at, deviation**2 * np.eye(2)) for at in places]
    variables = [Variable(name, support="line") for name in names]
    return FactorGraph(variables, [MixtureFactor(parts, [0.0] * len(parts))])


BOTH = pair_of([[-6.0, 0.0], [6.0, 2.0]], 1.0)


def planted(error, **settings):
    """A sampler for BOTH, or one of its modes, with networks that learned something else, or none.

    Returns
    -------
    The sampler, and evidence under which it is wrong, too.
    """
    usual = {"is_informed": False, "seed": 0, "progress": False, **settings}
    if error == "untrained":
        return fit(BOTH, steps=0, **usual)
    other = {
        "lost mode": pair_of([[6.0, 2.0]], 1.0),
        "wrong scale": pair_of([[-6.0, 0.0], [6.0, 2.0]], 0.4),
    }[error]
    return fit(BOTH, start=fit(other, steps=400, **usual), steps=0, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("error", ["untrained", "lost mode", "wrong scale"])
def test_planted_errors_are_untrusted_in_every_way_to_ask(error, tmp_path, run):
    sampler = planted(error)
    assert sampler.answer(num_samples=4000, generator=0).status == "untrusted"
    assert sampler.log_partition(4000, 0).status == "untrusted"
    assert sampler.marginals(num_samples=4000, generator=0).status == "untrusted"
    assert sampler.diagnose()["status"] == "untrusted"
    assert query(sampler).status == "untrusted"
    assert query(sampler, of=["y"], num_samples=500).status in {"untrusted", "unchecked"}
    rows = query(sampler, [{}, {}], num_samples=4000)
    assert set(rows.status) == {"untrusted"}
    path = tmp_path / "planted.dai"
    sampler.save(path)
    assert load_sampler(path).log_partition(4000, 0).status == "untrusted"
    code, out, _ = run("query", path, "--json")
    assert (code, json.loads(out)["status"]) == (0, "untrusted")
    assert "untrusted" in run("query", path)[1]


@pytest.mark.slow
@pytest.mark.parametrize("error", ["untrained", "lost mode", "wrong scale"])
def test_planted_errors_are_untrusted_given_evidence(error):
    sampler = planted(error, evidence="any")
    assert sampler.answer({}, 4000, 0).status == "untrusted"
    assert sampler.sample(100, 0, evidence={"y": 0.5}).status == "untrusted" or error == "untrained"
    found = sampler.answer({"y": 1.0}, 4000, 0)
    # One wide normal density is enough for one variable: its weights say so, and are right.
    truth = math.log(2 * stats.norm.pdf(1.0))
    is_right = abs(found.log_partition - truth) < 4 * found.stderr
    assert found.status == "untrusted" or (error == "untrained" and is_right)


def test_samples_in_one_bin_are_no_certainty():
    """One chain knows nothing, and a few that agree may have been lucky."""
    model = TARGETS["one mode"].model
    states = TARGETS["one mode"].draw(4000, 0)
    answer = WeightedSamples(model, states, torch.zeros(4000).double(), {})
    for count in (1, 2, 3):
        opinion = WeightedSamples(model, states[:count], torch.zeros(count).double(), {})
        assert judge_marginals(answer, opinion) == ()
    # Of states, too: one sample agrees with itself.
    one = WeightedSamples(MIXED, *(each[:1] for each in draws_of_mixed(2, 0)), {})
    assert float(one.moments[1].min()) > 0.5
