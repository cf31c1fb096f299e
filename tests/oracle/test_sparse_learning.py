"""Penalties on the likelihood: what is reached has the slopes of a minimum, by enumeration."""

import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.learning import learn_model, learnable
from learning_oracle import enumerated_gradient, enumerated_loss, flat, grid_model, rows_of

L1 = 0.1
COMMON = dict(batch_size=None, held_out=0, evaluate_every=0, checkpoint_every=4)
DETERMINISTIC = COMMON | dict(gradient="exact", optimizer="lbfgs", l1=L1, steps=400, tolerance=1e-5)


def weak_rows(kind, count, missing=0.0):
    """Rows of a truth whose factors are weak, so that a penalty removes some."""
    return rows_of(grid_model(kind, seed=1, scale=0.3), count, missing=missing)


def violation(model, rows, l1, weight_decay=0.0):
    """How far the enumerated gradient is from what the penalty λ Σ |θ| asks for."""
    theta = flat(model.parameters())
    slope = enumerated_gradient(model, rows) + weight_decay * theta
    at_zero = (slope.abs() - l1).clamp(min=0)
    return float(torch.where(theta == 0, at_zero, (slope + l1 * theta.sign()).abs()).max())


@pytest.mark.parametrize(
    ("kind", "missing", "weight_decay"),
    [("spins", 0.0, 0.0), ("spins", 0.2, 0.05), ("tables", 0.0, 0.0)],
)
def test_line_searches_end_at_the_minimum_with_zeros(kind, missing, weight_decay):
    rows = weak_rows(kind, 200, missing)
    found = learn_model(grid_model(kind), rows, **DETERMINISTIC, weight_decay=weight_decay)
    model = learnable(found.model)
    theta = flat(model.parameters())
    assert found.is_converged, found.num_steps
    assert violation(model, rows, L1, weight_decay) < 1.1e-5
    num_zero = int((theta == 0).sum())
    assert 0 < num_zero < len(theta)


def test_a_larger_penalty_leaves_nothing():
    """At zero the slope is what a penalty must exceed; just below, something is left."""
    rows = rows_of(grid_model("spins", seed=1), 200)
    start = grid_model("spins")
    with torch.no_grad():
        for value in start.parameters():
            value.zero_()
    most = float(enumerated_gradient(start, rows).abs().max())
    for share, is_empty in ((1.01, True), (0.95, False)):
        settings = DETERMINISTIC | {"l1": share * most}
        found = learn_model(grid_model("spins"), rows, **settings).model
        assert bool((found.groups[0].strengths == 0).all()) == is_empty


@pytest.mark.parametrize(("gradient", "above"), [("exact", 1e-4), ("delta", 2e-3)])
def test_steps_of_adam_meet_the_penalty(gradient, above):
    """They come to the same zeros, and to about the same value."""
    rows = weak_rows("spins", 300)
    best = learn_model(grid_model("spins"), rows, **DETERMINISTIC).model.groups[0].strengths
    settings = COMMON | dict(l1=L1, steps=100, learning_rate=0.1, num_samples=500, q_updates=2)
    learned = learn_model(grid_model("spins"), rows, gradient=gradient, **settings).model
    found = learned.groups[0].strengths
    assert (found == 0).any()
    best_value, value = (
        enumerated_loss(replaced(strengths), rows).item() + L1 * float(strengths.abs().sum())
        for strengths in (best, found)
    )
    assert value < best_value + above
    # Estimates may differ about parameters that hardly matter.
    differs = (found == 0) != (best == 0)
    assert float(torch.where(differs, found + best, 0).abs().max()) < 0.03


def replaced(strengths):
    model = grid_model("spins")
    with torch.no_grad():
        next(iter(model.parameters())).copy_(strengths)
    return model


def test_pseudo_likelihood_with_line_searches():
    rows = weak_rows("spins", 300)
    found = learn_model(grid_model("spins"), rows, **DETERMINISTIC | {"gradient": "pseudo"})
    adam = COMMON | dict(gradient="pseudo", l1=L1, steps=250, learning_rate=0.05)
    other = learn_model(grid_model("spins"), rows, **adam)
    assert found.is_converged
    assert bool((found.model.groups[0].strengths == 0).any())
    torch.testing.assert_close(
        found.model.groups[0].strengths, other.model.groups[0].strengths, rtol=0, atol=1e-3
    )


def test_decay_to_the_mean():
    """The slope balances the pull towards the mean; a strong one makes all couplings the same."""
    rows = rows_of(grid_model("spins", seed=1), 200)
    settings = COMMON | dict(gradient="exact", optimizer="lbfgs", steps=200, decay_to="mean")
    for strength in (0.1, 1e4):
        found = learn_model(grid_model("spins"), rows, **settings, weight_decay=strength).model
        model = learnable(found)
        theta = flat(model.parameters())
        slope = enumerated_gradient(model, rows) + strength * (theta - theta.mean())
        assert float(slope.abs().max()) < 1e-4
    assert float(theta.std()) < 1e-3
    assert float(enumerated_gradient(model, rows).sum()) == pytest.approx(0, abs=1e-3)


@pytest.mark.usefixtures("as_a_user_runs_it")
def test_bad_penalties_are_refused():
    rows = rows_of(grid_model("spins"), 20)
    for settings, match in (
        ({"decay_to": "median"}, "decay_to"),
        ({"l1": -1}, "l1"),
    ):
        with pytest.raises(ConfigError, match=match):
            learn_model(grid_model("spins"), rows, **settings)
