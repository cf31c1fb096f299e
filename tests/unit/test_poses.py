"""Sets of poses: rotations, skeletons, files as they should be and as they are not."""

import io
import zipfile

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from data_folder import data_folder
from deltaai.errors import ConfigError, DeltaAIError, FormatError, StateError
from deltaai.io import (
    PoseSet,
    Skeleton,
    cmu_skeleton,
    pose_set,
    read_amass_poses,
    read_cmu_poses,
    rotation_angles,
    rotation_matrices,
    smpl_skeleton,
    synthetic_poses,
)
from deltaai.io.poses.cmu import FILE_NAME
from deltaai.randomness import generator_of

JOINTS = 31
PARENTS = [-1, 0, 1, 2, 3, 4, 0, 6, 7, 8, 9, 0, 11, 12, 13, 14, 15, 13, 17, 18, 19, 20, 21, 20, 13]
PARENTS += [24, 25, 26, 27, 28, 27]
CHOSEN = [0, 2, 7, 11, 3, 8, 12, 4, 9, 13, 5, 10, 14, 17, 24, 16, 18, 25, 19, 26, 20, 27, 21, 28]
UPPER_NECK, HEAD, LOWER_NECK = 15, 16, 14


def random_angles(*shape, seed=0, largest=3.0):
    """Rotations by less than half a turn."""
    directions = torch.randn(*shape, 3, generator=generator_of(seed), dtype=torch.float64)
    lengths = torch.rand(*shape, 1, generator=generator_of(seed + 1), dtype=torch.float64)
    return largest * lengths * directions / directions.norm(dim=-1, keepdim=True)


def cmu_arrays(frames=5):
    return {
        "axis_angle": random_angles(frames, JOINTS).float().numpy(),
        "clip": np.array([0, 0, 1, 1, 1], dtype=np.int16)[:frames],
        "parents": np.array(PARENTS, dtype=np.int8),
        "smpl24_like": np.array(CHOSEN, dtype=np.int8),
        "root_pos": np.zeros((frames, 3)),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("DELTAAI_DATA_DIR", raising=False)
    np.savez(tmp_path / FILE_NAME, **cmu_arrays())
    return tmp_path


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-5, 0.1, 2.0, np.pi - 1e-9])
def test_rotations_are_those_of_scipy(size):
    directions = random_angles(50)
    angles = size * directions / directions.norm(dim=-1, keepdim=True)
    matrices = rotation_matrices(angles)
    expected = Rotation.from_rotvec(angles.numpy())
    assert torch.allclose(matrices, torch.from_numpy(expected.as_matrix()), atol=1e-12)
    assert torch.allclose(rotation_angles(matrices), angles, atol=1e-7)


def test_angles_beyond_half_a_turn_come_back_the_short_way():
    angles = random_angles(200, largest=1.0) * 6.2
    found = rotation_angles(rotation_matrices(angles))
    assert float(found.norm(dim=-1).max()) <= np.pi + 1e-12
    assert torch.allclose(rotation_matrices(found), rotation_matrices(angles), atol=1e-12)
    half = torch.eye(3, dtype=torch.float64) * np.pi
    assert torch.allclose(rotation_angles(rotation_matrices(half)).abs(), half, atol=1e-7)


def test_slopes_are_finite_where_nothing_is_turned():
    angles = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    rotation_matrices(angles).sum().backward()
    assert bool(angles.grad.isfinite().all())


@pytest.mark.parametrize("skeleton", [smpl_skeleton(), cmu_skeleton()])
def test_places_are_those_of_chains_of_rotations(skeleton):
    angles = random_angles(4, skeleton.num_joints)
    places, ends = skeleton.places(angles)
    for joint in range(skeleton.num_joints):
        chain = [joint]
        while skeleton.parents[chain[-1]] >= 0:
            chain.append(skeleton.parents[chain[-1]])
        for pose in range(4):
            # A point is carried up the chain: turned at a joint, moved by its offset, and so on.
            for tip, found in (
                (skeleton.tips[joint], ends[pose, joint]),
                (torch.zeros(3), places[pose, joint]),
            ):
                point = tip.numpy()
                for each in chain:
                    point = Rotation.from_rotvec(angles[pose, each].numpy()).apply(point)
                    point = point + skeleton.offsets[each].numpy()
                assert found.tolist() == pytest.approx(point.tolist(), abs=1e-12)


@pytest.mark.parametrize("skeleton", [smpl_skeleton(), cmu_skeleton(), smpl_skeleton().first(22)])
def test_bodies_stand_upright_and_are_symmetric(skeleton):
    places, ends = skeleton.places(torch.zeros(1, skeleton.num_joints, 3, dtype=torch.float64))
    at = dict(zip(skeleton.names, places[0], strict=True))
    head = ends[0, skeleton.names.index("head")]
    assert 1.5 < float(head[1] - at["left_foot"][1]) < 1.9
    assert at["left_knee"][1] < at["left_hip"][1] < 0 < at["neck"][1] < head[1]
    assert at["left_foot"][2] > at["left_ankle"][2] + 0.1  # toes are in front
    for part in ("hip", "knee", "foot", "shoulder", "wrist"):
        mirrored = at[f"right_{part}"] * torch.tensor([-1.0, 1.0, 1.0])
        assert torch.allclose(at[f"left_{part}"], mirrored)
        assert at[f"left_{part}"][0] > 0


def test_joints_that_are_left_out_turn_what_hangs_on_them(folder):
    poses, arrays = read_cmu_poses(folder / FILE_NAME), cmu_arrays()
    assert poses.angles.shape == (5, 24, 3)
    assert poses.clips.tolist() == [0, 0, 1, 1, 1]
    assert poses.names[15] == "head"
    angles = arrays["axis_angle"].astype(np.float64)
    kept = [place for place, joint in enumerate(CHOSEN) if PARENTS[joint] in CHOSEN]
    assert np.allclose(
        poses.angles[:, kept].numpy(), angles[:, [CHOSEN[place] for place in kept]], atol=1e-7
    )
    both = Rotation.from_rotvec(angles[:, UPPER_NECK]) * Rotation.from_rotvec(angles[:, HEAD])
    assert np.allclose(poses.angles[:, 15].numpy(), both.as_rotvec(), atol=1e-6)
    assert poses.parents[15] == CHOSEN.index(LOWER_NECK)


def test_folders_variables_and_names(folder, tmp_path_factory, monkeypatch, as_a_user_runs_it):
    expected = read_cmu_poses(folder / FILE_NAME).angles
    inner = tmp_path_factory.mktemp("data") / "poses"
    inner.mkdir()
    (inner / FILE_NAME).write_bytes((folder / FILE_NAME).read_bytes())
    monkeypatch.setenv("DELTAAI_DATA_DIR", str(inner.parent))
    for place in (folder, folder / FILE_NAME, inner.parent, None):
        assert torch.equal(pose_set("cmu", place).angles, expected)
    monkeypatch.delenv("DELTAAI_DATA_DIR")
    with pytest.raises(DeltaAIError, match=r"not downloaded: .*data_dir.*DELTAAI_DATA_DIR"):
        pose_set("cmu")
    with pytest.raises(ConfigError, match="did you mean 'amass'"):
        pose_set("amas")
    with pytest.raises(FormatError, match="no poses of CMU here or in its folder poses"):
        pose_set("cmu", tmp_path_factory.mktemp("empty"))
    with pytest.raises(FormatError, match="there are no clips"):
        pose_set("amass", tmp_path_factory.mktemp("empty"))
    with pytest.raises(FormatError, match="there is no such file or folder"):
        pose_set("amass", folder / "nothing")
    with pytest.raises(ConfigError, match="data_dir is 3"):
        pose_set("cmu", 3)


def changed(**arrays):
    def write(path):
        kept = {name: value for name, value in (cmu_arrays() | arrays).items() if value is not None}
        np.savez(path, **kept)

    return write


def not_finite():
    angles = cmu_arrays()["axis_angle"]
    angles[1, 2, 0] = np.nan
    return angles


def of_bytes(change):
    def write(path):
        stream = io.BytesIO()
        np.savez(stream, **cmu_arrays())
        path.write_bytes(change(stream.getvalue()))

    return write


def lying_header(path):
    """An array whose header claims far more numbers than there are."""
    with zipfile.ZipFile(path, "w") as archive:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (90000000000, 31, 3), }"
        header = header.ljust(118 - 1) + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        archive.writestr("axis_angle.npy", content)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (changed(clip=None), "there is no array 'clip' in it"),
        (changed(axis_angle=np.zeros((5, 31))), r"shape \(5, 31\) .*expected any x any x 3"),
        (changed(axis_angle=np.zeros((5, 31, 3), dtype=int)), "of real numbers"),
        (changed(axis_angle=np.zeros((0, 31, 3)), clip=np.zeros(0, int)), "no frames"),
        (changed(axis_angle=not_finite()), "not finite"),
        (changed(axis_angle=np.array([[{}]], dtype=object)), "pickled objects"),
        (changed(clip=np.zeros(4, dtype=int)), "expected 5 of whole numbers"),
        (changed(clip=np.full(5, -1)), "negative"),
        (changed(parents=np.zeros(31, dtype=int)), "is no tree"),
        (changed(smpl24_like=np.zeros(24, dtype=int)), "expected 24 different joints"),
        (changed(smpl24_like=np.array([*CHOSEN[:-1], 40])), "from 0 to 30"),
        (changed(smpl24_like=np.array([*CHOSEN[:-1], 22])), "joint 22 does not hang where"),
        (of_bytes(lambda content: content[:-30]), "damaged, or cut short"),
        (of_bytes(lambda content: content[:200]), "damaged, or cut short"),
        (of_bytes(lambda content: content.replace(b"\x93NUMPY", b"\x93NUMPI", 1)), "axis_angle"),
        (of_bytes(lambda content: b""), "not an npz file"),
        (of_bytes(lambda content: b"angles: none"), "not an npz file"),
        (lying_header, "cannot be read"),
    ],
)
def test_broken_files_are_one_clear_line(folder, write, message):
    path = folder / FILE_NAME
    write(path)
    with pytest.raises(FormatError, match=message) as caught:
        read_cmu_poses(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()


def test_files_that_are_none(folder):
    with pytest.raises(FormatError, match="there is no such file"):
        read_cmu_poses(folder / "nothing.npz")
    with pytest.raises(FormatError, match="this is a folder"):
        read_cmu_poses(folder)


def write_clip(path, frames=13, width=72, rate=4.0, key="mocap_framerate", **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    poses = np.arange(frames)[:, None] / 20 + np.arange(width) / 1000
    arrays = {"poses": poses, key: np.float64(rate), "betas": np.zeros(10)} | more
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def test_a_tree_of_clips_like_those_of_amass(tmp_path):
    write_clip(tmp_path / "KIT" / "3" / "walk_poses.npz")
    write_clip(tmp_path / "KIT" / "4" / "bow_stageii.npz", 8, 156, 100, "mocap_frame_rate")
    np.savez(tmp_path / "KIT" / "3" / "shape.npz", betas=np.zeros(10))
    poses = pose_set("amass", tmp_path)
    assert (poses.num_frames, poses.num_clips, poses.up) == (5, 2, "z")
    assert len(poses.names) == 22  # what both kinds of files agree in
    assert poses.clips.tolist() == [0, 0, 0, 0, 1]
    assert poses.angles[:4, 0, 0].tolist() == [0.0, 0.2, 0.4, 0.6]
    assert poses.angles[1, 2].tolist() == pytest.approx([0.206, 0.207, 0.208])
    alone = read_amass_poses(tmp_path / "KIT" / "3" / "walk_poses.npz", rate=2)
    assert (alone.num_frames, len(alone.names)) == (7, 24)
    assert read_amass_poses(tmp_path / "KIT" / "3", rate=1e6).num_frames == 13
    with pytest.raises(ConfigError, match="rate is 0"):
        read_amass_poses(tmp_path, rate=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"poses": None}, "no array 'poses'"),
        ({"key": "rate"}, "no array 'mocap_framerate'"),
        ({"rate": 0}, "expected frames a second"),
        ({"rate": np.nan}, "expected frames a second"),
        ({"width": 66}, "has 66 columns"),
        ({"width": 73}, "has 73 columns"),
        ({"frames": 0}, "no frames"),
        ({"poses": np.full((3, 72), np.inf)}, "the angle inf"),
        ({"poses": np.full((3, 72), np.nan)}, "the angle nan"),
        ({"poses": np.full((3, 72), 90.0)}, "the angle 90.0; expected radians"),
        ({"poses": np.zeros((3, 24, 3))}, "expected any x any of real numbers"),
        ({"mocap_framerate": np.array([30.0])}, "expected one number"),
        ({"mocap_framerate": np.array(None)}, "pickled objects"),
    ],
)
def test_bad_clips_are_one_clear_line(tmp_path, options, message):
    write_clip(tmp_path / "clip.npz", **options)
    with pytest.raises(FormatError, match=message) as caught:
        pose_set("amass", tmp_path)
    assert str(tmp_path / "clip.npz") in str(caught.value)


def test_made_up_poses():
    poses = synthetic_poses(num_clips=40, frames_a_clip=5)
    assert torch.equal(poses.angles, synthetic_poses(num_clips=40, frames_a_clip=5).angles)
    assert not torch.equal(poses.angles, synthetic_poses(40, 5, seed=1).angles)
    at = {name: poses.angles[:, place] for place, name in enumerate(poses.names)}
    assert not bool(at["left_collar"].any())
    assert at["left_knee"].any(0).tolist() == [True, False, False]
    pair = torch.stack((at["left_hip"][:, 0], at["right_hip"][:, 0]))
    assert float(torch.corrcoef(pair)[0, 1]) < -0.5


def test_the_real_file():
    poses = pose_set("cmu", data_folder("poses"))
    assert poses.angles.shape == (27_010, 24, 3)
    assert poses.num_clips == 2425
    collars = [poses.names.index(f"{side}_collar") for side in ("left", "right")]
    assert not bool(poses.angles[:, collars].any())
    places, ends = poses.skeleton.places(poses.angles)
    at = dict(zip(poses.names, places.unbind(1), strict=True))
    # Most frames show somebody upright whose arms hang and whose knees are below the hips.
    head_is_high = ends[:, poses.names.index("head"), 1] > 0.5
    assert float(head_is_high.double().mean()) > 0.85
    assert float((at["left_knee"][:, 1] < at["left_hip"][:, 1]).double().mean()) > 0.95
    assert float((at["left_wrist"][:, 1] < at["left_shoulder"][:, 1]).double().mean()) > 0.75
    apart = (at["left_ankle"] - at["right_ankle"]).norm(dim=-1)
    assert float(apart.median()) < 0.45  # not spread like those of the rest pose


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"angles": torch.zeros(0, 24, 3, dtype=torch.float64)}, "at least one frame"),
        ({"angles": torch.zeros(2, 23, 3, dtype=torch.float64)}, "24 joints with 3 angles"),
        ({"angles": torch.zeros(2, 24, 3)}, "give float64 and int64"),
        ({"angles": torch.full((2, 24, 3), 7.0, dtype=torch.float64)}, "angle 7 at pelvis"),
        ({"angles": torch.full((2, 24, 3), np.nan, dtype=torch.float64)}, "angle nan"),
        ({"clips": torch.tensor([0])}, "for each of 2 frames"),
        ({"clips": torch.tensor([0, -1])}, "from 0 on"),
    ],
)
def test_sets_that_do_not_fit_together(fields, message, as_a_user_runs_it):
    good = {"angles": torch.zeros(2, 24, 3, dtype=torch.float64), "clips": torch.tensor([0, 0])}
    with pytest.raises(StateError, match=message):
        PoseSet("made", smpl_skeleton(), **(good | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"names": ("a", "a")}, "give names that differ"),
        ({"parents": (0, 0)}, "give -1 for the first"),
        ({"parents": (-1, 1)}, "an earlier joint for each other"),
        ({"parents": (-1,)}, "the parents of 2 joints"),
        ({"offsets": torch.zeros(3, 3, dtype=torch.float64)}, "the offsets of 2 joints"),
        ({"tips": torch.full((2, 3), np.nan, dtype=torch.float64)}, "the tips of 2 joints"),
    ],
)
def test_skeletons_that_are_none(fields, message, as_a_user_runs_it):
    zeros = torch.zeros(2, 3, dtype=torch.float64)
    good = {"names": ("a", "b"), "parents": (-1, 0), "offsets": zeros, "tips": zeros}
    with pytest.raises(StateError, match=message):
        Skeleton(**(good | fields))
    with pytest.raises(StateError, match=r"give \(poses, 24 joints, 3\)"):
        smpl_skeleton().places(torch.zeros(24, 3, dtype=torch.float64))
