"""What a user types, turned into what the library takes: evidence, names, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from deltaai.errors import ConfigError, EvidenceError, did_you_mean
from deltaai.io import read_evidence
from deltaai.models import FactorGraph
from deltaai.training import TrainingConfig


def parse_names(text: str | None, model: FactorGraph) -> list[str] | None:
    """Read names separated by commas; a name that itself holds commas may stand alone."""
    if text is None:
        return None
    known = {variable.name for variable in model.variables} | {name for name, _ in model.nodes}
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
        if name in evidence and _value(model, name, evidence[name]) != _value(model, name, state):
            raise EvidenceError(f"the evidence gives {name!r} two values")
        evidence[name] = state
    return evidence


def parse_likelihoods(words: Sequence[str], model: FactorGraph) -> dict[str, Any]:
    """Read ``name=yes:0.9,no:0.2``, or ``name=0.9,0.2`` in the order of the states."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, rest = (part.strip() for part in word.partition("="))
        parts = [part.strip() for part in rest.split(",") if part.strip()]
        if not equals or not name or not parts:
            raise EvidenceError(
                f"likelihood {word!r} is not of the form name=state:number,..., for example "
                "rain=yes:0.9,no:0.2"
            )
        name = model.variables[model.index(name)].name
        if name in found:
            raise EvidenceError(f"the likelihood of {name!r} is given twice")
        pairs = [part.rpartition(":") for part in parts]
        numbers = [_likelihood(word, number) for _, _, number in pairs]
        is_named = [bool(colon) for _, colon, _ in pairs]
        if all(is_named):
            states = [state.strip() for state, _, _ in pairs]
            if len(set(states)) < len(states):
                raise EvidenceError(f"likelihood {word!r} names a state twice")
            found[name] = dict(zip(states, numbers, strict=True))
        elif not any(is_named):
            found[name] = numbers
        else:
            raise EvidenceError(f"likelihood {word!r} names some states and not others: name all")
    return found


def _likelihood(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise EvidenceError(
            f"likelihood {word!r} holds {text.strip()!r}, which is no number: write for example "
            "rain=yes:0.9,no:0.2"
        ) from None


def _value(model: FactorGraph, name: str, state: str | int) -> int | float:
    return model.variables[model.index(name)].value_of(state)


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
