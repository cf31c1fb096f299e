"""Judging learners of poses: how far their draws are from test rows, and examples.

The distances are MMD's, linear and RBF, between as many draws as there are test rows and these, in
scaled coordinates; see :mod:`deltaai.metrics.real_mmd`. They are roots of biased estimates, so what
they would be at best is measured too: between two halves of the test rows, drawn at random or clip
by clip, and between training rows and test rows. The first is what equal distributions have at half
the number of rows. The others are larger, for clips differ: nobody who learns from the training
rows can be expected to be nearer than these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from deltaai.experiments.harness.pose_methods import Options
from deltaai.experiments.harness.skeleton_pictures import COLUMNS, kept_skeletons
from deltaai.io import ScaledPoses
from deltaai.learning import RowLearner
from deltaai.metrics import (
    real_linear_mmd,
    real_linear_mmd_distance,
    real_rbf_mmd,
    real_rbf_mmd_distance,
    reference_bandwidth,
)
from deltaai.randomness import generator_of

NUM_EXAMPLES = 2 * COLUMNS
_NUM_SPLITS = 10  # into halves, over which distances are averaged
_TEST_SEED, _SPLIT_SEED, _SAMPLE_SEED = 1, 2, 3


@dataclass(frozen=True, eq=False)
class PoseJudge:
    """What learners of one set of poses are held against.

    Parameters
    ----------
    poses : the data set.
    test : its test rows, or some of them, in an order of their own.
    clips : of which clip each of these is.
    bandwidth : of the RBF kernel: their median distance.
    seed : of draws; that of the part, so that the spread over seeds has their noise in it.
    """

    poses: ScaledPoses
    test: Float64[Tensor, "row column"]
    clips: Int64[Tensor, "row"]
    bandwidth: float
    seed: int = 0

    @classmethod
    def of(cls, poses: ScaledPoses, options: Options, seed: int = 0) -> PoseJudge:
        """The judge of a data set, the same for all methods; looks at so many rows at most."""
        chosen = _shuffled(len(poses.test), _TEST_SEED)[: int(options["most_judged"])]
        test = poses.test[chosen]
        return cls(poses, test, poses.test_clips[chosen], reference_bandwidth(test), seed)

    def on_the_way(self, learner: RowLearner) -> dict[str, float]:
        """Distances of draws to test rows."""
        drawn = self._drawn(learner, len(self.test))
        return {f"{kind}_mmd": value for kind, value in self._distances(drawn, self.test).items()}

    def at_the_end(self, learner: RowLearner) -> dict[str, float]:
        """The same without bias, in multiples of those between halves, and counts."""
        drawn = self._drawn(learner, len(self.test))
        found = self._distances(drawn, self.test)
        halves, halves_by_clip = self._between_halves, self._between_halves_by_clip
        counts = {f"parameters_{key}": value for key, value in learner.num_parameters.items()}
        return {
            **{f"{kind}_mmd_over_halves": found[kind] / halves[kind] for kind in found},
            **{f"{kind}_mmd_over_clips": found[kind] / halves_by_clip[kind] for kind in found},
            "linear_mmd_squared_unbiased": real_linear_mmd(drawn, self.test),
            "rbf_mmd_squared_unbiased": real_rbf_mmd(drawn, self.test, self.bandwidth),
            "num_updates": learner.num_updates,
            **counts,
        }

    def of_the_data(self) -> dict[str, float]:
        """What the distances are between rows of the data."""
        train = self.poses.train
        some = train[_shuffled(len(train), _TEST_SEED)[: len(self.test)]]
        found = {
            "of_halves": self._between_halves,
            "of_clips": self._between_halves_by_clip,
            "of_training": self._distances(some, self.test),
        }
        return {
            f"{kind}_mmd_{name}": value
            for name, both in found.items()
            for kind, value in both.items()
        }

    def write_examples(self, learner: RowLearner, path: Path) -> None:
        """Keep people that were drawn, and real ones to be shown beside them."""
        rows = {
            "samples": self._drawn(learner, NUM_EXAMPLES),
            "data": self.test[:NUM_EXAMPLES],
        }
        kept_skeletons(self.poses, rows, path)

    def _drawn(self, learner: RowLearner, number: int) -> Float64[Tensor, "number column"]:
        seeds = (_SAMPLE_SEED, self.seed)
        generator = generator_of(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
        return learner.sample(number, generator).double()

    def _distances(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {
            "linear": real_linear_mmd_distance(x, y),
            "rbf": real_rbf_mmd_distance(x, y, self.bandwidth),
        }

    @cached_property
    def _between_halves(self) -> dict[str, float]:
        """Mean distances between random halves of the test rows."""
        middle = len(self.test) // 2
        orders = [_shuffled(len(self.test), _SPLIT_SEED + split) for split in range(_NUM_SPLITS)]
        return self._mean([(order[:middle], order[middle:]) for order in orders])

    @cached_property
    def _between_halves_by_clip(self) -> dict[str, float]:
        """The same where no clip is in both halves."""
        numbers, which = torch.unique(self.clips, return_inverse=True)
        pairs = []
        for split in range(_NUM_SPLITS):
            order = _shuffled(len(numbers), _SPLIT_SEED + split)
            is_first = torch.isin(which, order[: len(numbers) // 2].to(which.device))
            pairs.append((is_first.nonzero().squeeze(1), (~is_first).nonzero().squeeze(1)))
        return self._mean([pair for pair in pairs if len(pair[0]) and len(pair[1])])

    def _mean(self, pairs: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
        found = [self._distances(self.test[first], self.test[second]) for first, second in pairs]
        return {kind: fmean(each[kind] for each in found) for kind in ("linear", "rbf")}


def _shuffled(number: int, seed: int) -> Int64[Tensor, "number"]:
    return torch.randperm(number, generator=generator_of(seed), dtype=torch.long, device="cpu")
