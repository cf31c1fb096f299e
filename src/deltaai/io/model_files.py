"""Models as tensors, in ``.dai`` files: names, labels, scopes and tables as they are, bit for bit.

UAI files know no names, and BIF files only networks; these hold both kinds of models, and what is
read is what was written. Tensors and JSON, nothing that runs (:mod:`deltaai.io.tensor_files`).
Networks of neural factors are code, so factors of that kind are kept as tables if these are small.
A sampler's file holds a model in the same way, beside the sampler.
"""

from __future__ import annotations

from pathlib import Path

from deltaai.errors import FormatError, one_line
from deltaai.io.tensor_files import MODEL_KIND, load_tensors, packed_tensors
from deltaai.models import FactorGraph, model_from_tensors, model_to_tensors
from deltaai.watch import look

_PREFIX = "model."
_BYTES_PER_BYTE = 2  # what is read is copied once


def read_model_file(path: Path) -> FactorGraph:
    """Read a model that was written to a ``.dai`` file; a sampler is refused."""
    if path.is_file():
        look(_BYTES_PER_BYTE * path.stat().st_size)
    tensors, metadata = load_tensors(path, MODEL_KIND)
    part = {name.removeprefix(_PREFIX): value for name, value in tensors.items()}
    try:
        return model_from_tensors(part, metadata["model"])
    except Exception as error:  # the checksum is right, so whoever made the file is to blame
        raise FormatError(
            path, None, f"the model in it is incomplete or of another version: {one_line(error)}"
        ) from error


def format_model_file(model: FactorGraph) -> bytes:
    """The bytes of the ``.dai`` file of a model."""
    tensors, described = model_to_tensors(model)
    named = {_PREFIX + name: value for name, value in tensors.items()}
    return packed_tensors(named, {"model": described}, kind=MODEL_KIND, name="a .dai file")
