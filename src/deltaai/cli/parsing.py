"""What a user types, turned into what the library takes: evidence, names, amounts of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from deltaai.errors import ConfigError, DeltaAIError, EvidenceError, did_you_mean
from deltaai.io import read_evidence
from deltaai.models import FactorGraph
from deltaai.training.config import TrainingConfig

_MOST_BYTES = 2.0**100  # more is a slip of the hand
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def parse_bytes(text: str | None) -> int | None:
    """Read an amount of memory such as ``4GB``, ``512 MiB`` or ``1000000``.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes("1000")
    (4294967296, 1572864, 1000)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None or not 0 < float(match[1]) < _MOST_BYTES:
        raise DeltaAIError(f"{text!r} is not an amount of memory: write for example 4GB or 512MB")
    return int(float(match[1]) * _UNITS[match[2]])


def parse_names(text: str | None, model: FactorGraph) -> list[str] | None:
    """Read names separated by commas; a name that itself holds commas may stand alone."""
    if text is None:
        return None
    known = {variable.name for variable in model.variables}
    if text in known:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise EvidenceError(f"no variable {name!r} in the model{did_you_mean(name, known)}")
    if not names:
        raise EvidenceError("--of names no variable: write for example --of rain,wet")
    return list(dict.fromkeys(names))


def parse_evidence(
    pairs: Sequence[str], file: Path | None, model: FactorGraph
) -> dict[str, str | int]:
    """Join the evidence of a file and of ``name=state`` words; the same variable twice must agree.

    A word may hold several pairs separated by commas.
    """
    evidence: dict[str, str | int] = {}
    if file is not None:
        evidence.update(read_evidence(file, model))
    for name, state in (pair for word in pairs for pair in _split(word, model)):
        if name in evidence and _index(model, name, evidence[name]) != _index(model, name, state):
            raise EvidenceError(f"the evidence gives {name!r} two states")
        evidence[name] = state
    model.resolve_evidence(evidence)  # says what is unknown
    return evidence


def _index(model: FactorGraph, name: str, state: str | int) -> int:
    return model.variables[model.index(name)].index_of(state)


def _split(word: str, model: FactorGraph) -> list[tuple[str, str]]:
    """Split ``a=yes,b=no``; labels with commas or names with equal signs are tried whole first."""
    known = {variable.name: variable for variable in model.variables}
    for match in re.finditer("=", word):
        name, state = word[: match.start()].strip(), word[match.end() :].strip()
        if name in known and state in known[name].states:
            return [(name, state)]
    pairs = []
    for part in word.split(","):
        name, equals, state = part.partition("=")
        if not equals or not name.strip() or not state.strip():
            raise EvidenceError(
                f"evidence {part.strip()!r} is not of the form name=state, for example rain=yes"
            )
        pairs.append((name.strip(), state.strip()))
    return pairs


def parse_setting(word: str) -> tuple[str, Any]:
    """Read a setting of training such as ``batch_size=128``.

    >>> parse_setting("batch_size=128"), parse_setting("target_ess=none")
    (('batch_size', 128), ('target_ess', None))
    """
    name, equals, text = (part.strip() for part in word.partition("="))
    if not equals or not name or not text:
        raise ConfigError(f"setting {word!r} is not of the form name=value: --set batch_size=128")
    known = [field.name for field in fields(TrainingConfig)]
    if name not in known:
        guess = did_you_mean(name, known) or f": there are {', '.join(known)}"
        raise ConfigError(f"no setting {name!r}{guess}")
    if name == "seed":
        raise ConfigError("the setting 'seed' has an option of its own: --seed 1")
    if text.lower() in {"none", "true", "false"}:
        return name, {"none": None, "true": True, "false": False}[text.lower()]
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            continue
    return name, text


def parse_settings(words: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Join the settings of ``--set`` with those that have an option; none may be given twice.

    >>> parse_settings(["batch_size=128"], {"steps": 20})
    {'batch_size': 128, 'steps': 20}
    """
    chosen: dict[str, Any] = {}
    for name, value in map(parse_setting, words):
        if name in chosen or name in named:
            raise ConfigError(f"the setting {name!r} is given twice: keep one of them")
        chosen[name] = value
    return chosen | dict(named)
