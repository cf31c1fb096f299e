"""Neural factors: modules of one architecture, evaluated together.

The parameters of the modules are stacked and the architecture is mapped over the stack
(``torch.func``), so a thousand small networks cost a few batched products. Factors over few joint
states are evaluated once at each of them and then read as tables; the tables are rebuilt whenever
a parameter has changed, and at every call while gradients are recorded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.func import functional_call, vmap

from deltaai.errors import ModelError
from deltaai.models.clamped_group import UnslicedGroup
from deltaai.models.encoding import encode_states, num_features
from deltaai.models.factors import Factor, NeuralFactor
from deltaai.models.groups import Columns, joint_states, moved
from deltaai.models.module_settings import describe_module
from deltaai.models.table_group import look_up, slices_of, strides_of
from deltaai.models.variable import Variable
from deltaai.threads import Turn

# Below this many joint states a factor is read from its table.
LARGEST_TABULATED = 4096


def encoded_width(sizes: Sequence[int]) -> int:
    """Length of the encoding of a scope."""
    return sum(map(num_features, sizes))


def network_inputs(
    values: Num[Tensor, "arity *shape"], sizes: Sequence[int], dtype: torch.dtype
) -> Float[Tensor, "*shape width"]:
    """Encode the states of a scope, one place after the other."""
    parts = [
        encode_states(value, size, dtype, dim=-1) for value, size in zip(values, sizes, strict=True)
    ]
    return torch.cat(parts, dim=-1)


def encode_with_missing(sizes: Sequence[int], dtype: torch.dtype) -> Float[Tensor, "joint width"]:
    """Encode all joint states of a scope whose variables may also be missing: zero throughout."""
    more = joint_states([size + 1 for size in sizes])
    parts = []
    for value, size in zip(more.T, sizes, strict=True):
        states = torch.arange(size, dtype=torch.long, device="cpu")
        features = encode_states(states, size, dtype, dim=-1)
        with_zero = torch.cat((features, torch.zeros_like(features[:1])))
        parts.append(with_zero[value])
    return torch.cat(parts, dim=1)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, those that are not saved included."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    if len({id(value) for value in parameters.values()}) != len(parameters):
        raise ModelError(
            "a neural factor's module has tied parameters, which would come apart: use each "
            "parameter in one place"
        )
    return parameters | dict(module.named_buffers(remove_duplicate=False))


@dataclass(frozen=True, eq=False)
class NeuralGroup(UnslicedGroup):
    """Neural factors of one architecture and shape.

    Parameters
    ----------
    state_sizes : number of states at each place of the scope.
    network_of : which parameter set each factor uses (several may share one).
    skeleton : the module whose forward pass is mapped over the parameter sets.
    stacked : parameters and buffers by name, one leading axis over parameter sets.
    """

    state_sizes: tuple[int, ...]
    network_of: Int[Tensor, "factor"]
    skeleton: nn.Module
    stacked: dict[str, Tensor]
    value_dtype: torch.dtype = torch.float64
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)
    # At the skeleton: parameters are put into it while it runs, whichever group asks.
    _turn: Turn = field(default_factory=Turn, repr=False)

    @classmethod
    def build(
        cls,
        ids: Int[Tensor, "factor"],
        scopes: Int[Tensor, "factor arity"],
        sizes: tuple[int, ...],
        modules: Sequence[nn.Module],
        dtype: torch.dtype,
    ) -> NeuralGroup:
        """Stack modules of one architecture; the same object twice is stored once."""
        distinct = {id(module): module for module in modules}
        number = {key: position for position, key in enumerate(distinct)}
        first = modules[0]
        stacked: dict[str, Tensor] = {}
        tensors = [tensors_of(module) for module in distinct.values()]
        for name in tensors[0]:
            copies = [named[name] for named in tensors]
            together = torch.stack([value.detach() for value in copies])
            if together.is_floating_point():
                together = together.to(dtype)
            stacked[name] = together.requires_grad_(any(value.requires_grad for value in copies))
        network_of = torch.tensor(
            [number[id(module)] for module in modules], dtype=torch.long, device="cpu"
        )
        if not stacked:
            network_of = torch.zeros_like(network_of)  # one architecture and no values: one network
        skeleton = copy.deepcopy(first).to("meta").eval()
        group = cls(ids, scopes, sizes, network_of, skeleton, stacked, dtype)
        group._check_output()
        return group

    def _check_output(self) -> None:
        width = encoded_width(self.state_sizes)
        probe = torch.zeros(1, width, dtype=self.dtype, device=self.scopes.device)
        first = {name: value[0].detach() for name, value in self.stacked.items()}
        try:
            output = functional_call(self.skeleton, first, (probe,))
        except Exception as error:
            raise ModelError(
                f"a neural factor's module must take inputs of width {width} (its encoded "
                f"scope), but failed: {error}"
            ) from error
        if not isinstance(output, Tensor) or tuple(output.shape) not in {(1,), (1, 1)}:
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ModelError(
                f"a neural factor's module must map (batch, {width}) to (batch,) or (batch, 1), "
                f"not to {shape} for a batch of one"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope."""
        return self.state_sizes

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.value_dtype

    def log_values_encoded(
        self, network: Int[Tensor, "some"], features: Float[Tensor, "some batch width"]
    ) -> Float[Tensor, "some batch"]:
        """Apply chosen parameter sets to encoded scopes, which need not be valid states."""
        everything = torch.equal(network, torch.arange(self._num_networks, device=network.device))
        chosen = {
            name: value if everything else value.index_select(0, network)
            for name, value in self.stacked.items()
        }

        def one(parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
            output: Tensor = functional_call(self.skeleton, parameters, (inputs,))
            return output.reshape(inputs.shape[:-1]).to(self.dtype)

        with self._turn:
            mapped: Tensor = vmap(one)(chosen, features)
        return mapped

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        network = self.network_of[factor]
        if self._is_tabulated:
            index = network * self.table_size
            for value, stride in zip(values, strides_of(self.sizes), strict=True):
                index = index + value.long() * stride
            return self._network_tables().flatten().index_select(0, index)
        features = network_inputs(values, self.sizes, self.dtype)
        return self.log_values_encoded(network, features[:, None, :]).squeeze(1)

    def log_slices_at(
        self, factor: Int[Tensor, "some"], values: Num[Tensor, "arity some batch"], place: int
    ) -> Float[Tensor, "some state batch"]:
        """Evaluate chosen factors with one place of their scope set to each value."""
        if self._is_tabulated:
            return slices_of(self._network_tables(), self.network_of[factor], values, place)
        return super().log_slices_at(factor, values, place)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        if self._is_tabulated:
            tables = self._network_tables().index_select(0, self.network_of)
            return look_up(tables, self.scopes, columns)
        features = network_inputs(self.scope_values(columns), self.sizes, self.dtype)
        return self.log_values_encoded(self.network_of, features)

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        if self._is_tabulated:
            return super().log_changes(columns, others, place)
        values = self.scope_values(columns)
        moved = values.clone()
        moved[place] = others.index_select(0, self.scopes[:, place])
        features = network_inputs(torch.cat((values, moved), dim=2), self.sizes, self.dtype)
        before, after = self.log_values_encoded(self.network_of, features).chunk(2, dim=1)
        return after - before

    def log_tables(self) -> Float[Tensor, "factor *states"]:
        """Evaluate every factor at each of its joint states."""
        self.refuse_real()
        return self._network_tables().index_select(0, self.network_of)

    def log_tables_with_missing(self) -> Float[Tensor, "factor *states_and_missing"]:
        """Evaluate every factor with zeros in the place of missing variables."""
        self.refuse_real()
        features = encode_with_missing(self.sizes, self.dtype).to(self.scopes.device)
        networks = torch.arange(self._num_networks, device=self.scopes.device)
        sizes = [size + 1 for size in self.sizes]
        tables = self.log_values_encoded(
            networks, features.expand(self._num_networks, *features.shape)
        ).reshape(self._num_networks, *sizes)
        return tables.index_select(0, self.network_of)

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, each with its own copy of the current parameters."""
        networks = []
        for position in range(self._num_networks):
            with self._turn:
                module = copy.deepcopy(self.skeleton).to_empty(device=self.scopes.device)
            module = module.to(self.dtype)
            with torch.no_grad():
                for name, value in tensors_of(module).items():
                    value.copy_(self.stacked[name][position])
            networks.append(module)
        return [
            NeuralFactor([variables[v].name for v in scope], networks[network])
            for scope, network in zip(self.scopes.tolist(), self.network_of.tolist(), strict=True)
        ]

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> NeuralGroup:
        """Return the group on another device or in another floating type."""
        group = super().to(device, dtype)
        stacked = {name: moved(value, device, dtype) for name, value in self.stacked.items()}
        return replace(group, stacked=stacked, value_dtype=dtype or self.value_dtype, _cache={})

    def parameters(self) -> Iterator[Tensor]:
        """Yield the stacked parameters that a learner may change."""
        yield from (value for value in self.stacked.values() if value.requires_grad)

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from super().content()
        yield from self.stacked.items()
        with self._turn:
            described = describe_module(self.skeleton)
        yield described, torch.tensor(self.state_sizes, dtype=torch.long, device="cpu")

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor that the values depend on, as it is."""
        yield from super().tensors()
        yield from self.stacked.values()

    @property
    def _num_networks(self) -> int:
        return next((value.shape[0] for value in self.stacked.values()), 1)

    @property
    def _is_tabulated(self) -> bool:
        return self.has_tables and math.prod(self.sizes) <= LARGEST_TABULATED

    def _network_tables(self) -> Float[Tensor, "network *states"]:
        """Each parameter set at each joint state; kept while no parameter changes."""
        # Only constants are kept: not every optimizer counts its step as a new version.
        is_constant = not any(True for _ in self.parameters())
        versions = tuple(None if v.is_inference() else v._version for v in self.stacked.values())
        if not is_constant:
            self._cache.clear()
        elif (kept := self._cache.get("tables")) is not None and kept[0] == versions:
            found: Tensor = kept[1]
            return found
        device = self.scopes.device
        features = network_inputs(joint_states(self.sizes, device).T, self.sizes, self.dtype)
        networks = torch.arange(self._num_networks, device=device)
        tables = self.log_values_encoded(
            networks, features.expand(self._num_networks, *features.shape)
        ).reshape(self._num_networks, *self.sizes)
        if is_constant:
            self._cache["tables"] = (versions, tables)  # at once, for other threads look too
        return tables
