"""What a module's outputs depend on besides its parameters: layers and their plain attributes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

_INTERNAL = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def module_key(module: nn.Module) -> Hashable:
    """Key that two modules share only if they differ in nothing but parameters and buffers.

    An attribute that cannot be compared by value is compared by identity: modules are then kept
    apart, which costs time and never a wrong number.
    """
    tensors = [*module.named_parameters(), *module.named_buffers()]
    shapes = tuple((name, tuple(value.shape), str(value.dtype)) for name, value in tensors)
    return (_layers(module, id), shapes)


def describe_module(module: nn.Module) -> str:
    """Description that stays the same from run to run, for hashing."""
    return repr(_layers(module, _type_name))


def _layers(module: nn.Module, otherwise: Callable[[object], Hashable]) -> Hashable:
    return tuple(
        (
            name,
            f"{type(layer).__module__}.{type(layer).__qualname__}",
            layer.extra_repr(),
            tuple(
                (key, _setting(value, otherwise))
                for key, value in sorted(vars(layer).items())
                if key not in _INTERNAL
            ),
            tuple(otherwise(hook) for hooks in _HOOKS for hook in getattr(layer, hooks).values()),
        )
        for name, layer in module.named_modules()
    )


def _setting(value: object, otherwise: Callable[[object], Hashable]) -> Hashable:
    if isinstance(value, Tensor):
        return (str(value.dtype), tuple(value.shape), repr(value.detach().tolist()))
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple | list):
        return tuple(_setting(item, otherwise) for item in value)
    return otherwise(value)


def _type_name(value: object) -> str:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', None)}.{name}"
