"""An energy of rows that is learned, beside the likelihood that a grid says it has."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import deltaai as dai
from deltaai.learning import EnergyConfig, EnergyLearner


def bent_rows(number: int = 1000) -> torch.Tensor:
    """A knee that follows the square of the hip."""
    generator = torch.Generator().manual_seed(0)
    hip = torch.rand(number, 1, generator=generator, dtype=torch.float64) - 0.5
    noise = torch.randn(number, 1, generator=generator, dtype=torch.float64)
    return torch.cat((hip, hip**2 + 0.05 * noise), dim=1)


def learner_of(**settings: object) -> EnergyLearner:
    energy = dai.zoo.pose_energy([("hip", 1), ("knee", 1)], [(0, 1)], 0)
    return EnergyLearner(energy, bent_rows(), EnergyConfig(**settings), seed=0)


@torch.no_grad()
def log_likelihood(model: dai.FactorGraph, rows: torch.Tensor, points: int = 201) -> float:
    """Mean log density of rows, normalised by the midpoints of a grid."""
    middles = (2 * torch.arange(points, dtype=torch.float64) + 1) / points - 1
    scores = model.log_score(torch.cartesian_prod(middles, middles))
    log_partition = float(scores.logsumexp(0)) + 2 * math.log(2 / points)
    return float(model.log_score(rows).mean()) - log_partition


@pytest.mark.parametrize("objective", ["delta", "score", "tb"])
def test_rows_become_likely(objective: str) -> None:
    learner, rows = learner_of(objective=objective), bent_rows()
    before = log_likelihood(learner.model, rows)
    assert abs(before + math.log(4)) < 0.3  # about uniform
    learner.run(updates=200)
    assert log_likelihood(learner.model, rows) > before + 0.5
    drawn = learner.sample(4000, torch.Generator().manual_seed(1))
    assert bool(((drawn.mean(0) - rows.mean(0)).abs() < 0.1).all())


def test_the_gradient_is_that_of_the_likelihood() -> None:
    """With an exact sampler in place of q, p moves along the slope that the grid says."""
    learner, rows = learner_of(jitter=0.0, decay=0.0, rows=20_000, draws=20_000), bent_rows()
    axis = (2 * torch.arange(201, dtype=torch.float64) + 1) / 201 - 1
    grid = torch.cartesian_prod(axis, axis)
    weights = learner.model.log_score(grid).detach().softmax(0)

    def drawn(number: int, generator: torch.Generator | None) -> torch.Tensor:
        chosen = torch.multinomial(weights, number, replacement=True, generator=generator)
        return grid[chosen].T

    learner._drawn = drawn  # type: ignore[method-assign]
    log_partition = learner.model.log_score(grid).logsumexp(0)
    wanted = torch.autograd.grad(
        log_partition - learner.model.log_score(rows).mean(), learner.energy
    )
    learner._move_energy(1.0)
    found = torch.cat([value.grad.flatten() for value in learner.energy])
    exact = torch.cat([value.flatten() for value in wanted])
    cosine = float(found @ exact / (found.norm() * exact.norm()))
    assert cosine > 0.99


def test_a_run_that_is_taken_up_ends_alike(tmp_path: Path) -> None:
    whole, first, second = (learner_of() for _ in range(3))
    whole.run(updates=6)
    first.run(updates=3)
    first.save(tmp_path / "run")
    second.restore(tmp_path / "run")
    second.run(updates=6)
    assert all(map(torch.equal, whole.energy, second.energy))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EnergyConfig(objective="nothing"), "objective is 'nothing'"),
        (lambda: EnergyConfig(data_share=2.0), "data_share is 2.0"),
        (lambda: learner_of().run(), "seconds"),
        (lambda: EnergyLearner(dai.zoo.gaussian_tree(3, 1.0, 0), bent_rows()), "alone"),
        (lambda: EnergyLearner(learner_of().model, bent_rows()[:0]), "no rows"),
        (lambda: EnergyLearner(learner_of().model, 3 * bent_rows()), "from -1 to 1"),
    ],
)
def test_what_cannot_be_learned_is_said_in_a_line(make, says: str) -> None:
    with pytest.raises(dai.DeltaAIError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
