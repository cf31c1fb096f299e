"""The families of conditionals by name, and what sets one up.

A new family is one file with a subclass of :class:`~deltaai.conditionals.base.Conditionals` and one
line here; a user adds one with :func:`register_family`. What ``fit`` chooses where nobody says
otherwise, width and learning rate, stands beside the builder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from deltaai.conditionals.base import Conditionals
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.local import LocalConditionals
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.conditionals.table import TableConditionals
from deltaai.errors import ConfigError, Setting
from deltaai.registry import add_entry, checked_callable, entry_of


@dataclass(frozen=True, eq=False)
class FamilySettings:
    """What is asked of a family.

    Parameters
    ----------
    hidden : units of each hidden layer; families without any ignore it.
    takes_masks : whether they are asked with varying sets of known inputs.
    num_context : features of a column that every conditional sees.
    generator : randomness of the initial weights.
    """

    hidden: int = 32
    takes_masks: bool = False
    num_context: int = 0
    generator: torch.Generator | None = None


FamilyBuilder = Callable[[Layout, FamilySettings], Conditionals]


@dataclass(frozen=True)
class Family:
    """A family, and what suits it where nobody says otherwise.

    Parameters
    ----------
    build : gives untrained conditionals.
    has_hidden : whether it has hidden units.
    hidden : how many; ``None`` for as many as small networks for the model would have.
    learning_rate : of its training; ``None`` for that of small networks.
    """

    build: FamilyBuilder
    has_hidden: bool = True
    hidden: int | None = None
    learning_rate: float | int | None = None


def _local(layout: Layout, settings: FamilySettings) -> Conditionals:
    return LocalConditionals(
        layout,
        settings.hidden,
        takes_masks=settings.takes_masks,
        num_context=settings.num_context,
        generator=settings.generator,
    )


def _table(layout: Layout, settings: FamilySettings) -> Conditionals:
    if settings.num_context:
        raise ConfigError("a table has no entries for a context: choose another family")
    if settings.takes_masks:
        raise ConfigError(
            "a table has no entry for an input that is not known, so tables are for one order "
            "without evidence: choose ",
            Setting("orders", "one"),
            ", or another family",
        )
    return TableConditionals(layout)


def _autoencoder(layout: Layout, settings: FamilySettings) -> Conditionals:
    return MaskedAutoencoder(
        layout, settings.hidden, num_context=settings.num_context, generator=settings.generator
    )


FAMILIES: dict[str, Family] = {
    "local": Family(_local),
    "table": Family(_table, has_hidden=False, learning_rate=5e-2),
    "mae": Family(_autoencoder, hidden=512, learning_rate=1e-3),
}


def register_family(
    name: str,
    build: FamilyBuilder,
    *,
    has_hidden: bool = True,
    hidden: int | None = None,
    learning_rate: float | int | None = None,
    replace: bool = False,
) -> None:
    """Make a family a choice of ``fit(family=name)``.

    Parameters
    ----------
    name : what settings and files call it. A file of a sampler is read where its family has been
        registered, too.
    build : gives untrained conditionals for a layout and :class:`FamilySettings`; refuses those
        that it cannot serve.
    has_hidden, hidden, learning_rate : see :class:`Family`.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of a family", build, "(layout, settings)")
    family = Family(build, has_hidden, hidden, learning_rate)
    add_entry(FAMILIES, "family", name, family, replace=replace)


def build_conditionals(
    family: str,
    layout: Layout,
    hidden: int,
    *,
    takes_masks: bool,
    num_context: int = 0,
    generator: torch.Generator | None = None,
) -> Conditionals:
    """Untrained conditionals of a family.

    Parameters
    ----------
    family : ``"local"``, a small network a variable; ``"table"``, one entry for every state of the
        parents (one order only); ``"mae"``, the masked autoencoder of the paper; or one registered.
    hidden : units of each hidden layer; tables have none.
    takes_masks : whether they are asked with varying sets of known inputs.
    num_context : features of a column that every conditional sees.
    """
    settings = FamilySettings(hidden, takes_masks, num_context, generator)
    return entry_of(FAMILIES, "family", family).build(layout, settings)
