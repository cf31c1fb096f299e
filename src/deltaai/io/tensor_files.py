"""Files of tensors that are complete or absent, and are believed only if nothing changed in them.

A file is in the safetensors format: tensors, and in its header one JSON text with the format's
name and version, the kind of content, the caller's metadata, and a SHA-256 over all of it. It is
written beside its target and renamed over it, so a process killed at any moment leaves the old
file or the new one. Nothing is ever unpickled: reading a stranger's file runs no code of theirs.

What the tensors mean is not known here: models (:mod:`deltaai.io.model_files`), samplers and the
states of runs say what they are by their kind.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from deltaai.arguments import checked_path
from deltaai.errors import DeltaAIError, FormatError, one_line
from deltaai.io.atomic import replace_file

FORMAT_NAME = "deltaai"
FORMAT_VERSION = 2  # 1 said of a sampler what it is in other words
MODEL_KIND, SAMPLER_KIND = "model", "sampler"
_READ_WITH = {MODEL_KIND: "read", SAMPLER_KIND: "load"}


def save_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any], *, kind: str
) -> None:
    """Write tensors and metadata to a file that appears complete or not at all.

    Parameters
    ----------
    path : the file; an old one is replaced at the end, and not before.
    tensors : by name; any device and layout in memory, and they may overlap.
    metadata : values that JSON has, with text for keys; no NaN or infinity.
    kind : what the content is, such as ``"checkpoint"``; reading asks for the same.

    Raises
    ------
    DeltaAIError
        When something cannot be stored, or the file cannot be written.
    """
    replace_file(path, packed_tensors(tensors, metadata, kind=kind, name=str(path)))


def packed_tensors(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, Any], *, kind: str, name: str
) -> bytes:
    """The bytes of such a file; the name is for messages."""
    envelope: dict[str, Any] = {"format": FORMAT_NAME, "version": FORMAT_VERSION, "kind": kind}
    try:
        separate = dict(_separate(tensors))
        envelope["metadata"] = json.loads(_canonical(dict(metadata)))
        if envelope["metadata"] != dict(metadata):
            raise TypeError("metadata must be lists, and dictionaries with text for keys")
        envelope["sha256"] = _checksum(separate, envelope)
        # Not safetensors' own writer of files: that does not wait for the disk.
        return safetensors.torch.save(separate, {FORMAT_NAME: _canonical(envelope)})
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise DeltaAIError(f"cannot store this in {name}: {one_line(error)}") from error


def load_tensors(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`save_tensors` wrote: the tensors, on the CPU, and the metadata.

    Raises
    ------
    FormatError
        When there is no such file, or it is not whole, not ours, or not of this kind.
    """
    path = checked_path(path)
    with _opened(path) as file:
        header = file.metadata() or {}
        # Copies, for what stands in the file may change under a tensor that maps it.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    envelope = _read_envelope(path, header)
    found = envelope["kind"]
    if found != kind:
        call = _READ_WITH.get(found) if isinstance(found, str) else None
        hint = "" if call is None else f": a {found} is read with {call}"
        raise FormatError(path, None, f"holds a {one_line(repr(found))}; expected a {kind!r}{hint}")
    if envelope.pop("sha256") != _checksum(tensors, envelope):
        raise FormatError(path, None, "damaged: its content does not match its checksum")
    return tensors, envelope["metadata"]


def kind_of(path: str | Path) -> str:
    """What the content of such a file is said to be; nothing else is read."""
    path = checked_path(path)
    with _opened(path) as file:
        header = file.metadata() or {}
    return str(_read_envelope(path, header)["kind"])


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file of tensors; whatever is wrong with it while it is read is said of it."""
    try:
        num_bytes = path.stat().st_size
        if not path.is_file():
            raise FormatError(path, None, "this is not a file")
        if num_bytes == 0:
            raise FormatError(path, None, "the file is empty; writing it was interrupted")
        with _utf8_name(path) as name, safetensors.safe_open(name, framework="pt") as file:
            yield file
    except FormatError:
        raise
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file") from None
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror or error}") from None
    except Exception as error:  # whatever the reader stumbles over, the file is to blame
        raise FormatError(
            path, None, f"not a safetensors file, damaged, or cut short ({one_line(error)})"
        ) from None


@contextmanager
def _utf8_name(path: Path) -> Iterator[Path]:
    """A name of the file that the format's reader takes: names in UTF-8 and no others."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder, "file")
            link.symlink_to(path.resolve())
            yield link
    else:
        yield path


def _separate(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors as the format wants them: on the CPU, in order, none sharing another's memory."""
    seen = set()
    for name, tensor in tensors.items():
        if name == "__metadata__":
            raise ValueError("the name '__metadata__' is the format's own")
        plain = tensor.detach().cpu().contiguous()
        storage = plain.untyped_storage().data_ptr()
        # One number of a wider tensor counts as contiguous, whatever step leads to the next.
        is_stepping = plain.numel() == 1 and plain.reshape(-1).stride(0) != 1
        is_shared = storage in seen or is_stepping
        yield name, plain.clone(memory_format=torch.contiguous_format) if is_shared else plain
        seen.add(storage)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(tensors: Mapping[str, Tensor], envelope: Mapping[str, Any]) -> str:
    """Hash of everything that a reader will rely on: names, types and shapes too."""
    digest = hashlib.sha256(_canonical(envelope).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(_canonical([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read_envelope(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    if FORMAT_NAME not in header:
        raise FormatError(path, None, "a safetensors file, but not one that deltaai wrote")
    try:
        envelope = json.loads(header[FORMAT_NAME], parse_float=_finite, parse_constant=_finite)
        name, version = envelope["format"], envelope["version"]
        if name != FORMAT_NAME or type(version) is not int or version < 1:
            raise ValueError(f"format {name!r}, version {version!r}")
        if version < FORMAT_VERSION:
            raise FormatError(
                path,
                None,
                f"written by an earlier deltaai (format version {version}; this one reads "
                f"{FORMAT_VERSION}): fit it again",
            )
        if version > FORMAT_VERSION:
            raise FormatError(
                path,
                None,
                f"written by a newer deltaai (format version {version}; this one reads up to "
                f"{FORMAT_VERSION}); upgrade deltaai to read it",
            )
        if set(envelope) != {"format", "version", "kind", "metadata", "sha256"}:
            raise ValueError(f"it has the entries {', '.join(sorted(envelope))}")
        if not isinstance(envelope["metadata"], dict):
            raise ValueError("its metadata is not a dictionary")
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(path, None, f"its header is damaged ({one_line(error)})") from None
    return dict(envelope)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is not finite")
    return number
