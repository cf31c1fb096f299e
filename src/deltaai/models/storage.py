"""A model as tensors and JSON values, for files that must run no code when they are read.

Neural factors are networks, which such a file cannot hold: those over few joint states are stored
as the tables they are evaluated by, the others are refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deltaai.errors import ConversionError, ModelError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import FactorGroup
from deltaai.models.neural_group import LARGEST_TABULATED
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.variable import Variable

_KINDS: dict[str, type[TableGroup] | type[SpinGroup]] = {
    "table": TableGroup,
    "conditional": ConditionalTableGroup,
    "spin": SpinGroup,
}


def model_to_tensors(model: FactorGraph) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take a model apart; :func:`model_from_tensors` puts it together again."""
    tensors: dict[str, Tensor] = {}
    kinds = []
    for number, group in enumerate(model.groups):
        kind, values = _values_of(group)
        kinds.append(kind)
        tensors[f"{number}.ids"] = group.ids
        tensors[f"{number}.scopes"] = group.scopes
        tensors[f"{number}.values"] = values.detach()
    names = [[variable.name, list(variable.states)] for variable in model.variables]
    is_exact = all(isinstance(group, TableGroup | SpinGroup) for group in model.groups)
    described = {"variables": names, "groups": kinds, "hash": model.content_hash()}
    return tensors, described | {"is_exact": is_exact}


def model_from_tensors(tensors: dict[str, Tensor], described: dict[str, Any]) -> FactorGraph:
    """Build the model that :func:`model_to_tensors` took apart."""
    try:
        variables = [Variable(name, states) for name, states in described["variables"]]
        groups: list[FactorGroup] = []
        for number, kind in enumerate(described["groups"]):
            ids, scopes = tensors[f"{number}.ids"], tensors[f"{number}.scopes"]
            values = tensors[f"{number}.values"]
            if scopes.numel() and not 0 <= int(scopes.min()) <= int(scopes.max()) < len(variables):
                raise ModelError("a scope names a variable that is not there")
            group = _KINDS[kind](ids, scopes, values)
            sizes = {tuple(variables[v].num_states for v in scope) for scope in scopes.tolist()}
            if sizes - {group.sizes} or len(ids) != len(scopes) or len(values) != len(ids):
                raise ModelError("tables and variables do not fit together")
            groups.append(group)
        model = FactorGraph.from_groups(variables, groups)
        if described["is_exact"] and model.content_hash() != described["hash"]:
            raise ModelError("the stored model is not the one its hash was taken of")
        return model
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelError(f"the stored model is incomplete: {error}") from error


def _values_of(group: FactorGroup) -> tuple[str, Tensor]:
    if isinstance(group, SpinGroup):
        return "spin", group.strengths
    if isinstance(group, ConditionalTableGroup):
        return "conditional", group.tables
    if isinstance(group, TableGroup):
        return "table", group.tables
    if group.table_size > LARGEST_TABULATED:
        raise ConversionError(
            f"a neural factor over {group.table_size} joint states cannot be stored as a table"
        )
    with torch.no_grad():
        return "table", group.log_tables()
