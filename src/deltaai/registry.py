"""Registries: plain dictionaries from names to what stands behind them.

Objectives, families, factor kinds, file formats, kernels and figures are found by name, each in a
dictionary of its own folder. What comes with the package is one line there; a user adds more with
the folder's ``register_...``. This file only checks names: it knows no registry, finds no plug-ins,
and keeps nothing. What is registered lasts as long as the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from deltaai.errors import ConfigError, did_you_mean, shown

Entry = TypeVar("Entry")


def add_entry(
    entries: dict[str, Entry], kind: str, name: str, entry: Entry, *, replace: bool = False
) -> None:
    """Put something under a name that is free.

    Parameters
    ----------
    entries : the registry.
    kind : what its entries are called in messages.
    replace : whether it may take the place of another, as when a cell of a notebook runs again.

    >>> families = {"local": 1}
    >>> add_entry(families, "family", "local", 2)
    Traceback (most recent call last):
    deltaai.errors.ConfigError: there is a family 'local' already: choose another name, or
    replace=True
    """
    if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip():
        raise ConfigError(f"the name of {_a(kind)} is {shown(name)}: give a word")
    if name in entries and not replace:
        raise ConfigError(
            f"there is {_a(kind)} {shown(name)} already: choose another name, or replace=True"
        )
    entries[name] = entry


def checked_callable(what: str, value: object, takes: str) -> None:
    """Refuse what cannot be called, now and not when it is first needed.

    >>> checked_callable("the builder of an objective", 3, "(proposal, settings)")
    Traceback (most recent call last):
    deltaai.errors.ConfigError: the builder of an objective is 3: give a function of
    (proposal, settings)
    """
    if not callable(value):
        raise ConfigError(f"{what} is {shown(value)}: give a function of {takes}")


def entry_of(entries: Mapping[str, Entry], kind: str, name: str) -> Entry:
    """What stands under a name.

    >>> entry_of({"local": 1}, "family", "locl")
    Traceback (most recent call last):
    deltaai.errors.ConfigError: there is no family 'locl'; did you mean 'local'?; one of local
    """
    if isinstance(name, str) and name in entries:
        return entries[name]
    raise ConfigError(
        f"there is no {kind} {shown(name)}{did_you_mean(name, entries)}; one of "
        f"{', '.join(entries)}"
    )


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
