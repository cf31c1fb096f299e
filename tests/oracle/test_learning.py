"""Learning from rows: what is reached, judged by enumeration, and runs that are killed."""

import math

import pytest
import torch
from jaxtyping import config

from deltaai.errors import ConfigError, DeltaAIError, ModelError, StateError, TrainingError
from deltaai.exact import exact
from deltaai.learning import learn_model, learnable, plain, register_gradient
from deltaai.learning.likelihood.registry import GRADIENTS
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable, zoo
from learning_oracle import enumerated_gradient, enumerated_loss, flat, grid_model, rows_of


class Stop(Exception):
    """Raised in the middle of a run."""


def flattened(model):
    """The same model with all parameters zero, or a tenth of what they are for networks."""
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(0.1 if value.ndim > 2 else 0.0)
    return model


def test_exact_learning_ends_at_the_maximum():
    """There the gradient is zero, by enumeration, and it is the same from another start."""
    rows = rows_of(grid_model("tables", seed=1), 200, missing=0.2)
    settings = dict(gradient="exact", batch_size=None, optimizer="lbfgs", held_out=0, steps=200)
    settings |= {"weight_decay": 1e-2, "tolerance": 1e-5}
    found = [learn_model(grid_model("tables", seed=seed), rows, **settings) for seed in (0, 5)]
    losses = []
    for one in found:
        assert one.is_converged, one.num_steps
        model = learnable(one.model)
        gradient = enumerated_gradient(model, rows) + 1e-2 * flat(model.parameters())
        assert float(gradient.abs().max()) < 1.1e-5
        losses.append(enumerated_loss(model, rows).item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_a_prior_shrinks():
    rows = rows_of(grid_model("spins", seed=1), 200)
    settings = dict(gradient="exact", batch_size=None, optimizer="lbfgs", held_out=0, steps=60)
    start = flattened(grid_model("spins"))
    sizes = [
        float(
            flat(learnable(learn_model(start, rows, **settings | prior).model).parameters()).norm()
        )
        for prior in ({}, {"weight_decay": 0.1}, {"l1": 0.05})
    ]
    assert sizes[1] < 0.9 * sizes[0]
    assert sizes[2] < 0.9 * sizes[0]


def log_likelihood(model, rows):
    return -enumerated_loss(model, rows).item()


@pytest.mark.parametrize(
    ("gradient", "kind", "missing"),
    [
        ("delta", "spins", 0.0),
        pytest.param("delta", "tables", 0.2, marks=pytest.mark.slow),
        ("delta", "neural", 0.0),
        ("gibbs", "spins", 0.2),
        ("tempering", "spins", 0.0),
    ],
)
def test_estimated_gradients_reach_the_exact_solution(gradient, kind, missing):
    """Test log-likelihood within 0.01 nats of what the exact gradient gives."""
    truth = grid_model(kind, seed=1)
    rows, test = rows_of(truth, 600, missing=missing), rows_of(truth, 2000, seed=9)
    start, common = flattened(grid_model(kind)), dict(held_out=0, weight_decay=1e-3, seed=0)
    best = learn_model(
        start, rows, gradient="exact", batch_size=None, optimizer="lbfgs", steps=60, **common
    )
    settings = dict(steps=80, batch_size=None, learning_rate=0.1, num_samples=500, q_updates=2)
    settings |= {"num_fillings": 4, "sweeps": 2}
    learned = learn_model(start, rows, gradient=gradient, **settings, **common)
    wanted, found = (log_likelihood(one.model, test) for one in (best, learned))
    assert found == pytest.approx(wanted, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spins", "tables", "neural"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_delta_reaches_the_exact_solution_on_a_larger_grid(kind, missing):
    truth = grid_model("spins" if kind == "neural" else kind, side=4, seed=1)
    rows, test = rows_of(truth, 1000, missing=missing), rows_of(truth, 2000, seed=9)
    start, common = flattened(grid_model(kind, side=4)), dict(held_out=0, weight_decay=1e-3)
    found = [
        learn_model(
            start, rows, gradient=name, steps=400, batch_size=None, learning_rate=0.1, **common
        )
        for name in ("exact", "delta")
    ]
    engines = [exact(one.model) for one in found]
    wanted, reached = (float(engine.log_prob(test).mean()) for engine in engines)
    assert reached == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("name", list(GRADIENTS))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_run_that_was_killed_goes_on(name, missing, tmp_path):
    rows = rows_of(grid_model("tables", seed=1), 80, missing=missing)
    settings = dict(
        gradient=name, steps=9, batch_size=32, evaluate_every=3, checkpoint_every=4,
        num_samples=40, q_warmup=3, held_out=0.2, patience=5,
    )  # fmt: skip
    whole = learn_model(grid_model("tables"), rows, **settings)
    path = tmp_path / "run.checkpoint"

    def interrupt(progress):
        if progress.step == 6:
            raise Stop

    with pytest.raises(Stop):
        learn_model(grid_model("tables"), rows, **settings, checkpoint=path, watch=interrupt)
    again = learn_model(grid_model("tables"), rows, **settings, checkpoint=path, resume=True)
    for first, second in zip(whole.model.groups, again.model.groups, strict=True):
        assert torch.equal(first.tables, second.tables)
    assert whole.held_out.log_likelihood == again.held_out.log_likelihood
    steps = [row["step"] for row in again.history]
    assert steps == [row["step"] for row in whole.history]


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_networks_go_on_wherever_they_were_killed(name, tmp_path):
    """Before the first checkpoint; between two, and then again right after one."""
    rows = rows_of(grid_model("neural", seed=1), 60)
    settings = dict(
        gradient=name, steps=7, batch_size=20, held_out=0, evaluate_every=0, checkpoint_every=2,
        num_samples=30, q_warmup=3, q_ess=1.0, weight_decay=0.01, l1=0.001,
    )  # fmt: skip
    wanted = learn_model(grid_model("neural"), rows, **settings).model.groups[0].log_tables()
    for moments in ((1,), (3, 6)):
        path = tmp_path / f"{moments}.checkpoint"
        for moment in moments:

            def interrupt(progress, moment=moment):
                if progress.step == moment:
                    raise Stop

            with pytest.raises(Stop):
                learn_model(
                    grid_model("neural"), rows, **settings,
                    checkpoint=path, resume=True, watch=interrupt,
                )  # fmt: skip
        again = learn_model(grid_model("neural"), rows, **settings, checkpoint=path, resume=True)
        assert torch.equal(again.model.groups[0].log_tables(), wanted), moments


@pytest.mark.parametrize("l1", [0, 0.05])
def test_lbfgs_resumes(l1, tmp_path):
    rows, path = rows_of(grid_model("spins", seed=1), 100), tmp_path / "run.checkpoint"
    settings = dict(
        gradient="exact", steps=8, batch_size=None, optimizer="lbfgs", checkpoint_every=3, l1=l1
    )
    whole = learn_model(grid_model("spins"), rows, **settings)

    def interrupt(progress):
        if progress.step == 5:
            raise Stop

    with pytest.raises(Stop):
        learn_model(grid_model("spins"), rows, **settings, checkpoint=path, watch=interrupt)
    again = learn_model(grid_model("spins"), rows, **settings, checkpoint=path, resume=True)
    assert torch.equal(whole.model.groups[0].strengths, again.model.groups[0].strengths)
    with pytest.raises(TrainingError, match="other settings"):
        learn_model(
            grid_model("spins"), rows, **{**settings, "steps": 9}, checkpoint=path, resume=True
        )
    with pytest.raises(TrainingError, match="another model"):
        learn_model(grid_model("spins"), rows[1:], **settings, checkpoint=path, resume=True)
    with pytest.raises(ConfigError, match="holds an earlier run"):
        learn_model(grid_model("spins"), rows, **settings, checkpoint=path)


def test_learning_stops_when_judgements_no_longer_improve():
    """Few rows and many parameters: the held-out likelihood falls after a while."""
    rows = rows_of(grid_model("tables", seed=1, scale=0.2), 40)
    settings = dict(gradient="exact", batch_size=None, learning_rate=0.1, evaluate_every=5)
    learned = learn_model(
        flattened(grid_model("tables")), rows, steps=400, patience=3, held_out=0.5, **settings
    )
    judged = [row["held_out"] for row in learned.history]
    assert learned.num_steps < 400
    assert learned.held_out.log_likelihood == pytest.approx(max(judged))
    assert judged[-1] < max(judged)


def test_a_held_out_likelihood_that_is_estimated_says_so(monkeypatch):
    rows = rows_of(grid_model("spins", seed=1), 200)
    settings = dict(steps=20, num_samples=200, held_out=0.2, evaluate_every=10)
    known = learn_model(grid_model("spins"), rows, gradient="delta", **settings)
    assert known.held_out.status == "exact"
    monkeypatch.setattr("deltaai.learning.likelihood.held_out.MOST_ENTRIES", 0)
    for name in ("delta", "gibbs"):
        learned = learn_model(grid_model("spins"), rows, gradient=name, **settings)
        assert learned.held_out.status in ("estimated", "unchecked", "untrusted")
        if name == "delta":  # the estimates draw more, but from another generator
            assert learned.held_out.log_likelihood == pytest.approx(
                known.held_out.log_likelihood, abs=0.2
            )
        assert 0 < learned.held_out.stderr < 0.1


def test_incomplete_rows_are_judged_by_fillings(monkeypatch):
    rows = rows_of(grid_model("tables", seed=1), 120, missing=0.4)
    settings = dict(steps=8, q_warmup=20, num_samples=200, held_out=0.3, evaluate_every=0)
    known = learn_model(grid_model("tables"), rows, gradient="delta", **settings).held_out
    monkeypatch.setattr("deltaai.learning.likelihood.held_out.MOST_ENTRIES", 0)
    found = learn_model(grid_model("tables"), rows, gradient="delta", **settings).held_out
    assert (found.num_rows, known.status, found.status) == (36, "exact", "estimated")
    near = 4.5 * found.stderr + 1e-9
    assert found.log_likelihood == pytest.approx(known.log_likelihood, abs=near)
    assert found.stderr < 0.05


def test_a_measure_goes_to_the_history(tmp_path):
    rows, path = rows_of(grid_model("spins", seed=1), 60), tmp_path / "run.checkpoint"
    settings = dict(gradient="exact", steps=4, evaluate_every=2, checkpoint=path)
    size = lambda model: {"size": float(flat(model.parameters()).norm())}  # noqa: E731
    learned = learn_model(grid_model("spins"), rows, measure=size, **settings)
    assert learned.history[-1]["size"] == pytest.approx(
        float(learned.model.groups[0].strengths.norm())
    )
    again = learn_model(grid_model("spins"), rows, measure=size, resume=True, **settings)
    assert [row["size"] for row in again.history] == [row["size"] for row in learned.history]
    for wrong in (lambda model: 3, lambda model: {"size": "large"}):
        with pytest.raises(ConfigError, match="numbers by name"):
            learn_model(grid_model("spins"), rows, measure=wrong, gradient="exact", steps=1)


def test_the_model_that_was_given_stays_as_it_is():
    model = grid_model("tables")
    before = flat(model.parameters())
    learned = learn_model(model, rows_of(model, 50), gradient="exact", steps=3)
    assert torch.equal(flat(model.parameters()), before)
    assert not list(learned.model.parameters())
    assert list(plain(model).parameters()) == []


def test_conditional_tables_learn_as_plain_ones():
    model = learnable(zoo.sprinkler().condition({"rain": "yes"}))
    assert all(type(group).__name__ == "TableGroup" for group in model.groups)


SPINS = [Variable("a"), Variable("b")]


def coupling():
    return learnable(FactorGraph(SPINS, [SpinCoupling("a", "b", 0.1)]))


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (torch.tensor([[0, 2]]), "'b' the state 2"),
        (torch.tensor([[0, -2]]), "missing cell is -1"),
        (torch.tensor([[0.0, math.nan]]), "NaN in column 1"),
        (torch.tensor([[0.0, 1.0]]), "integers"),
        (torch.tensor([[0, -1], [1, -1]]), "'b' is missing in every row"),
        (torch.zeros(0, 2, dtype=torch.long), "no rows"),
        (torch.tensor([[0, 1, 1]]), "shape"),
        ([[0, 1]], "integer tensor"),
    ],
)
def test_bad_rows_are_refused(rows, match, monkeypatch):
    monkeypatch.setattr(config, "jaxtyping_disable", True)  # users do not have the tests' checks
    with pytest.raises(StateError, match=match):
        learn_model(coupling(), rows)


def test_bad_settings_and_models_are_refused():
    rows = torch.tensor([[0, 1], [1, 1]] * 5)
    constant = FactorGraph(SPINS, [SpinCoupling("a", "b", 0.1)])
    with pytest.raises(ModelError, match="learnable"):
        learn_model(constant, rows)
    zero = FactorGraph(SPINS, [TableFactor.from_values(["a", "b"], [[1.0, 0.0], [1.0, 1.0]])])
    with pytest.raises(ModelError, match="zeros"):
        learnable(zero)
    for settings, match in (
        ({"gradient": "exat"}, "did you mean 'exact'"),
        ({"step": 3}, "no setting 'step'"),
        ({"patience": 2, "held_out": 0}, "patience"),
        ({"optimizer": "lbfgs"}, "batch_size"),
        ({"optimizer": "lbfgs", "batch_size": None, "gradient": "gibbs"}, "optimizer='adam'"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"held_out": 0.99}, "held out"),
    ):
        with pytest.raises(DeltaAIError, match=match):
            learn_model(coupling(), rows, **settings)


def test_a_gradient_can_be_registered():
    class Twice(GRADIENTS["exact"]):
        def surrogate(self, chosen):
            return 2 * super().surrogate(chosen)

    register_gradient("twice", Twice)
    try:
        learned = learn_model(
            grid_model("spins"), rows_of(grid_model("spins"), 30), gradient="twice", steps=2
        )
        assert learned.gradient == "twice"
    finally:
        del GRADIENTS["twice"]
