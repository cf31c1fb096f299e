"""A model as tensors and JSON values, for files that must run no code when they are read.

Neural factors are networks, which such a file cannot hold, and factors of kinds that a user has
registered are code: those over few joint states are stored as tables, the others are refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deltaai.errors import ConversionError, ModelError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import FactorGroup
from deltaai.models.neural_group import LARGEST_TABULATED, NeuralGroup
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.variable import Variable

_KINDS: dict[str, type[TableGroup] | type[SpinGroup]] = {
    "table": TableGroup,
    "conditional": ConditionalTableGroup,
    "spin": SpinGroup,
}


def model_to_tensors(model: FactorGraph) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take a model apart, on the CPU; :func:`model_from_tensors` puts it together again."""
    tensors: dict[str, Tensor] = {}
    kinds = []
    for number, group in enumerate(model.groups):
        kind, values = _values_of(group)
        kinds.append(kind)
        tensors[f"{number}.ids"] = group.ids.cpu()
        tensors[f"{number}.scopes"] = group.scopes.cpu()
        tensors[f"{number}.values"] = values.detach().cpu()
    names = [[variable.name, list(variable.states)] for variable in model.variables]
    is_exact = all(isinstance(group, TableGroup | SpinGroup) for group in model.groups)
    described = {"variables": names, "groups": kinds, "hash": model.content_hash()}
    return tensors, described | {"is_exact": is_exact}


def model_from_tensors(tensors: dict[str, Tensor], described: dict[str, Any]) -> FactorGraph:
    """Build the model that :func:`model_to_tensors` took apart."""
    try:
        variables = [_variable(name, states) for name, states in described["variables"]]
        groups: list[FactorGroup] = []
        for number, kind in enumerate(described["groups"]):
            ids, scopes = tensors[f"{number}.ids"], tensors[f"{number}.scopes"]
            values = tensors[f"{number}.values"]
            _check_group(kind, ids, scopes, values)
            if scopes.numel() and not 0 <= int(scopes.min()) <= int(scopes.max()) < len(variables):
                raise ModelError("a scope names a variable that is not there")
            group = _KINDS[kind](ids, scopes, values)
            sizes = {tuple(variables[v].num_states for v in scope) for scope in scopes.tolist()}
            if sizes - {group.sizes} or any(len(set(s)) < len(s) for s in scopes.tolist()):
                raise ModelError("tables and variables do not fit together")
            groups.append(group)
        if len({number for group in groups for number in group.ids.tolist()}) < sum(
            group.num_factors for group in groups
        ):
            raise ModelError("two of its factors have the same number")
        model = FactorGraph.from_groups(variables, groups)
        if described["is_exact"] and model.content_hash() != described["hash"]:
            raise ModelError("the stored model is not the one its hash was taken of")
        return model
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the stored model is incomplete: {error}") from error


def _variable(name: object, states: object) -> Variable:
    """Make a variable of its name and labels; a mere number of states may claim any memory."""
    is_listed = isinstance(states, list) and all(isinstance(label, str) for label in states)
    if not isinstance(name, str) or not is_listed:
        raise ModelError("a variable is a name and a list of labels")
    return Variable(name, states)  # type: ignore[arg-type]


def _check_group(kind: object, ids: Tensor, scopes: Tensor, values: Tensor) -> None:
    """Refuse tensors that are not those of a group."""
    if kind not in _KINDS:
        raise ModelError(f"there is no kind of factors {kind!r}")
    num_axes = 1 if kind == "spin" else 1 + scopes.shape[-1] if scopes.ndim else 0
    if ids.ndim != 1 or scopes.ndim != 2 or values.ndim != num_axes:
        raise ModelError("its tensors have the wrong number of axes")
    if not len(ids) == len(scopes) == len(values):
        raise ModelError("its groups have numbers, scopes and values of different lengths")
    if ids.dtype != torch.long or scopes.dtype != torch.long:
        raise ModelError("its scopes are not whole numbers")
    if not values.is_floating_point():
        raise ModelError(f"its values are {values.dtype}, not floating")
    if kind == "spin" and scopes.shape[1] not in (1, 2):
        raise ModelError("couplings of spins are over one or two variables")
    if kind == "conditional" and scopes.shape[1] == 0:
        raise ModelError("a conditional table has no variable")
    if not bool((values < torch.inf).all()):
        raise ModelError("its tables hold NaN or infinity")


def _values_of(group: FactorGroup) -> tuple[str, Tensor]:
    if isinstance(group, SpinGroup):
        return "spin", group.strengths
    if isinstance(group, ConditionalTableGroup):
        return "conditional", group.tables
    if isinstance(group, TableGroup):
        return "table", group.tables
    if group.table_size > LARGEST_TABULATED:
        kind = "neural " if isinstance(group, NeuralGroup) else ""
        raise ConversionError(
            f"a {kind}factor over {group.table_size} joint states cannot be stored as a table"
        )
    with torch.no_grad():
        return "table", group.log_tables()
