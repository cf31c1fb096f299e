"""The IDX format of MNIST: a magic number, the sizes of the axes, and bytes.

    0x00 0x00 0x08 (bytes) num_axes | one big-endian 32-bit size for each axis | one byte an entry

Only arrays of bytes are read, for the data sets have no others.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from deltaai.errors import FormatError, format_bytes
from deltaai.io.files import opened

_BYTES = 0x08
_MOST_BYTES = 2**31  # more is no data set that this was made for


def read_idx(path: Path, num_axes: int) -> UInt8[np.ndarray, "..."]:
    """Read an array of bytes, unpacked if the name ends in ``.gz``.

    Raises
    ------
    FormatError
        When there is no such file, or it is not whole, or holds something else.
    """
    with opened(path) as stream:
        start = stream.read(4 + 4 * num_axes)
        sizes = _sizes(path, start, num_axes)
        expected = math.prod(sizes)
        if expected > _MOST_BYTES:
            raise FormatError(path, None, f"it would hold {format_bytes(expected)}: not MNIST")
        content = stream.read(expected + 1)
    if len(content) != expected:
        found = f"{len(content)}" if len(content) < expected else f"more than {expected}"
        shape = " x ".join(map(str, sizes))
        raise FormatError(
            path,
            None,
            f"{found} bytes follow where {shape} = {expected} should: cut short or damaged, fetch "
            "it again",
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)


def _sizes(path: Path, start: bytes, num_axes: int) -> tuple[int, ...]:
    """Sizes of the axes, from the beginning of a file."""
    magic = bytes((0, 0, _BYTES, num_axes))
    if start[:4] != magic:
        raise FormatError(
            path,
            None,
            f"it begins with {start[:4].hex(' ') or 'nothing'}, not with {magic.hex(' ')}: not an "
            f"IDX file of bytes with {num_axes} axes",
        )
    if len(start) < 4 + 4 * num_axes:
        raise FormatError(path, None, "cut short in its first line of sizes, fetch it again")
    return struct.unpack(f">{num_axes}I", start[4:])
