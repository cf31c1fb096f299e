"""The families of conditionals by name, and what sets one up."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from deltaai.conditionals.base import Conditionals
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.local import LocalConditionals
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.conditionals.table import TableConditionals
from deltaai.errors import ConfigError, Setting, did_you_mean, shown

Family = Literal["local", "table", "mae"]


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
        parents (one order only); ``"mae"``, the masked autoencoder of the paper.
    hidden : units of each hidden layer; tables have none.
    takes_masks : whether they are asked with varying sets of known inputs.
    num_context : features of a column that every conditional sees.
    """
    match family:
        case "local":
            return LocalConditionals(
                layout,
                hidden,
                takes_masks=takes_masks,
                num_context=num_context,
                generator=generator,
            )
        case "mae":
            return MaskedAutoencoder(layout, hidden, num_context=num_context, generator=generator)
        case "table" if num_context:
            raise ConfigError("a table has no entries for a context: choose another family")
        case "table" if takes_masks:
            raise ConfigError(
                "a table has no entry for an input that is not known, so tables are for one order "
                "without evidence: choose ",
                Setting("orders", "one"),
                ", or another family",
            )
        case "table":
            return TableConditionals(layout)
    names = get_args(Family)
    raise ConfigError(
        f"there is no family {shown(family)}{did_you_mean(family, names)}; one of "
        f"{', '.join(names)}"
    )
