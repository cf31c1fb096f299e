"""Factors written as tables, for those who sum over them: finite numbers, or -inf for zero.

Tables are checked when a model is made; what a module of torch computes is only known now. An
answer that rests on NaN would be NaN with a good status, so it is refused here, with the factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Float64
from torch import Tensor

from deltaai.errors import ModelError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.factor_kinds import LARGEST_LOG
from deltaai.models.groups import FactorGroup


def checked_log_tables(model: FactorGraph, group: FactorGroup) -> Float64[Tensor, "factor *states"]:
    """Tables of a group's factors in double precision, without gradients.

    Raises
    ------
    ModelError
        For NaN and plus infinity, and for logarithms that leave no digits for their sum.
    """
    tables = group.log_tables().detach().double()
    flat = tables.reshape(group.num_factors, group.table_size)
    for is_bad, problem in (
        (flat.isnan() | (flat == math.inf), "is NaN or infinite at some states"),
        (
            (flat.abs() > LARGEST_LOG) & (flat != -math.inf),
            f"is beyond {LARGEST_LOG:g} at some states",
        ),
    ):
        if bool(is_bad.any()):
            at = int(is_bad.any(1).nonzero()[0])
            raise ModelError(
                f"{describe_member(model, group, at)} {problem}: log-values must be finite, or "
                "-inf for zero"
            )
    return tables


def describe_member(model: FactorGraph, group: FactorGroup, at: int) -> str:
    """Name a factor of a group in an error message."""
    names: Sequence[str] = [model.variables[v].name for v in group.scopes[at].tolist()]
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"factor {int(group.ids[at])} over ({shown})"
