"""Files: open them, plain or compressed, and hand their text to the format that the name says.

``grid.uai`` and ``alarm.bif`` are plain, ``alarm.bif.gz`` is compressed. Whatever can be wrong
with a file as a file (missing, a folder, not text, damaged compression) is reported here; what can
be wrong with its text is reported by its format (:mod:`deltaai.io.formats`).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import overload

from deltaai.arguments import checked_path
from deltaai.errors import (
    ConfigError,
    DeltaAIError,
    FormatError,
    ModelError,
    format_bytes,
    shown,
)
from deltaai.io.atomic import replace_file
from deltaai.io.evidence_table import Rows, rows_from_csv
from deltaai.io.examples import example_file, examples, listed_examples
from deltaai.io.formats import BinaryFormat, format_of, is_compressed
from deltaai.io.source import Source, decoded, encoded
from deltaai.io.streams import WatchedStream
from deltaai.io.uai_evidence import parse_evidence
from deltaai.io.uai_solutions import Row, parse_log10_partition, parse_marginals
from deltaai.models import FactorGraph, StateIndex
from deltaai.watch import look

# A small compressed file may stand for any number of bytes; beyond this it is refused.
LARGEST_TEXT_BYTES = 2**30
_CHUNK_BYTES = 2**22
# A model takes several times the bytes of its text while it is read, whatever the text is.
_LEAST_BYTES_PER_BYTE = 4


def read(path: str | Path) -> FactorGraph:
    """Read a model from a ``.uai``, ``.bif`` or ``.dai`` file; text may be compressed (``.gz``).

    The name of an example (:func:`example`) stands for it, if there is no file of that name.

    Raises
    ------
    FormatError
        When there is no such file, or it does not follow its format; says the line.
    """
    path = checked_path(path)
    if not path.suffix and not is_there(path):
        packaged = example_file(str(path))
        if packaged is None:
            hint = listed_examples(str(path))
            raise FormatError(path, None, f"there is no such file, and no such example{hint}")
        path = packaged
    file_format = format_of(path)
    if isinstance(file_format, BinaryFormat):
        return file_format.read(path)
    source = _read_source(path)
    if not source.text.strip():
        raise FormatError(path, None, "the file is empty; expected a model")
    return file_format.read(source)


@overload
def example() -> dict[str, str]: ...
@overload
def example(name: str) -> FactorGraph: ...
def example(name: str | None = None) -> FactorGraph | dict[str, str]:
    """A model that comes with the package; without a name, what there is.

    Parameters
    ----------
    name : ``"sprinkler"`` (rain and wet grass, 4 variables), ``"asia"`` (a chest clinic, 8),
        ``"grid"`` (a 10 x 10 Ising lattice) or ``"lattice"`` (a 32 x 32 one, too wide for tables).

    Examples
    --------
    >>> example("asia")
    FactorGraph(8 variables, 8 factors)
    >>> list(example())
    ['sprinkler', 'asia', 'grid', 'lattice']
    """
    if name is None:
        return examples()
    packaged = example_file(name) if isinstance(name, str) else None
    if packaged is None:
        raise ConfigError(f"there is no example {shown(name)}{listed_examples(name)}")
    return read(packaged)


def as_model(source: FactorGraph | str | Path) -> FactorGraph:
    """The model itself, or the one in a file: what every public function that needs one takes."""
    if isinstance(source, FactorGraph):
        return source
    if isinstance(source, str | Path):
        return read(source)
    if type(source).__name__ == "Sampler":
        raise ModelError("a Sampler is no model: give its model")
    raise ModelError(f"{shown(source)} is no model: give a FactorGraph, or the path of a file")


def read_evidence(path: str | Path, model: FactorGraph | None = None) -> dict[str, StateIndex]:
    """Read a UAI evidence file (``.evid``): names of the observed variables, and their states.

    Parameters
    ----------
    path : the file, compressed if its name ends in ``.gz``.
    model : the model it is about. Its variables give the names, in their order, and its states
        are checked. Without it variable ``i`` is called ``x{i}``.
    """
    path = checked_path(path)
    return parse_evidence(_read_source(path), None if model is None else as_model(model))


def read_log10_partition(path: str | Path) -> float:
    """Read log10 Z from a UAI solution file (``.PR``)."""
    return parse_log10_partition(_read_source(checked_path(path)))


def read_marginals(path: str | Path, model: FactorGraph) -> tuple[Row, ...]:
    """Read the marginals of a model's variables from a UAI solution file (``.MAR``)."""
    return parse_marginals(_read_source(checked_path(path)), as_model(model))


def read_evidence_table(path: str | Path, model: FactorGraph) -> Rows:
    """Read rows of evidence from a CSV file: a column for each variable that may be observed.

    Parameters
    ----------
    path : the file, with names in its first line, compressed if its name ends in ``.gz``.
    model : the model it is about.

    Returns
    -------
    States, one row a case, with -1 where a cell is blank or a variable has no column.
    """
    return rows_from_csv(_read_source(checked_path(path)), as_model(model))


def write(model: FactorGraph, path: str | Path) -> None:
    """Write a model to a ``.uai``, ``.bif`` or ``.dai`` file; text is compressed for ``.gz``.

    The file appears complete or not at all, and an old one is replaced only at the end. Reading
    it gives the same tables, and writing those the same bytes. A ``.uai`` file keeps no names, a
    ``.bif`` file holds Bayesian networks only; ``.dai`` holds any model of tables, as it is.

    Raises
    ------
    ConversionError
        When the format cannot hold the model.
    DeltaAIError
        When the file cannot be written.
    """
    path, model = checked_path(path), as_model(model)
    file_format = format_of(path, is_written=True)
    assert file_format.write is not None
    content = file_format.write(model)
    if isinstance(content, str):
        content = encoded(content)
    if is_compressed(path):
        content = gzip.compress(content, mtime=0)  # without the time: same model, same bytes
    replace_file(path, content)


def is_there(path: Path) -> bool:
    """Whether there is something of that name; what cannot be a name is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _read_source(path: Path) -> Source:
    with opened(path) as stream:
        if not is_compressed(path):
            look(_LEAST_BYTES_PER_BYTE * path.stat().st_size)
        content = _read_limited(stream, path)
    return source_of(content, str(path))


def source_of(content: bytes, path: str) -> Source:
    """The text that bytes stand for, or the error that says which line is none."""
    text = decoded(content, path).removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Source(path, text)


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file for reading, unpacked if its name ends in ``.gz``; say what is wrong with it."""
    try:
        with WatchedStream.opened(path) as raw:
            yield gzip.GzipFile(fileobj=raw) if is_compressed(path) else raw
    except DeltaAIError:
        raise
    except FileNotFoundError:
        packed = path.with_name(path.name + ".gz")
        hint = f"; did you mean {packed.name}?" if packed.exists() else ""
        raise FormatError(path, None, f"there is no such file{hint}") from None
    except IsADirectoryError:
        raise FormatError(path, None, "this is a folder; expected a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(
            path, None, f"the compressed file is damaged or cut short ({error}); fetch it again"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(path, None, f"cannot be read: {reason}") from None


def _read_limited(stream: BufferedIOBase, path: Path) -> bytes:
    chunks, total = [], 0
    while chunk := stream.read(_CHUNK_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        look(_LEAST_BYTES_PER_BYTE * total)
        if total > LARGEST_TEXT_BYTES:
            limit = format_bytes(LARGEST_TEXT_BYTES)
            raise FormatError(path, None, f"holds more than {limit} of text, which is refused")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
