"""Poses as rows in a box, for a factor graph on the body: nodes, edges, and rows of [-1, 1].

Every joint that turns is a node with one to three coordinates (:mod:`deltaai.io.poses.joint_axes`),
and is joined to the nearest joint above it that turns, too: a tree. Coordinates are scaled one by
one,

    z = (x - middle) / half,   [middle ± half] = [low - m w, high + m w],   w = high - low,

with ``low`` and ``high`` the quantiles ``tail`` and 1 - ``tail`` of the training rows and m the
``margin``; half a turn is the limit. Values outside are moved to the border.

Why not x/π, as for any angle? A joint of the spine varies by .03 radians and a hip by .4; over π
the first is .01, where a truncated normal is a needle and a network sees a constant. Why not the
smallest and largest values? A few broken or acrobatic frames reach ten deviations and more, and
would squeeze all others likewise. With quantiles deviations are .1 to .5, a few in 10,000 values
are moved, and the margin keeps the rest off the border, where half of a normal is cut away.

The training rows alone decide all of this. They and the test rows are of different clips, for
frames of one clip are alike. Frames with a joint other than the root turned by nearly half a turn
are left out: there the axis jumps to its opposite, or the capture was broken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from deltaai.arguments import checked_number, checked_object
from deltaai.errors import ConfigError, Setting, StateError, shown
from deltaai.io.poses.joint_axes import JointAxes
from deltaai.io.poses.pose_set import PoseSet
from deltaai.io.poses.skeleton import Skeleton
from deltaai.randomness import generator_of


@dataclass(frozen=True, eq=False)
class ScaledPoses:
    """Rows to learn from and to judge by, what their columns are, and the way back to angles.

    Parameters
    ----------
    poses : where they are from.
    nodes : name and number of coordinates of every joint that turns; columns are in this order.
    edges : pairs of numbers of nodes, the one nearer to the root first.
    axes : of every joint, also of those that do not turn.
    joints : which joint each node is.
    middle, half : of each column, in radians.
    train, test : rows in [-1, 1].
    train_clips, test_clips : which clip each row is of; none is in both.
    num_left_out : frames that are in neither.
    share_moved : of the values of the training rows, that were moved to the border.
    """

    poses: PoseSet
    nodes: tuple[tuple[str, int], ...]
    edges: tuple[tuple[int, int], ...]
    axes: tuple[JointAxes, ...]
    joints: tuple[int, ...]
    middle: Float64[Tensor, "column"]
    half: Float64[Tensor, "column"]
    train: Float64[Tensor, "row column"]
    test: Float64[Tensor, "held_out column"]
    train_clips: Int64[Tensor, "row"]
    test_clips: Int64[Tensor, "held_out"]
    num_left_out: int
    share_moved: float

    @classmethod
    def of(
        cls,
        poses: PoseSet,
        *,
        seed: int = 0,
        test_share: float | int = 0.2,
        tail: float | int = 0.001,
        margin: float | int = 0.125,
        tolerance: float | int = 1e-3,
        largest_turn: float | int = 0.9 * math.pi,
    ) -> ScaledPoses:
        """Scale poses, and split them.

        Parameters
        ----------
        poses : to be scaled.
        seed : of the split.
        test_share : of the frames, at least, that are to judge by.
        tail : share of the training values on either side that the margin alone makes room for.
        margin : on either side of the quantiles, as a share of their distance.
        tolerance : deviation in radians up to which a direction counts as constant.
        largest_turn : angle in radians beyond which a joint, but for the root, counts as broken.

        Examples
        --------
        >>> from deltaai.io import synthetic_poses
        >>> scaled = ScaledPoses.of(synthetic_poses())
        >>> scaled.nodes[:2], scaled.edges[:2], scaled.num_columns, len(scaled.test)
        ((('pelvis', 3), ('left_hip', 3)), ((0, 1), (0, 2)), 54, 120)
        """
        checked_object("poses", poses, PoseSet, "take that of pose_set")
        tolerance = checked_number("tolerance", tolerance)
        margin = checked_number("margin", margin, is_zero_allowed=True)
        if not 0 <= (tail := checked_number("tail", tail, is_zero_allowed=True)) < 0.5:
            raise ConfigError(Setting("tail"), f" is {tail:g}; it must be at least 0 and below 0.5")
        turned = poses.angles[:, 1:].norm(dim=-1)
        is_whole = (turned <= checked_number("largest_turn", largest_turn)).all(1)
        if not bool(is_whole.any()):
            raise StateError(
                f"every frame of {poses.name} has a joint turned by more than {largest_turn:g} "
                "radians: raise largest_turn"
            )
        kept = poses.keep(is_whole)
        is_test = _chosen_clips(kept, checked_number("test_share", test_share), seed)
        train = kept.angles[~is_test]
        axes = tuple(JointAxes.of(train[:, v], tolerance) for v in range(poses.skeleton.num_joints))
        joints = tuple(v for v, each in enumerate(axes) if each.count)
        if not joints:
            raise StateError(f"no joint of {poses.name} turns by more than {tolerance:g} radians")
        radians = _coordinates(axes, kept.angles)
        middle, half = _box(radians[~is_test], tail, margin)
        scaled = (radians - middle) / half
        moved = (scaled[~is_test].abs() > 1).double().mean()
        rows = scaled.clamp(-1, 1)
        return cls(
            poses,
            tuple((poses.names[v], axes[v].count) for v in joints),
            _edges(poses.skeleton, joints),
            axes,
            joints,
            middle,
            half,
            rows[~is_test],
            rows[is_test],
            kept.clips[~is_test],
            kept.clips[is_test],
            poses.num_frames - kept.num_frames,
            float(moved),
        )

    @property
    def skeleton(self) -> Skeleton:
        """The body."""
        return self.poses.skeleton

    @property
    def num_columns(self) -> int:
        """Coordinates of all nodes."""
        return len(self.middle)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, as a factor graph has them: ``left_hip[0]``; ``left_knee``."""
        return tuple(
            name if size == 1 else f"{name}[{place}]"
            for name, size in self.nodes
            for place in range(size)
        )

    def rows_of(self, angles: Float64[Tensor, "frame joint 3"]) -> Float64[Tensor, "frame column"]:
        """Rows of poses; what is outside of the box is moved to its border."""
        return ((_coordinates(self.axes, angles) - self.middle) / self.half).clamp(-1, 1)

    def angles_of(self, rows: Float64[Tensor, "frame column"]) -> Float64[Tensor, "frame joint 3"]:
        """Angles of all joints, those that do not turn included."""
        if rows.ndim != 2 or rows.shape[1] != self.num_columns:
            raise StateError(
                f"rows have shape {tuple(rows.shape)}: give (rows, {self.num_columns} columns)"
            )
        radians = self.middle + self.half * rows.to(self.middle)
        parts = torch.split(radians, [each.count for each in self.axes], 1)
        pairs = zip(self.axes, parts, strict=True)
        return torch.stack([axes.angles(part) for axes, part in pairs], 1)


def _coordinates(
    axes: tuple[JointAxes, ...], angles: Float64[Tensor, "frame joint 3"]
) -> Float64[Tensor, "frame column"]:
    """Coordinates of all joints, in radians."""
    if angles.ndim != 3 or angles.shape[1:] != (len(axes), 3):
        raise StateError(
            f"angles have shape {tuple(angles.shape)}: give (frames, {len(axes)} joints, 3)"
        )
    return torch.cat([each.coordinates(angles[:, v]) for v, each in enumerate(axes)], 1)


def _box(
    radians: Float64[Tensor, "frame column"], tail: float, margin: float
) -> tuple[Float64[Tensor, "column"], Float64[Tensor, "column"]]:
    """Middle and half the width of what each column may be."""
    ordered, last = radians.sort(0).values, len(radians) - 1
    low, high = ordered[math.floor(tail * last)], ordered[math.ceil((1 - tail) * last)]
    width = high - low
    # Nothing is turned further than half a turn, unless some frames are.
    low = torch.maximum(low - margin * width, ordered[0].clamp(max=-math.pi))
    high = torch.minimum(high + margin * width, ordered[-1].clamp(min=math.pi))
    half = (high - low) / 2
    # Where the tails hold all that varies there is no width but that of the extremes.
    extreme = torch.maximum(ordered[-1] - ordered[0], half.new_tensor(1e-12))
    return (low + high) / 2, torch.where(half > 0, half, extreme)


def _edges(skeleton: Skeleton, joints: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """From each node to the nearest one above it; the first stands for a root that is none."""
    places = {joint: place for place, joint in enumerate(joints)}
    edges = []
    for place, joint in enumerate(joints[1:], start=1):
        above = skeleton.parents[joint]
        while above >= 0 and above not in places:
            above = skeleton.parents[above]
        edges.append((places.get(above, 0), place))
    return tuple(edges)


def _chosen_clips(poses: PoseSet, share: float, seed: int) -> Bool[Tensor, "frame"]:
    """Frames of some clips, drawn until there are enough of them."""
    numbers, which = torch.unique(poses.clips, return_inverse=True)
    if share >= 1:
        raise ConfigError(Setting("test_share"), f" is {share:g}; it must be above 0 and below 1")
    if len(numbers) < 2:
        raise StateError(
            f"{poses.name} has {shown(len(numbers))} clip: to learn from some and to judge by "
            "others there must be at least two"
        )
    order = torch.randperm(
        len(numbers), generator=generator_of(seed), dtype=torch.long, device="cpu"
    )
    reached = which.bincount()[order].cumsum(0)
    number = int((reached < share * poses.num_frames).sum()) + 1
    is_chosen = torch.zeros(len(numbers), dtype=torch.bool, device="cpu")
    is_chosen[order[: min(number, len(numbers) - 1)]] = True
    return is_chosen[which]
