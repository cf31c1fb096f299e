"""The problems of a folder: models, their evidence, and the solutions that are known.

A problem is a file ``NAME.uai``, perhaps compressed, and what stands beside it: ``NAME.uai.evid``
(observations), ``NAME.uai.PR`` (log10 Z) and ``NAME.uai.MAR`` (marginals). Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from deltaai.errors import ConfigError, did_you_mean
from deltaai.experiments.harness.parts import is_key

_SUFFIXES = (".uai", ".uai.gz")


@dataclass(frozen=True)
class Problem:
    """A model to ask about.

    Parameters
    ----------
    name : of its file, without what files of models end in.
    model : the file.
    evidence, partition, marginals : files of observations, of log10 Z and of marginals, if there.
    """

    name: str
    model: Path
    evidence: Path | None
    partition: Path | None
    marginals: Path | None


def problems_in(folder: Path, names: Collection[str] | None = None) -> list[Problem]:
    """The problems of a folder by name; all, or those that are named.

    Raises
    ------
    ConfigError
        If there is no such folder, no problem in it, or not one of those that are named.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}: name one that holds .uai files")
    try:
        files = sorted(path for path in folder.iterdir() if path.name.endswith(_SUFFIXES))
    except OSError as error:
        raise ConfigError(f"cannot look into {folder}: {error.strerror}") from None
    found: dict[str, Problem] = {}
    for path in files:
        problem = _problem(path)
        if problem.name in found:
            raise ConfigError(
                f"{folder} holds {problem.name}.uai twice, plain and compressed: remove one of them"
            )
        if not is_key(problem.name):
            raise ConfigError(
                f"{path.name!r} cannot be the name of a result: use letters, digits, single '-', "
                "'_', '.' and '+'"
            )
        found[problem.name] = problem
    if not found:
        raise ConfigError(f"{folder} holds no .uai file: name a folder of UAI problems")
    for name in names or ():
        if name not in found:
            raise ConfigError(f"no problem {name!r} in {folder}{did_you_mean(name, found)}")
    return [problem for name, problem in found.items() if names is None or name in names]


def _problem(path: Path) -> Problem:
    name = path.name.removesuffix(".gz").removesuffix(".uai")
    return Problem(name, path, *(_beside(path, kind) for kind in ("evid", "PR", "MAR")))


def _beside(path: Path, kind: str) -> Path | None:
    """The file of a kind that belongs to a model, if there is one."""
    plain = path.name.removesuffix(".gz")
    for base in dict.fromkeys((path.name, plain)):
        for suffix in (kind, f"{kind}.gz"):
            if (beside := path.with_name(f"{base}.{suffix}")).exists():
                return beside
    return None
