"""Nested state as flat tensors and JSON, and back bit for bit.

What an optimizer or a random generator keeps is nested and mixed; a file of tensors is flat. This
takes the one apart into the other. It writes no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deltaai.errors import DeltaAIError, FormatError

_LARGEST_PLAIN_NUMBER = 2**53  # beyond it, readers of JSON other than Python's lose digits


def pack_state(state: object, name: str = "state") -> tuple[dict[str, Tensor], Any]:
    """Take nested state apart into named tensors and JSON.

    State is made of dictionaries (with keys of any such kind), lists, tuples, tensors, numpy
    arrays, numbers, text and ``None``: what ``optimizer.state_dict()``, ``generator.get_state()``
    of torch and ``generator.bit_generator.state`` of numpy give. Tensors are shared, not copied.

    Parameters
    ----------
    state : what to pack.
    name : what the names of its tensors begin with.

    Examples
    --------
    >>> tensors, packed = pack_state({"moment": torch.zeros(2), "step": 3})
    >>> sorted(tensors), unpack_state(tensors, packed)["step"]
    (['state/moment'], 3)
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _pack(state, name, tensors)


def unpack_state(tensors: Mapping[str, Tensor], packed: Any) -> Any:  # noqa: ANN401
    """Put together what :func:`pack_state` took apart.

    Raises
    ------
    FormatError
        When it is no packed state, or one of its tensors is missing.
    """
    try:
        return _unpack(packed, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError("<packed state>", None, f"cannot be unpacked: {error!r}") from None


def _pack(state: object, name: str, tensors: dict[str, Tensor]) -> Any:  # noqa: ANN401
    """JSON of a state; what JSON cannot say is an object with one entry, which says the type."""
    match state:
        case None | bool() | str():
            return state
        case int() | float():
            is_plain = abs(state) <= _LARGEST_PLAIN_NUMBER
            return state if is_plain else {"int" if isinstance(state, int) else "float": str(state)}
        case list() | tuple():
            items = [_pack(value, f"{name}/{place}", tensors) for place, value in enumerate(state)]
            return items if isinstance(state, list) else {"tuple": items}
        case Mapping():
            pairs = [
                [_pack(key, name, tensors), _pack(value, f"{name}/{key}", tensors)]
                for key, value in state.items()
            ]
            return {"dict": pairs}
        case Tensor():
            return {"tensor": _keep(state.detach(), name, tensors)}
        case np.ndarray() if state.dtype.kind in "biuf":
            return {"array": _keep(torch.from_numpy(state.copy()), name, tensors)}
    raise DeltaAIError(f"{name} is a {type(state).__name__}, which cannot be packed")


def _keep(tensor: Tensor, name: str, tensors: dict[str, Tensor]) -> str:
    while name in tensors:  # keys such as 1 and "1" have the same name
        name += "'"
    tensors[name] = tensor
    return name


def _unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401
    if isinstance(packed, list):
        return [_unpack(value, tensors) for value in packed]
    if not isinstance(packed, dict):
        return packed
    ((mark, content),) = packed.items()
    match mark:
        case "int" | "float":
            return {"int": int, "float": float}[mark](content)
        case "tuple":
            return tuple(_unpack(content, tensors))
        case "dict":
            return {_unpack(key, tensors): _unpack(value, tensors) for key, value in content}
        case "tensor" | "array":
            return tensors[content] if mark == "tensor" else tensors[content].numpy()
    raise ValueError(f"unknown mark {mark!r}")
