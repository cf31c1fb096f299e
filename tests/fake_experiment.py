"""An experiment that takes no time, for the tests of what runs experiments.

Environment variables say where to count calls and which part fails, is interrupted or dies, so
that other processes know it too.
"""

import os
import signal
from pathlib import Path

from deltaai.errors import DeltaAIError
from deltaai.experiments import Experiment, Part, Row


def parts(scale, num_seeds):
    steps = {"smoke": 3, "small": 6, "paper": 9}[scale]
    return [
        Part(model, method, seed, scale, {"steps": steps})
        for model in ("ladder", "lattice")
        for method in ("delta", "tb", "slow")
        for seed in range(num_seeds)
    ]


def run_part(part):
    calls = os.environ.get("FAKE_CALLS")
    if calls:
        with Path(calls, part.name).open("a") as stream:
            stream.write("x")
    if os.environ.get("FAKE_INTERRUPT") == part.name:
        raise KeyboardInterrupt
    if os.environ.get("FAKE_DEATH") == part.name:
        os.kill(os.getpid(), signal.SIGKILL)
    yield Row(0, 0.0, "ground_truth_is_exact", float(part.model == "ladder"))
    pace = {"delta": 1.0, "tb": 4.0, "slow": 4.0}[part.method]
    floor = 1.0 if part.method == "slow" else 0.0
    for step in range(part.options["steps"] + 1):
        seconds = pace * step * (1 + 0.1 * part.seed)
        yield Row(step, seconds, "gap", floor + 8.0 / 4**step)
    if os.environ.get("FAKE_FAILURE") == part.name:
        raise DeltaAIError("the fake part fails")


EXPERIMENT = Experiment(
    name="fake",
    title="A fake figure",
    description="Three methods that halve a number.",
    metric="gap",
    metric_label="gap to the truth (nats)",
    parts=parts,
    run_part=run_part,
    method_labels={"delta": "Delta-AI", "tb": "TB", "slow": "Slow"},
    model_labels={"ladder": "Ladder, 4 variables", "lattice": "Lattice, 9 variables"},
    thresholds=(1.0, 0.5),
    notes="Nothing was trained.",
)
