"""What came of a problem, in files: one JSON a problem, with log10 Z and marginals beside it.

    answers/NAME.json    what was claimed and what it took, and the rules that held
    answers/NAME.PR      log10 Z, as solutions are written
    answers/NAME.MAR     marginals, likewise

A result counts for a problem if it was made under the same rules. Its JSON is written last, in one
piece, so a result that is there is complete. Errors against solutions are not kept: they are found
again whenever a summary is written, so solutions may come later.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from deltaai.arguments import checked_bytes, checked_choice, checked_number, checked_seed
from deltaai.errors import ConfigError, FormatError, Setting, format_bytes, one_line
from deltaai.io import replace_file

FOLDER = "answers"
METHODS = ("auto", "exact", "sampler", "bp")


@dataclass(frozen=True)
class Rules:
    """Under which a problem is answered.

    Parameters
    ----------
    seconds : for each, reading included.
    memory : bytes.
    method : as that of ``query``.
    seed : of all randomness.
    """

    seconds: float | int = 20.0
    memory: int | str = 8 * 2**30
    method: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", checked_number("seconds", self.seconds))
        memory = checked_bytes(self.memory, "memory")
        if memory is None:
            raise ConfigError("say how much memory each problem may take: ", Setting("memory"))
        object.__setattr__(self, "memory", memory)
        checked_choice("method", self.method, METHODS)
        checked_seed(self.seed)


@dataclass(frozen=True)
class Result:
    """An answer to a problem, or why there is none.

    Parameters
    ----------
    name : of the problem.
    rules : that held.
    num_variables, num_observed : sizes of the problem; none if it could not be read.
    method : how it was answered; empty if it was not.
    status, partition_status : what marginals and log Z are said to be worth.
    log10_partition, log10_stderr : the answer about Z, and its standard error.
    seconds, cpu_seconds : that it took.
    memory : most bytes held while it was answered, beyond those before.
    reason : why there is no answer, in one line.
    doubts : of the answer.
    """

    name: str
    rules: Rules
    num_variables: int | None = None
    num_observed: int | None = None
    method: str = ""
    status: str = ""
    partition_status: str = ""
    log10_partition: float | None = None
    log10_stderr: float | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory: int = 0
    reason: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer."""
        return not self.reason

    @property
    def overrun(self) -> str:
        """What broke the rules, if anything did: an answer that came late, or held too much."""
        if not self.is_answered:
            return ""
        if self.seconds > self.rules.seconds:
            return f"answered after {self.seconds:.2f} s, which is too late"
        if self.memory > int(self.rules.memory):
            return f"held {format_bytes(self.memory)}, which is too much"
        return ""


def result_path(folder: Path, name: str, kind: str = "json") -> Path:
    """Where a file of a problem's result is."""
    return folder / FOLDER / f"{name}.{kind}"


def write_result(folder: Path, result: Result) -> None:
    """Write a result in one piece."""
    text = json.dumps(asdict(result), indent=1, sort_keys=True)
    replace_file(result_path(folder, result.name), f"{text}\n".encode())


def read_result(path: Path) -> Result:
    """Read a result.

    Raises
    ------
    FormatError
        If the file is not one that :func:`write_result` wrote.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content["rules"] = Rules(**content["rules"])
        content["doubts"] = tuple(content["doubts"])
        result = Result(**content)
        for field in fields(result):
            _check(field.name, getattr(result, field.name))
        return result
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ConfigError) as error:
        reason = one_line(repr(error), 300)
        raise FormatError(
            path, None, f"not the result of a problem ({reason}); delete it to answer it again"
        ) from None


def _check(name: str, value: object) -> None:
    """Refuse what JSON could hold and :func:`write_result` never writes."""
    texts = ("name", "method", "status", "partition_status", "reason")
    optional = ("num_variables", "num_observed", "log10_partition", "log10_stderr")
    if name == "rules":
        return
    if name == "doubts":
        right = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    elif name in texts:
        right = isinstance(value, str)
    else:
        right = (value is None and name in optional) or type(value) in (int, float)
    if not right:
        raise TypeError(f"{name} is {value!r}")
