"""The learners of poses by method: what the figure of poses compares.

Each entry makes a learner from scaled poses, the settings of its part and a seed; the setting
``orders`` says whether q is to know one order of the joints or all of them. A new method is one
line in :data:`LEARNERS`, and its label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from deltaai.experiments.harness.parts import Setting
from deltaai.io import ScaledPoses
from deltaai.learning import EnergyConfig, EnergyLearner, IndependentRows, RowLearner
from deltaai.models import zoo

Options = Mapping[str, Setting]

LABELS = {
    "delta": "Δ-AI",
    "tb": "TB",
    "db": "DB",
    "fl-db": "FL-DB",
    "independent": "independent angles",
}
# Settings of a method's own: a part's result depends on them. Updates are a limit where others
# have none.
SETTINGS: dict[str, dict[str, Setting]] = {"independent": {"updates": 10}}


def _independent(poses: ScaledPoses, options: Options, seed: int) -> RowLearner:
    return IndependentRows(poses.train, int(options["updates"]), seed)


def _energy(objective: str) -> Callable[[ScaledPoses, Options, int], RowLearner]:
    """The paper's energy, with q trained by an objective."""

    def made(poses: ScaledPoses, options: Options, seed: int) -> RowLearner:
        config = EnergyConfig(
            objective=objective,
            orders="many" if options["orders"] == "many" else "one",
            seconds=float(options["time_limit"]) or None,
            updates=int(options["updates"]) or None,
        )
        energy = zoo.pose_energy(poses.nodes, poses.edges, seed, dtype=torch.float32)
        return EnergyLearner(energy, poses.train, config, seed)

    return made


LEARNERS: dict[str, Callable[[ScaledPoses, Options, int], RowLearner]] = {
    **{name: _energy(name) for name in ("delta", "tb", "db", "fl-db")},
    "independent": _independent,
}


def own_settings(method: str) -> dict[str, Setting]:
    """Settings of a method that others do not have."""
    return dict(SETTINGS.get(method, {}))
