"""A second device where there is but one: tensors on it are ordinary ones that say otherwise.

Inside :func:`pretend_device` torch's unused device ``"lazy"`` works. Its tensors refuse what those
of a graphics card refuse: to meet tensors of the CPU in one operation, to be seen by numpy, and to
be filled by a generator of the CPU. So code that runs here keeps its devices apart.
"""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

NAME = "lazy"
# A card copies, and takes indices of the CPU.
_MAY_MIX = {"index", "index_put", "index_put_", "_index_put_impl_", "copy_", "_to_copy"}


class Elsewhere(torch.Tensor):
    """A tensor on the pretended device, around one on the CPU."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.inner = inner
        return made

    def as_subclass(self, cls):
        return self.inner.as_subclass(cls)  # nothing is of two such classes at once

    def tolist(self):
        return self.inner.tolist()

    def __repr__(self):
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _is_there(device):
    return torch.device(device).type == NAME


def _run(func, args, kwargs):
    given, _ = tree_flatten((args, kwargs))
    name, device = func._schema.name.split("::")[1], kwargs.get("device")
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    comes_from_there = any(isinstance(value, Elsewhere) for value in tensors)
    goes_there = comes_from_there if device is None else _is_there(device)
    if not comes_from_there and not goes_there:
        return func(*args, **kwargs)
    is_mixed = any(not isinstance(value, Elsewhere) and value.ndim for value in tensors)
    if comes_from_there and is_mixed and name not in _MAY_MIX:
        raise RuntimeError(f"{func}: its tensors are on two devices")
    if goes_there and any(isinstance(value, torch.Generator) for value in given):
        raise RuntimeError(f"{func}: its generator is on the CPU")
    here = {key: value if key != "device" else "cpu" for key, value in kwargs.items()}
    inner_args, inner_kwargs = tree_map(
        lambda value: value.inner if isinstance(value, Elsewhere) else value, (args, here)
    )
    found = func(*inner_args, **inner_kwargs)
    if not goes_there:
        return found.clone() if any(found is value for value in inner_args) else found
    found = tree_map(
        lambda value: Elsewhere(value) if isinstance(value, torch.Tensor) else value, found
    )
    return return_and_correct_aliasing(func, args, kwargs, found) if comes_from_there else found


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Python(TorchFunctionMode):
    """What torch does before it looks for a device: tensors of lists, and lists as indices."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor):
            device = kwargs.pop("device", None)
            made = func(*args, **kwargs)
            return made if device is None else made.to(device)
        is_index = func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
        if is_index and isinstance(args[0], Elsewhere):
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            places = tuple(
                torch.tensor(place, dtype=torch.long) if isinstance(place, list | tuple) else place
                for place in places
            )
            args = (args[0], places, *args[2:])
        return func(*args, **kwargs)


@contextmanager
def pretend_device():
    """Make the device ``"lazy"`` work; give its name."""
    with _Operations(), _Python():
        yield NAME
