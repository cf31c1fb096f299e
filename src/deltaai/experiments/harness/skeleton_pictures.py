"""Pictures of people: sampled skeletons in rows below real ones.

Poses come from files that parts have kept, so pictures are made anew without training. Everybody is
turned to face the same way, for where somebody looks is no more than where a camera stood, and
stands on the ground with the lowest point; seen from the front, a little from the side and from
above, at the same scale in both directions. The left side is blue and the right one orange.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.io import ScaledPoses, load_tensors, replace_file, rotation_matrices, save_tensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 12
_KIND = "skeletons"
_DOTS_PER_INCH = 130
_CELL = (1.3, 2.0)  # metres
_INCHES_A_METRE, _LABEL_INCHES, _TITLE_INCHES, _GAP = 0.72, 1.6, 0.4, 0.15
_ASIDE, _ABOVE = math.radians(30), math.radians(8)  # where the camera is
_COLOURS = {"left": "#0072B2", "right": "#D55E00"}
_MIDDLE_COLOUR = "#333333"
_HEAD_METRES, _GROUND_METRES = 0.1, 0.8  # radius and length


def kept_skeletons(
    scaled: ScaledPoses, rows: Mapping[str, Float64[Tensor, "pose column"]], path: Path
) -> None:
    """Keep poses, each kind of them under its name, to be drawn beside those of others."""
    tensors = {}
    for kind, some in rows.items():
        angles = scaled.angles_of(some).clone()
        joints, tips = scaled.skeleton.places(angles)
        turn = _facing_front(rotation_matrices(angles[:, 0]), scaled.poses.up)
        tensors[f"{kind}.joints"] = joints @ turn.transpose(1, 2)
        tensors[f"{kind}.tips"] = tips @ turn.transpose(1, 2)
    skeleton = scaled.skeleton
    metadata = {"names": list(skeleton.names), "parents": list(skeleton.parents)}
    save_tensors(path, tensors, metadata, kind=_KIND)


@dataclass(frozen=True, eq=False)
class Bone:
    """A line from a joint to the one below it, or to its tip, as the camera sees it.

    Parameters
    ----------
    joint : name of the joint at its end, or of that whose tip this is.
    is_tip : whether it ends in a tip.
    ends : to the right, up, and towards the viewer.
    """

    joint: str
    is_tip: bool
    ends: Float64[np.ndarray, "2 3"]

    @property
    def colour(self) -> str:
        """Of the side of the body."""
        return _COLOURS.get(self.joint.partition("_")[0], _MIDDLE_COLOUR)


def read_skeletons(path: Path) -> dict[str, list[list[Bone]]]:
    """Bones of the poses that :func:`kept_skeletons` wrote, by kind."""
    tensors, metadata = load_tensors(path, _KIND)
    names, parents = metadata["names"], metadata["parents"]
    found = {}
    for kind in sorted({name.rpartition(".")[0] for name in tensors}):
        pairs = zip(tensors[f"{kind}.joints"], tensors[f"{kind}.tips"], strict=True)
        found[kind] = [bones_of(names, parents, *places) for places in pairs]
    return found


def bones_of(
    names: Sequence[str],
    parents: Sequence[int],
    joints: Float64[Tensor, "joint 3"],
    tips: Float64[Tensor, "joint 3"],
) -> list[Bone]:
    """Bones of somebody who stands on the ground; the nearest last, for they hide others."""
    seen = (torch.cat((joints, tips)) @ _camera().T).cpu().numpy()
    seen = seen - np.array([seen[0, 0], seen[:, 1].min(), seen[0, 2]])
    at, ends = seen[: len(names)], seen[len(names) :]
    bones = []
    for joint, (name, parent) in enumerate(zip(names, parents, strict=True)):
        if parent >= 0:
            bones.append(Bone(name, False, np.stack((at[parent], at[joint]))))
        if not np.allclose(ends[joint], at[joint]):
            bones.append(Bone(name, True, np.stack((at[joint], ends[joint]))))
    return sorted(bones, key=lambda bone: float(bone.ends[:, 2].mean()))


def write_skeletons(path: Path, title: str, blocks: Mapping[str, Sequence[Sequence[Bone]]]) -> None:
    """Draw blocks of skeletons below each other, each with its label at the left."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    num_rows = [-(-len(each) // COLUMNS) for each in blocks.values()]
    height = sum(num_rows) * _CELL[1] + _GAP * (len(blocks) - 1)
    size = (COLUMNS * _CELL[0] * _INCHES_A_METRE, height * _INCHES_A_METRE)
    whole = (size[0] + _LABEL_INCHES, size[1] + _TITLE_INCHES)
    figure = Figure(figsize=whole, dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 0.5 * _TITLE_INCHES / whole[1], title, ha="center", va="center")
    panel = figure.add_axes(
        (_LABEL_INCHES / whole[0], 0, size[0] / whole[0], size[1] / whole[1]),
        xlim=(0, COLUMNS * _CELL[0]),
        ylim=(0, height),
        aspect="equal",
    )
    panel.set_axis_off()
    top = height
    for (label, people), rows in zip(blocks.items(), num_rows, strict=True):
        middle = (top - rows * _CELL[1] / 2) / height * size[1] / whole[1]
        where = (_LABEL_INCHES - 0.1) / whole[0]
        figure.text(where, middle, label, ha="right", va="center", fontsize=9)
        for number, bones in enumerate(people):
            row, column = divmod(number, COLUMNS)
            ground = top - (row + 1) * _CELL[1] + 0.05
            _draw(panel, bones, ((column + 0.5) * _CELL[0], ground))
        top -= rows * _CELL[1] + _GAP
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    replace_file(path, content.getvalue())


def _draw(panel: Axes, bones: Sequence[Bone], place: tuple[float, float]) -> None:
    """Draw one person on a line that is the ground."""
    from matplotlib.patches import Circle  # noqa: PLC0415

    ground = [place[0] - _GROUND_METRES / 2, place[0] + _GROUND_METRES / 2]
    panel.plot(ground, [place[1]] * 2, color="#DDDDDD", linewidth=0.8, zorder=1)
    for bone in bones:
        right, up = bone.ends[:, 0] + place[0], bone.ends[:, 1] + place[1]
        if bone.joint == "head" and bone.is_tip:
            middle = (float(right.mean()), float(up.mean()))
            panel.add_patch(
                Circle(middle, _HEAD_METRES, facecolor="white", edgecolor=bone.colour, zorder=2)
            )
        else:
            panel.plot(
                right, up, color=bone.colour, linewidth=1.7, solid_capstyle="round", zorder=2
            )


def _facing_front(
    root: Float64[Tensor, "pose 3 3"], up: Literal["y", "z"]
) -> Float64[Tensor, "pose 3 3"]:
    """Rotations of space that point up along y and turn each body's front along z."""
    stand = torch.eye(3, dtype=torch.float64, device=root.device)
    if up == "z":  # x stays, z goes to y, and y to the back
        stand = stand.new_tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    right, _, front = (stand @ root)[:, :, 2].unbind(1)
    heading = torch.zeros(len(root), 3, dtype=torch.float64, device=root.device)
    heading[:, 1] = -torch.atan2(right, front)
    return rotation_matrices(heading) @ stand


def _camera() -> Float64[Tensor, "3 3"]:
    """Rotation of space after which the viewer looks along -z."""
    aside, above = torch.tensor(
        [[0.0, _ASIDE, 0.0], [_ABOVE, 0.0, 0.0]], dtype=torch.float64, device="cpu"
    )
    return rotation_matrices(above) @ rotation_matrices(aside)
