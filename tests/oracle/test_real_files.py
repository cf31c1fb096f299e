"""Files of the field: networks normalise, UAI problems match their reference solutions."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import deltaai as dai
from data_folder import data_folder

REPOSITORY = Path(__file__).parents[2]
SMALL = ["asia", "cancer", "earthquake", "survey", "sachs", "child", "alarm", "hepar2"]
LARGE = ["water", "pathfinder", "pigs", "mildew", "diabetes", "link"]
QUICK_PROBLEMS = ["Grids_12", "CSP_12", "Promedus_24", "Promedus_13", "Pedigree_11", "Alchemy_11"]


@pytest.mark.parametrize(
    "name",
    [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in [*LARGE, "munin1"])],
)
def test_bayesian_networks_normalise(name):
    model = dai.read(data_folder() / "bif" / f"{name}.bif.gz")
    assert abs(dai.exact(model, memory_limit=8 * 2**30).log_partition()) < 1e-6


@pytest.mark.parametrize("name", QUICK_PROBLEMS)
def test_uai_partition_functions_match_their_references(name):
    folder = data_folder() / "uai"
    model = dai.read(folder / f"{name}.uai")
    evidence = dai.read_evidence(folder / f"{name}.uai.evid", model)
    printed = (folder / f"{name}.uai.PR").read_text().split()[-1]
    decimals = len(printed.partition(".")[2])
    found = dai.exact(model, evidence).log_partition() / math.log(10)
    assert round(found, decimals) == pytest.approx(float(printed), abs=1.5 * 10**-decimals)


@pytest.mark.slow
def test_every_affordable_uai_problem_matches_its_reference():
    """The whole set with marginals, by the benchmark script, which fails on any difference."""
    folder = data_folder()
    script = REPOSITORY / "benchmarks" / "uai_reference.py"
    command = [sys.executable, str(script), "--data-dir", str(folder), "--memory-limit", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    problems = json.loads((folder / "uai" / "index.json").read_text())
    assert all(f"| {name} |" in done.stdout for name in problems)
    assert done.stdout.count("refused") <= 2
