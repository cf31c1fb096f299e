"""A model as tensors and JSON values, for files that must run no code when they are read.

Neural factors are networks, which such a file cannot hold, and factors of kinds that a user has
registered are code: those over few joint states are stored as tables, the others are refused. So
are functions, and networks over real variables, which have no tables. Quadratic factors and
mixtures of them are numbers, and are stored as they are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from deltaai.errors import ConversionError, ModelError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import FactorGroup
from deltaai.models.interval import Interval
from deltaai.models.neural_group import LARGEST_TABULATED, NeuralGroup
from deltaai.models.quadratic_group import MixtureGroup, QuadraticGroup
from deltaai.models.quadratic_storage import QUADRATIC_KINDS, quadratic_values, stored_quadratic
from deltaai.models.spin_group import SpinGroup
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.variable import Variable, coordinate

_AS_THEY_ARE = TableGroup | SpinGroup | QuadraticGroup | MixtureGroup  # others become tables
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
        kind, values = _values_of(group, model)
        kinds.append(kind)
        tensors[f"{number}.ids"] = group.ids.cpu()
        tensors[f"{number}.scopes"] = group.scopes.cpu()
        for name, value in values.items():
            tensors[f"{number}.{name}"] = value.detach().cpu().contiguous()
    names = [[variable.name, _described(variable)] for variable in model.variables]
    is_exact = all(isinstance(group, _AS_THEY_ARE) for group in model.groups)
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
            is_quadratic = kind in QUADRATIC_KINDS
            if not is_quadratic:
                _check_group(kind, ids, scopes, values)
            _check_scopes(ids, scopes, len(variables))
            if is_quadratic:
                sizes_there = tuple(variables[v].num_states for v in scopes[0].tolist())
                parts = values, tensors[f"{number}.shift"], tensors[f"{number}.constant"]
                groups.append(stored_quadratic(kind, ids, scopes, sizes_there, parts))
            else:
                groups.append(_KINDS[kind](ids, scopes, values))
            group = groups[-1]
            sizes = {tuple(variables[v].num_states for v in scope) for scope in scopes.tolist()}
            if sizes - {group.sizes} or any(len(set(s)) < len(s) for s in scopes.tolist()):
                raise ModelError("tables and variables do not fit together")
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


def _described(variable: Variable) -> list[str] | dict[str, Any]:
    """What a file says of a variable: its labels, or its support and the vector it belongs to."""
    if variable.support is None:
        return list(variable.states)
    ends = {"low": variable.support.low, "high": variable.support.high}
    finite = {name: end for name, end in ends.items() if math.isfinite(end)}
    return {"support": finite, "node": variable.node}


def _variable(name: object, states: object) -> Variable:
    """Make a variable of its name and labels; a mere number of states may claim any memory."""
    if isinstance(name, str) and isinstance(states, dict):
        node = states["node"]
        if not isinstance(node, str) or not node:
            raise ModelError("a real variable belongs to a vector without a name")
        return coordinate(Variable(name, support=Interval(**states["support"])), node)
    is_listed = isinstance(states, list) and all(isinstance(label, str) for label in states)
    if not isinstance(name, str) or not is_listed:
        raise ModelError("a variable is a name and a list of labels")
    return Variable(name, states)  # type: ignore[arg-type]


def _check_scopes(ids: Tensor, scopes: Tensor, num_variables: int) -> None:
    """Refuse scopes of variables that are not there."""
    if ids.ndim != 1 or scopes.ndim != 2 or len(ids) != len(scopes):
        raise ModelError("its tensors have the wrong number of axes")
    if ids.dtype != torch.long or scopes.dtype != torch.long:
        raise ModelError("its scopes are not whole numbers")
    if scopes.numel() and not 0 <= int(scopes.min()) <= int(scopes.max()) < num_variables:
        raise ModelError("a scope names a variable that is not there")


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


def _values_of(group: FactorGroup, model: FactorGraph) -> tuple[str, dict[str, Tensor]]:
    """The kind of a group, and its tensors by name."""
    if isinstance(group, SpinGroup):
        return "spin", {"values": group.strengths}
    if isinstance(group, ConditionalTableGroup):
        return "conditional", {"values": group.tables}
    if isinstance(group, TableGroup):
        return "table", {"values": group.tables}
    if isinstance(group, QuadraticGroup | MixtureGroup):
        return quadratic_values(group)
    if not group.has_tables:
        scope = ", ".join(model.variables[v].name for v in group.scopes[0].tolist())
        kind = "a network" if isinstance(group, NeuralGroup) else "a function"
        raise ConversionError(
            f"the factor over ({scope}) is {kind} of real variables, which is code, and a file "
            "holds numbers only: keep the Python that makes the model"
        )
    if group.table_size > LARGEST_TABULATED:
        kind = "neural " if isinstance(group, NeuralGroup) else ""
        raise ConversionError(
            f"a {kind}factor over {group.table_size} joint states cannot be stored as a table"
        )
    with torch.no_grad():
        return "table", {"values": group.log_tables()}
