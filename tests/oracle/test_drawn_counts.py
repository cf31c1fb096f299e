"""Expected counts that are drawn from a q which follows the network, against exact ones."""

import itertools

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.budget import Budget
from deltaai.exact import RowInference, exact
from deltaai.learning.likelihood.fillings import Fillings
from deltaai.learning.missing_islands import island_labels
from deltaai.learning.tables import expectation, learner, row_filler
from deltaai.learning.tables.cases import Cases
from deltaai.learning.tables.drawn_counts import DrawnCounts
from deltaai.learning.tables.expectation import (
    CaseCounter,
    empty_network,
    from_known,
    maximised,
    shaken,
)
from deltaai.learning.tables.prior import Prior
from deltaai.learning.tables.row_filler import RowFiller
from deltaai.models import Variable, zoo
from learning_oracle import all_states, grid_model
from learning_oracle import rows_of as grid_rows

PARENTS = [(), (0,), (0, 1), (1, 2), (2,), (3, 4), (5,), (5, 6)]
VARIABLES = [Variable(f"x{k}", 3 if k % 3 == 0 else 2) for k in range(8)]


def network(seed=0):
    return shaken(empty_network(VARIABLES, PARENTS), 0.9, torch.Generator().manual_seed(seed))


def cases_of(model, number, share, seed=0):
    states = exact(model).sample(number, seed)
    gone = torch.rand(states.shape, generator=torch.Generator().manual_seed(seed + 1)) < share
    return Cases.of(states.masked_fill(gone, -1).numpy().astype(np.int8), model.variables)


def filler_of(model, cases):
    rows = torch.from_numpy(cases.rows[(cases.rows < 0).any(1)].astype(np.int64))
    return RowFiller(model, rows, Budget.of())


def exact_counts(model, cases):
    rows = torch.from_numpy(cases.rows.astype(np.int64))
    return RowInference(model).expected_counts(rows, cases.weights)


@pytest.mark.parametrize("kind", ["spins", "tables"])
def test_islands_are_weighted_whatever_fills_them_in(kind):
    """Uniform fillings, the worst q there is: log Z and counts agree with enumeration."""
    model = grid_model(kind).to()
    for value in model.parameters():
        value.requires_grad_(False)
    rows = grid_rows(grid_model(kind, seed=1), 12, missing=0.4)
    each, generator = 8000, torch.Generator().manual_seed(0)
    chance = torch.rand(len(rows), each, 9, generator=generator, dtype=torch.float64)
    drawn = (chance * model.num_states).long()
    states = torch.where(rows[:, None] >= 0, rows[:, None], drawn)
    log_q = torch.where(rows[:, None] >= 0, 0.0, -model.num_states.double().log())
    labels = torch.from_numpy(island_labels((rows < 0).numpy(), model.markov_graph())).long()
    found = Fillings.of(model, states, log_q.expand(states.shape).contiguous(), labels)
    listed = all_states(model)
    agrees = ((rows[:, None] == listed) | (rows[:, None] < 0)).all(2)
    scores = torch.where(agrees, model.log_score(listed).double(), -torch.inf)
    estimate, wanted = found.estimate(), scores.logsumexp(1)
    errors = (estimate.log_partition - wanted).abs()
    assert bool((errors <= 4.5 * estimate.variance.sqrt() + 1e-9).all())
    assert float(errors.max()) < 0.1
    weights = torch.ones(len(rows), dtype=torch.float64)
    for group in model.groups:
        counts = found.counts(group, weights).flatten(1)
        assert torch.allclose(counts.sum(1), weights.sum())
        places = [listed[:, group.scopes[:, k]] for k in range(group.arity)]
        entries = torch.zeros_like(places[0])
        for place, size in zip(places, group.sizes, strict=True):
            entries = entries * size + place
        expected = torch.zeros_like(counts)
        shares = scores.softmax(1).sum(0)
        expected.scatter_add_(1, entries.T, shares.expand(group.num_factors, -1))
        torch.testing.assert_close(counts, expected, rtol=0, atol=0.2)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_drawn_counts_are_those_of_exact_inference(share):
    model = network()
    cases = cases_of(network(1), 40, share)
    wanted = exact_counts(model, cases)
    drawn = DrawnCounts(cases, filler_of(model, cases))
    found, totals = [], []
    for _ in range(12):
        drawn._average = None
        counted = drawn.counted(model)
        found.append(counted.by_group)
        totals.append(counted.log_likelihood)
    for group, table in enumerate(wanted.by_group):
        several = torch.stack([one[group] for one in found])
        error = several.std(0) / len(found) ** 0.5
        assert float(((several.mean(0) - table).abs() - 4.5 * error).max()) < 0.05
    total = float((wanted.log_partition * cases.weights).sum())
    assert np.mean(totals) / 40 == pytest.approx(total / 40, abs=0.01)
    judged = drawn.likelihood(model, is_judged=True)
    assert judged.mean == pytest.approx(total / 40, abs=4.5 * judged.error + 1e-9)
    assert judged.error < 0.01
    assert judged.verdict.status == "estimated"


def forced(monkeypatch):
    """Let no exact way be short enough."""
    monkeypatch.setattr(expectation, "_WORTH_A_LOOK", -1.0)
    monkeypatch.setattr(expectation, "_LONGEST_STEP", -1.0)


@pytest.mark.slow
def test_learning_by_draws_ends_where_exact_learning_ends(monkeypatch):
    truth = network(1)
    frame = exact(truth).sample(400, 0, as_frame=True).astype(object)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.4)
    known = dai.learn(frame, truth, held_out=0.2)
    forced(monkeypatch)
    drawn = dai.learn(frame, truth, held_out=0.2)
    assert (known.report.status, drawn.report.status) == ("exact", "estimated")
    assert any("drawn" in note for note in drawn.report.notes)
    assert 10 <= drawn.report.steps < 200
    assert drawn.report.has_converged
    pairs = (
        (drawn.report.log_likelihood, known.report.log_likelihood),
        (drawn.report.held_out_log_likelihood, known.report.held_out_log_likelihood),
    )
    for mine, other in pairs:
        assert mine == pytest.approx(other, abs=0.02)
    monkeypatch.undo()
    rows = np.stack(
        [
            frame[v.name].map(dict(zip(v.states, range(v.num_states), strict=True))).fillna(-1)
            for v in truth.variables
        ],
        1,
    ).astype(np.int8)
    cases = Cases.of(rows, truth.variables)
    exactly = [CaseCounter(cases, Budget.of()).log_likelihood(one) for one in (drawn, known)]
    assert exactly[0] == pytest.approx(exactly[1], abs=0.02)


def test_zeros_and_variables_that_are_never_seen(monkeypatch):
    """Without a prior tables have zeros, which q never sees and weights do."""
    forced(monkeypatch)
    frame = exact(zoo.sprinkler()).sample(200, 0, as_frame=True).astype(object)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.3)
    found = dai.learn(frame, zoo.sprinkler(), held_out=0, prior=0)
    assert np.isfinite(found.report.log_likelihood)
    edges = [("kind", name) for name in frame.columns]
    settings = {"latent": {"kind": 2}, "restarts": 2, "held_out": 0, "steps": 12}
    assert dai.learn(frame, edges, **settings).report.status in ("estimated", "untrusted")


def test_gains_below_noise_end_learning():
    rising = [-10.0 / (1 + k) for k in range(30)]
    gains = [expectation._gain(rising[: k + 1], is_estimated=True) for k in range(30)]
    assert all(gain == np.inf for gain in gains[:9])
    assert all(gain > 0 for gain in gains[9:])
    noise = np.random.default_rng(0).normal(size=200)
    ends = [expectation._gain(noise[:k].tolist(), is_estimated=True) == 0 for k in range(10, 200)]
    assert np.mean(ends) > 0.9


def test_steps_average_draws_once_they_are_near():
    model, seen = network(), []
    cases = cases_of(network(1), 40, 0.5)
    start = from_known(model, cases, Prior(1.0))
    drawn = DrawnCounts(cases, filler_of(start, cases))
    for _ in range(25):
        seen.append(drawn.counted(start).by_group)
    moves = [
        sum(float((a - b).abs().sum()) for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(seen)
    ]
    assert np.mean(moves[-8:]) < 0.3 * np.mean(moves[:8])
    assert all(
        torch.isfinite(g.tables).all() for g in maximised(start, seen[-1], Prior(1.0)).groups
    )


def test_limits_are_kept(monkeypatch):
    forced(monkeypatch)
    for name in ("_WARMUP", "_SETTLING"):
        monkeypatch.setattr(row_filler, name, 10)
    frame = exact(network()).sample(200, 0, as_frame=True).astype(object)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.4)
    with pytest.raises(dai.TimeLimitError):
        dai.learn(frame, network(), time_limit=1e-3)
    with pytest.raises(dai.NotAffordableError, match="sampler for missing cells"):
        RowFiller(network(), torch.zeros(1, 8, dtype=torch.long), Budget.of("1MB"))
    numbers, count = itertools.count(), DrawnCounts.counted

    def counted(self, model):
        if next(numbers) >= 3:
            raise dai.TimeLimitError("a step of learning", 2)
        return count(self, model)

    monkeypatch.setattr(DrawnCounts, "counted", counted)
    found = dai.learn(frame, network()).report
    assert (found.steps, found.has_converged) == (3, False)
    assert any("before the rows held out were learned from" in note for note in found.notes)


class Stop(Exception):
    """Raised in the middle of a run."""


@pytest.mark.usefixtures("as_a_user_runs_it")
def test_a_run_by_draws_goes_on_where_it_was(monkeypatch, tmp_path):
    forced(monkeypatch)
    for name in ("_SECONDS_APART", "_WRITING_APART"):
        monkeypatch.setattr(learner, name, 0.0)
    monkeypatch.setattr(row_filler, "_NEAR_ENOUGH", 0.0)  # so that q is trained at each step
    for name in ("_WARMUP", "_SETTLING"):
        monkeypatch.setattr(row_filler, name, 10)
    sprinkler = zoo.sprinkler()
    frame = exact(sprinkler).sample(150, 0, as_frame=True)
    rows = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.3)
    settings = {"steps": 3, "tolerance": 0.0}
    whole = dai.learn(rows, sprinkler, **settings)
    assert whole.report.status != "exact"
    path = tmp_path / "run.checkpoint"

    def stop(done):
        raise Stop

    for _ in range(4):  # of six steps in two stages
        with pytest.raises(Stop):
            dai.learn(rows, sprinkler, **settings, checkpoint=path, resume=True, progress=stop)
    found = dai.learn(rows, sprinkler, **settings, checkpoint=path, resume=True)
    assert found.report.num_held_out == 15
    for mine, theirs in zip(found.groups, whole.groups, strict=True):
        assert torch.equal(mine.log_tables(), theirs.log_tables())
