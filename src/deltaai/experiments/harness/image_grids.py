"""Pictures of images: samples and reconstructions, a block of rows for each method.

White digits on black everywhere, grey for probabilities between. What learners have kept is drawn
from files, so pictures are made anew without training. For each method the lowest seed is shown.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32
from torch import Tensor

from deltaai.experiments.harness.image_judge import read_examples
from deltaai.experiments.harness.learner_curve import examples_path
from deltaai.experiments.harness.parts import Part
from deltaai.io import is_there, replace_file

_COLUMNS = 20
_DOTS_PER_INCH = 150
_INCHES_A_COLUMN, _LABEL_INCHES, _GAP_INCHES, _TITLE_INCHES = 0.36, 1.6, 0.08, 0.4
_GAP_LEVEL = 0.25  # grey of the lines between images
# Beside what is drawn stands what it should be like: grey levels, or the very pixels.
_BESIDE = {"samples": ("data", "test images"), "reconstructions": ("inputs", "what q saw")}


def draw_grids(
    name: str,
    titles: Mapping[str, str],
    labels: Mapping[str, str],
    folder: Path,
    kept: Path,
    parts: Sequence[Part],
) -> list[Path]:
    """Draw samples and reconstructions of each data set; return the files.

    Parameters
    ----------
    name : what the names of the files begin with.
    titles : of each data set.
    labels : method key to label, in the order of drawing.
    folder : where pictures go.
    kept : where parts have kept their examples.
    parts : that are finished.
    """
    files = []
    models = sorted({part.model for part in parts})
    for model in models:
        found = {}
        for method in labels:
            same = [part for part in parts if (part.model, part.method) == (model, method)]
            for part in sorted(same, key=lambda part: part.seed)[:1]:
                if is_there(examples_path(kept, part)):
                    found[method] = read_examples(examples_path(kept, part))
        if not found:
            continue
        examples, side = next(iter(found.values()))
        for kind, (key, beside) in _BESIDE.items():
            blocks = {labels[method]: tensors[kind] for method, (tensors, _) in found.items()}
            blocks = {beside: examples[key]} | blocks
            place = f"{name}-{kind}" if len(models) == 1 else f"{name}-{model}-{kind}"
            files.append(folder / f"{place}.png")
            _write_blocks(files[-1], f"{titles[model]}: {kind}", blocks, side)
    return files


def mosaic(
    images: Float[Tensor, "image pixel"], side: int, columns: int
) -> Float32[np.ndarray, "height width"]:
    """Images in rows of so many, with lines between them.

    >>> import torch
    >>> mosaic(torch.ones(3, 4), 2, 2).shape
    (5, 5)
    """
    num_rows = -(-len(images) // columns)
    step = side + 1
    drawn = np.full((num_rows * step - 1, columns * step - 1), _GAP_LEVEL, dtype=np.float32)
    for number, image in enumerate(images.cpu().numpy()):
        row, column = (place * step for place in divmod(number, columns))
        drawn[row : row + side, column : column + side] = image.reshape(side, side)
    return drawn


def _write_blocks(path: Path, title: str, blocks: Mapping[str, Tensor], side: int) -> None:
    """Draw blocks of images below each other, each with its label at the left."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    pictures = {label: mosaic(images, side, _COLUMNS) for label, images in blocks.items()}
    width = _COLUMNS * _INCHES_A_COLUMN
    heights = [width * each.shape[0] / each.shape[1] for each in pictures.values()]
    total = (
        _LABEL_INCHES + width + _GAP_INCHES,
        _TITLE_INCHES + sum(heights) + _GAP_INCHES * len(heights),
    )
    figure = Figure(figsize=total, dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 0.5 * _TITLE_INCHES / total[1], title, ha="center", va="center")
    top = total[1] - _TITLE_INCHES
    for (label, picture), height in zip(pictures.items(), heights, strict=True):
        place = (_LABEL_INCHES / total[0], (top - height) / total[1])
        panel = figure.add_axes((*place, width / total[0], height / total[1]))
        panel.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        panel.set_axis_off()
        middle = (top - 0.5 * height) / total[1]
        figure.text(
            (_LABEL_INCHES - 0.1) / total[0], middle, label, ha="right", va="center", fontsize=9
        )
        top -= height + _GAP_INCHES
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    replace_file(path, content.getvalue())
