"""Poses as rows in a box: what becomes of joints, the split, the way back, bad settings."""

import math

import pytest
import torch

from data_folder import data_folder
from deltaai.errors import ConfigError, StateError
from deltaai.io import PoseSet, ScaledPoses, Skeleton, pose_set, smpl_skeleton, synthetic_poses
from deltaai.randomness import generator_of


def chain(*columns, clips=None):
    """A chain of joints a, b, ... with these angles in each frame."""
    angles = torch.stack(columns, 1).double()
    count = angles.shape[1]
    bones = torch.zeros(count, 3, dtype=torch.float64)
    names = tuple("abcdef"[:count])
    skeleton = Skeleton(names, tuple(range(-1, count - 1)), bones, bones)
    clips = torch.arange(len(angles)) // 4 if clips is None else clips
    return PoseSet("chain", skeleton, angles, clips)


def normal(seed, *deviations):
    drawn = torch.randn(400, 3, generator=generator_of(seed), dtype=torch.float64)
    return drawn * torch.tensor(deviations, dtype=torch.float64)


STILL = torch.tensor([0.1, -0.2, 0.3]).double().expand(400, 3)


def test_joints_without_angles_are_left_out_and_trees_stay_whole():
    poses = chain(
        normal(0, 0.1, 0.2, 0.3), STILL, normal(1, 0.1, 0.0, 0.2), STILL, normal(2, 0.1, 0, 0)
    )
    scaled = ScaledPoses.of(poses)
    assert scaled.nodes == (("a", 3), ("c", 2), ("e", 1))
    assert scaled.edges == ((0, 1), (1, 2))
    assert scaled.column_names == ("a[0]", "a[1]", "a[2]", "c[0]", "c[1]", "e")
    without = ScaledPoses.of(PoseSet("no root", *body_without_root()))
    names = [name for name, _ in without.nodes]
    assert "pelvis" not in names
    assert len(without.edges) == len(names) - 1  # one tree, though its root does not turn
    assert all(first < second for first, second in without.edges)


def body_without_root():
    poses = synthetic_poses()
    angles = poses.angles.clone()
    angles[:, 0] = 0.0
    return poses.skeleton, angles, poses.clips


def test_a_hinge_has_one_coordinate_however_its_axis_lies():
    axis = torch.tensor([0.9, 0.3, -0.1]).double() / math.sqrt(0.91)
    hinge = normal(0, 0.4, 0.0, 0.0)[:, :1] * axis + 0.2 * axis
    plane = normal(1, 0.4, 0.2, 0.0) @ torch.linalg.qr(normal(2, 1, 1, 1)[:3])[0]
    poses = chain(hinge, plane)
    scaled = ScaledPoses.of(poses)
    assert scaled.nodes == (("a", 1), ("b", 2))
    back = scaled.angles_of(scaled.rows_of(poses.angles))
    inside = (scaled.rows_of(poses.angles).abs() < 1).all(1)
    assert torch.allclose(back[inside], poses.angles[inside], atol=1e-12)
    assert int(inside.sum()) > 390


@pytest.mark.parametrize("source", ["synthetic", "cmu"])
def test_rows_lead_back_to_angles(source):
    poses = pose_set(source, None if source == "synthetic" else data_folder("poses"))
    scaled = ScaledPoses.of(poses)
    for rows in (scaled.train, scaled.test):
        assert float(rows.abs().max()) <= 1
        assert torch.allclose(scaled.rows_of(scaled.angles_of(rows)), rows, atol=1e-9)
    angles = poses.keep((poses.angles[:, 1:].norm(dim=-1) < 2.8).all(1)).angles
    rows = scaled.rows_of(angles)
    inside = (rows.abs() < 1).all(1)
    assert float(inside.double().mean()) > 0.95
    back = scaled.angles_of(rows[inside])
    # Directions that count as constant have lost their deviation, of less than 1e-3 radians.
    assert float((back - angles[inside]).abs().max()) < 0.02
    assert float((back - angles[inside]).square().mean().sqrt()) < 1e-3
    assert scaled.share_moved < 0.005
    deviations = scaled.train.std(0)
    assert float(deviations.min()) > 0.09
    assert float(deviations.max()) < 0.6
    assert sum(size for _, size in scaled.nodes) == scaled.num_columns == scaled.train.shape[1]
    assert len(scaled.edges) == len(scaled.nodes) - 1


def test_the_real_body():
    scaled = ScaledPoses.of(pose_set("cmu", data_folder("poses")))
    sizes = dict(scaled.nodes)
    assert "left_collar" not in sizes
    for part in ("knee", "foot", "elbow", "wrist"):
        assert sizes[f"left_{part}"] == sizes[f"right_{part}"] == 1
    names = [name for name, _ in scaled.nodes]
    edges = {(names[first], names[second]) for first, second in scaled.edges}
    assert {("spine3", "left_shoulder"), ("left_hip", "left_knee"), ("neck", "head")} <= edges
    assert 700 < scaled.num_left_out < 800
    assert scaled.num_columns == 50


def test_no_clip_is_on_both_sides_and_seeds_draw_others():
    poses = synthetic_poses()
    scaled, other = (ScaledPoses.of(poses, seed=seed) for seed in (0, 1))
    assert not set(scaled.train_clips.tolist()) & set(scaled.test_clips.tolist())
    assert len(scaled.train) + len(scaled.test) == poses.num_frames
    assert 0.2 <= len(scaled.test) / poses.num_frames < 0.25
    assert set(scaled.test_clips.tolist()) != set(other.test_clips.tolist())
    again = ScaledPoses.of(poses, seed=0)
    assert torch.equal(again.train, scaled.train)


def test_the_test_rows_decide_nothing():
    poses = synthetic_poses()
    scaled = ScaledPoses.of(poses)
    is_test = torch.isin(poses.clips, scaled.test_clips)
    angles = torch.where(is_test[:, None, None], poses.angles / 2, poses.angles)
    other = ScaledPoses.of(PoseSet("other", poses.skeleton, angles, poses.clips))
    assert torch.equal(other.train, scaled.train)
    assert torch.equal(other.half, scaled.half)


def test_outliers_do_not_squeeze_the_rest():
    turned = normal(0, 0.1, 0.1, 0.1)
    turned[7, 0] = 3.0
    settings = {"largest_turn": 4.0, "tail": 0.01}
    poses = chain(STILL, turned)
    scaled = ScaledPoses.of(poses, **settings)
    assert float(scaled.half[0]) < 0.5
    assert 0 < scaled.share_moved < 0.01
    assert float(scaled.rows_of(poses.angles[7:8])[0, 0]) == 1.0
    whole = ScaledPoses.of(poses, largest_turn=4.0, tail=0)
    assert float(whole.half[0]) > 1.5
    assert whole.share_moved == 0.0
    without = ScaledPoses.of(poses)
    assert without.num_left_out == 1


def test_angles_keep_to_half_a_turn():
    flat = (torch.rand(400, 3, generator=generator_of(0), dtype=torch.float64) * 2 - 1) * 3.14
    scaled = ScaledPoses.of(chain(flat))
    assert float((scaled.middle.abs() + scaled.half).max()) <= math.pi + 1e-12


def test_a_joint_that_hardly_ever_turns():
    rare = torch.zeros(400, 3).double()
    rare[::37] = 0.5
    scaled = ScaledPoses.of(chain(normal(0, 0.1, 0.1, 0.1), rare), tail=0.2)
    assert bool((scaled.half > 0).all())
    assert bool(scaled.train.isfinite().all())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"test_share": 1.0}, ConfigError, "test_share is 1"),
        ({"test_share": 0}, ConfigError, "test_share is 0"),
        ({"tail": 0.5}, ConfigError, "tail is 0.5"),
        ({"tail": -0.1}, ConfigError, "tail is -0.1"),
        ({"margin": math.nan}, ConfigError, "margin is nan"),
        ({"tolerance": 9}, StateError, "no joint of synthetic turns by more than 9"),
        ({"largest_turn": 1e-9}, StateError, "every frame of synthetic"),
        ({"seed": -1}, ConfigError, "seed is -1"),
        ({"poses": 3}, ConfigError, "take that of pose_set"),
    ],
)
def test_bad_settings_are_one_clear_line(settings, error, message, as_a_user_runs_it):
    with pytest.raises(error, match=message) as caught:
        ScaledPoses.of(**({"poses": synthetic_poses()} | settings))
    assert str(caught.value).isprintable()


def test_bad_rows_and_too_few_clips(as_a_user_runs_it):
    scaled = ScaledPoses.of(synthetic_poses())
    with pytest.raises(StateError, match=r"give \(rows, 54 columns\)"):
        scaled.angles_of(scaled.train[:, :3])
    with pytest.raises(StateError, match=r"give \(frames, 24 joints, 3\)"):
        scaled.rows_of(torch.zeros(2, 23, 3, dtype=torch.float64))
    one = PoseSet("one", smpl_skeleton(), torch.rand(9, 24, 3).double(), torch.zeros(9).long())
    with pytest.raises(StateError, match="there must be at least two"):
        ScaledPoses.of(one)
