"""Arrays of ``.npz`` files, without pickle: what cannot be read is one line about the file.

Only the arrays that are asked for are unpacked, and none that would hold more bytes than any set of
poses.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from deltaai.errors import FormatError, format_bytes, one_line
from deltaai.io.files import opened

_MOST_BYTES = 2**31


@contextmanager
def opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of arrays; whatever is wrong with it while it is read is said of it."""
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                yield archive
        except FormatError:
            raise
        except Exception as error:  # of zipfile, zlib or numpy: the file is to blame for all
            raise FormatError(
                path, None, f"not an npz file, damaged, or cut short ({one_line(error, 200)})"
            ) from None


def array_names(archive: zipfile.ZipFile) -> tuple[str, ...]:
    """Names of the arrays of an open file."""
    return tuple(n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy"))


def read_array(
    path: Path, archive: zipfile.ZipFile, name: str, kinds: str, shape: Sequence[int | None]
) -> np.ndarray:
    """One array of an open file.

    Parameters
    ----------
    path : of the file, for messages.
    archive : the file.
    name : of the array.
    kinds : numpy's letters for the kinds of numbers it may have: ``"f"``, ``"iu"``, ``"U"``.
    shape : its size along each axis, ``None`` where any will do.

    Raises
    ------
    FormatError
        When there is none, or it is something else.
    """
    found = array_names(archive)
    if name not in found:
        listed = one_line(", ".join(sorted(found)) or "none", 200)
        raise FormatError(path, None, f"there is no array {name!r} in it (arrays: {listed})")
    num_bytes = archive.getinfo(f"{name}.npy").file_size
    if num_bytes > _MOST_BYTES:
        raise FormatError(
            path, None, f"its array {name!r} would hold {format_bytes(num_bytes)}: no set of poses"
        )
    content = io.BytesIO(archive.read(f"{name}.npy"))
    try:
        array: np.ndarray = np.lib.format.read_array(content, allow_pickle=False)
    except Exception as error:  # of numpy: a header that lies, or pickled objects
        is_pickled = "Object arrays" in str(error)
        reason = "it holds pickled objects, which are never read" if is_pickled else error
        raise FormatError(
            path, None, f"its array {name!r} cannot be read: {one_line(reason, 200)}"
        ) from None
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in kinds:
        wanted = " x ".join("any" if size is None else str(size) for size in shape) or "one number"
        raise FormatError(
            path,
            None,
            f"its array {name!r} has shape {array.shape} and type {array.dtype}; expected "
            f"{wanted} of {_KINDS[kinds]}",
        )
    return array


_KINDS = {"f": "real numbers", "iu": "whole numbers", "fiu": "numbers", "U": "text"}
