"""Every gradient of the likelihood against enumeration, with and without missing cells."""

import pytest
import torch

from deltaai.learning import (
    GRADIENTS,
    GradientSettings,
    LearningRows,
    build_gradient,
    log_pseudo_likelihood,
)
from deltaai.learning.likelihood.delta_gradient import flattened_weights
from deltaai.learning.likelihood.gradients import all_of
from deltaai.training.nested_state import pack_state, unpack_state
from learning_oracle import (
    all_states,
    enumerated_gradient,
    enumerated_loss,
    estimated_gradient,
    grid_model,
    rows_of,
)

KINDS = ["tables", "spins", "neural"]


def gradient_of(name, model, rows, **settings):
    checked = LearningRows.of(model, rows)
    return build_gradient(name, model, checked, GradientSettings(**settings)), all_of(checked)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_gradient_and_its_value(kind, missing):
    model = grid_model(kind)
    rows = rows_of(grid_model(kind, seed=1), 60, missing=missing)
    rows[3] = -1  # says nothing
    gradient, chosen = gradient_of("exact", model, rows)
    for some in (chosen, chosen[:17], chosen[3:4]):
        found, _ = estimated_gradient(gradient, some)
        torch.testing.assert_close(found, enumerated_gradient(model, rows[some]), rtol=0, atol=1e-8)
        value, wanted = (
            one.item() for one in (gradient.surrogate(some), enumerated_loss(model, rows[some]))
        )
        assert value == pytest.approx(wanted, abs=1e-8)


def test_the_exact_gradient_follows_the_model():
    model, rows = grid_model("spins"), rows_of(grid_model("spins", seed=1), 40, missing=0.2)
    gradient, chosen = gradient_of("exact", model, rows)
    gradient.surrogate(chosen)
    for how in ("in place", "unseen"):
        for value in model.parameters():
            if how == "in place":
                with torch.no_grad():
                    value.add_(0.3)
            else:
                value.data.add_(0.3)
        found, _ = estimated_gradient(gradient, chosen)
        torch.testing.assert_close(found, enumerated_gradient(model, rows), rtol=0, atol=1e-8)


# Estimates: each part within some standard errors of the truth, taken from repeated calls that use
# chains and draws anew. A bias of the size that is tolerated beside would move p by less than rows
# of these numbers determine it.
@pytest.mark.parametrize(
    ("kind", "missing"), [("tables", 0.0), ("tables", 0.3), ("spins", 0.3), ("neural", 0.0)]
)
@pytest.mark.parametrize("name", ["delta", "gibbs", "tempering"])
def test_estimated_gradients(name, kind, missing):
    model = grid_model(kind)
    rows = rows_of(grid_model(kind, seed=1), 60, missing=missing)
    settings = dict(num_samples=2000, num_fillings=16, q_warmup=150, steps=30, sweeps=4)
    gradient, chosen = gradient_of(name, model, rows, **settings)
    found, stderr = estimated_gradient(gradient, chosen, repeats=12)
    wanted = enumerated_gradient(model, rows)
    worst = ((found - wanted).abs() - 4.5 * stderr).max()
    assert float(worst) < 0.003
    assert float(torch.cosine_similarity(found, wanted, dim=0)) > 0.99


def test_weights_take_the_bias_of_an_untrained_q_away():
    """q as it is initialised: drawn from without weights, it gives another gradient."""
    model = grid_model("spins", scale=1.0)
    rows = rows_of(grid_model("spins", seed=1), 60)
    errors = {}
    for is_weighted in (True, False):
        gradient, chosen = gradient_of(
            "delta", model, rows, num_samples=8000, q_warmup=0, is_weighted=is_weighted
        )
        gradient.follow = lambda: None
        found, _ = estimated_gradient(gradient, chosen, repeats=4)
        errors[is_weighted] = float((found - enumerated_gradient(model, rows)).norm())
    assert errors[True] < 0.1 * errors[False]


def test_flattened_weights_keep_enough_samples():
    generator = torch.Generator().manual_seed(0)
    log_weights = 20 * torch.randn(1, 500, generator=generator, dtype=torch.float64)
    weights = flattened_weights(log_weights)
    assert float(weights.sum()) == pytest.approx(1.0)
    assert 1 / float(weights.square().sum()) >= 50
    mild = 0.1 * log_weights / 20
    torch.testing.assert_close(flattened_weights(mild), mild.softmax(1))


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_pseudo_likelihood_by_definition(kind, missing):
    model = grid_model(kind)
    rows = rows_of(grid_model(kind, seed=1), 12, missing=missing)
    states, graph = all_states(model), model.markov_graph()
    scores = model.log_score(states)
    expected = torch.zeros(len(rows), dtype=torch.float64)
    for number, row in enumerate(rows):
        for u in range(model.num_variables):
            near = [u, *graph.neighbours(u)]
            if bool((row[near] < 0).any()):
                continue
            agrees = (states[:, near[1:]] == row[near[1:]]).all(1)
            both = agrees & (states[:, u] == row[u])
            # Given its neighbours a variable is independent of all others.
            expected[number] += scores[both].logsumexp(0) - scores[agrees].logsumexp(0)
    found = log_pseudo_likelihood(model, rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    gradient, chosen = gradient_of("pseudo", model, rows)
    mine, _ = estimated_gradient(gradient, chosen)
    theirs = torch.autograd.grad(-expected.mean(), list(model.parameters()))
    torch.testing.assert_close(mine, torch.cat([g.flatten() for g in theirs]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", list(GRADIENTS))
def test_a_gradient_resumes(name, missing):
    """State and parameters are all that later calls depend on."""
    rows = rows_of(grid_model("tables", seed=1), 30, missing=missing)
    settings = dict(num_samples=50, q_warmup=4, steps=20)
    first, chosen = gradient_of(name, grid_model("tables"), rows, **settings)
    first.surrogate(chosen)
    tensors, packed = pack_state(first.state())
    copied = {key: value.clone() for key, value in tensors.items()}
    wanted = [float(first.surrogate(chosen).detach()) for _ in range(3)]
    second, _ = gradient_of(name, grid_model("tables"), rows, **settings)
    second.restore(unpack_state(copied, packed))
    assert [float(second.surrogate(chosen).detach()) for _ in range(3)] == wanted
