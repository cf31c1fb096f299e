"""What a batch of states is, and what is wrong with one that is none.

States of discrete models are integers, one row a state of all variables. Where any variable is
real, they are floating: a real variable's value as it is, states as whole numbers. Such a batch may
also be given by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Num
from torch import Tensor

from deltaai.errors import StateError, did_you_mean, one_line, shown
from deltaai.models.factors import as_tensor, has_values

if TYPE_CHECKING:
    from deltaai.models.factor_graph import FactorGraph

States = Num[Tensor, "batch var"]


def check_states(model: FactorGraph, x: States) -> None:
    """Refuse what is not a batch of full states."""
    if not isinstance(x, Tensor) or not has_values(x):
        kind = "a sparse or meta tensor" if isinstance(x, Tensor) else shown(x)
        raise StateError(
            f"states must be {_kind_of(model)} tensor, not {kind}: write for example "
            "torch.tensor([[0, 1]]), or torch.from_numpy(array)"
        )
    if x.ndim != 2 or x.shape[1] != model.num_variables:
        raise StateError(
            f"states must have shape (batch, {model.num_variables}), not {tuple(x.shape)}"
        )
    if x.is_complex() or x.dtype == torch.bool or (x.is_floating_point() and model.is_discrete):
        wanted = "integers" if model.is_discrete else "numbers"
        raise StateError(f"states must be {wanted}, not {x.dtype}")
    if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
        x = x.long()  # torch compares no wider unsigned integers than bytes
    if not x.numel():
        return
    if not model.is_discrete:
        _check_mixed(model, x.detach().double())
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(x))
    if lowest < 0 or highest >= model.fewest_states:
        is_bad = (x < 0) | (x >= model.num_states)
        if bool(is_bad.any()):
            _refuse(model, x, is_bad)


def _kind_of(model: FactorGraph) -> str:
    return "an integer" if model.is_discrete else "a floating"


def _check_mixed(model: FactorGraph, x: Tensor) -> None:
    low, high = model.bounds
    is_bad = ~((x >= low) & (x <= high) & torch.isfinite(x))
    is_bad |= ~model.is_real & (x != x.round())
    if bool(is_bad.any()):
        _refuse(model, x, is_bad)


def _refuse(model: FactorGraph, x: Tensor, is_bad: Tensor) -> None:
    row, column = is_bad.nonzero()[0].tolist()
    variable, value = model.variables[column], x[row, column].item()
    where = f"row {row + 1} (x[{row}]) gives variable {variable.name!r}"
    if variable.support is not None:
        raise StateError(f"{where} the value {value:g}, and it is {variable.support}")
    state = int(value) if float(value).is_integer() else value
    raise StateError(
        f"{where} the state {state}, but its states are 0 to {variable.num_states - 1}"
    )


def states_by_name(model: FactorGraph, values: Mapping[str, Any]) -> States:
    """States from a mapping of names to a value for each row; vectors have a row of coordinates.

    >>> from deltaai.models import FactorGraph, Variable
    >>> model = FactorGraph([Variable("hand", support="line", dimension=2), Variable("rain")])
    >>> states_by_name(model, {"hand": [[0.5, 1.0]], "rain": [1]}).tolist()
    [[0.5, 1.0, 1.0]]
    """
    columns: dict[int, Tensor] = {}
    for name, given in values.items():
        places = model.places(name)
        try:
            found = as_tensor(given).to(model.device)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise StateError(f"the values of {name!r} are no numbers: {one_line(error)}") from None
        per_row = () if len(places) == 1 else (len(places),)
        if found.ndim == 0 or found.shape[1:] != per_row:
            wanted = f"(batch, {len(places)})" if per_row else "(batch,)"
            raise StateError(
                f"the values of {name!r} have shape {tuple(found.shape)}, and should have {wanted}"
            )
        columns |= dict(zip(places, found.reshape(len(found), len(places)).T, strict=True))
    if not model.num_variables:
        raise StateError("a model without variables has no states by name: give a tensor")
    missing = [v.name for n, v in enumerate(model.variables) if n not in columns]
    if missing:
        raise StateError(f"states need a value of every variable, also of {missing[0]!r}")
    if len({len(column) for column in columns.values()}) > 1:
        raise StateError("every variable must have as many values as there are rows")
    together = [columns[n] for n in range(model.num_variables)]
    if not model.is_discrete:
        together = [column.double() for column in together]
    return torch.stack(together, dim=1)


def places_of(name: object, index: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """Columns of a variable: one, or those of all coordinates of a vector."""
    if not isinstance(name, str) or name not in index:
        raise StateError(f"no variable {shown(name)} in the model{did_you_mean(name, index)}")
    return tuple(index[name])
