"""States as a table with names and labels, for those who work with pandas."""

from __future__ import annotations

from typing import Any

from jaxtyping import Num
from torch import Tensor

from deltaai.extras import extra
from deltaai.models.factor_graph import FactorGraph


def states_frame(model: FactorGraph, x: Num[Tensor, "batch var"]) -> Any:  # noqa: ANN401
    """A ``DataFrame`` of states: a row each, a column a variable, labels in the cells.

    Columns are categorical, with all states of their variable as categories and in their order; a
    real variable has a column of numbers.

    Examples
    --------
    >>> import torch
    >>> from deltaai.models import zoo
    >>> print(states_frame(zoo.sprinkler(), torch.tensor([[1, 0, 1, 1]])))
      cloudy sprinkler rain wet_grass
    0    yes        no  yes       yes
    """
    pandas = extra("pandas", "tables", "tables")
    model.check_states(x)
    columns = x.cpu().numpy().T
    labelled = (
        pandas.Series(
            codes
            if variable.is_real
            else pandas.Categorical.from_codes(codes.astype(int), list(variable.states))
        )
        for codes, variable in zip(columns, model.variables, strict=True)
    )
    # Names may be anything, so columns are joined by place and named afterwards.
    frame = (
        pandas.concat(list(labelled), axis=1)
        if len(columns)
        else pandas.DataFrame(index=range(len(x)))
    )
    frame.columns = [variable.name for variable in model.variables]
    return frame
