"""The recovery of Ising models: its truth, its figure, and what rows allow."""

import math
from dataclasses import replace

import pytest
import torch

from deltaai.experiments import Row
from deltaai.experiments.figures.ebm_recovery import EXPERIMENT
from deltaai.experiments.harness import recovery
from deltaai.experiments.harness.part_files import FinishedPart
from deltaai.experiments.harness.plots import write_plot
from deltaai.experiments.harness.results import curves_of
from deltaai.experiments.harness.summary import median_time, model_table, summary_text


def test_every_spin_of_a_torus_has_four_neighbours():
    edges = {tuple(sorted(edge)) for edge in recovery.torus_edges(4).tolist()}
    assert len(edges) == 32
    assert torch.tensor(sorted(edges)).flatten().bincount().tolist() == [4] * 16
    assert len(recovery.all_pairs(4)) == 120


def test_the_score_is_over_all_entries_of_the_matrix():
    side, sigma = 4, 0.3
    generator = torch.Generator().manual_seed(0)
    pairs = recovery.all_pairs(side)
    couplings = torch.randn(len(pairs), generator=generator, dtype=torch.float64)
    wanted, found = torch.zeros(16, 16), torch.zeros(16, 16)
    for u, v in recovery.torus_edges(side).tolist():
        wanted[u, v] = wanted[v, u] = sigma
    for (u, v), coupling in zip(pairs.tolist(), couplings.tolist(), strict=True):
        found[u, v] = found[v, u] = coupling / 2
    rmse = float((wanted - found).square().mean().sqrt())
    score = recovery.score(recovery.spins(pairs, couplings), side, sigma)
    assert score == pytest.approx(-math.log(rmse), abs=1e-6)
    truth = recovery.with_strength(recovery.torus_edges(side), 2 * sigma + 0.02)
    assert recovery.score(truth, side, sigma) == pytest.approx(-math.log(0.01 * 64**0.5 / 16))


def test_the_bound_of_independent_spins_is_known():
    """Products of fair coins have variance one and no covariance."""
    rmse = recovery.lowest_rmse(4, 0.0, 100, 20_000, 0)
    assert rmse == pytest.approx(math.sqrt(2 * 32 / 100 / 4 / 256), rel=0.01)


def finished(values, seed=0):
    (part,) = [p for p in EXPERIMENT.parts_at("smoke", 1) if p.name == "known-0.1--delta--0"]
    rows = [Row(step, float(step), "score", value) for step, value in enumerate(values)]
    return FinishedPart("ebm-recovery", replace(part, seed=seed), tuple(rows), 1.0, 1, "2 cores")


def test_larger_is_better_and_published_values_stand_beside(tmp_path):
    runs = [finished([4.0, 5.0, 6.0]), finished([4.0, 4.5, 5.5], seed=1)]
    curves = curves_of(runs, "score")["known-0.1"]
    assert curves["delta"][0].time_to_reach(5.0, is_larger_better=True) == 1.0
    assert median_time(curves["delta"], 5.0, is_larger_better=True) == 1.5
    table = model_table(EXPERIMENT, curves, "known-0.1")
    assert [row[0] for row in table[1:]] == ["Δ-AI", *recovery.PUBLISHED]
    assert [row[2] for row in table[2:]] == ["4.8", "6.1"]
    text = summary_text(EXPERIMENT, runs, command="")
    assert "EB-GFN (published)" in text
    assert "ratio to" not in text
    for name, experiment in (("with", EXPERIMENT), ("without", replace(EXPERIMENT, references={}))):
        write_plot(tmp_path / f"{name}.png", experiment, runs)
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()
