"""Torch's optimizers, without the compiler of torch that nobody asks for here.

Each call of a plain optimizer tells that compiler to keep away, and so imports it: more than a
second of every process that trains. These are the same methods without the notice.

>>> import torch
>>> place = torch.nn.Parameter(torch.ones(1))
>>> optimizer = Adam([place], lr=0.1)
>>> (place**2).sum().backward()
>>> optimizer.step()
>>> round(place.item(), 3)
0.9
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch


class _WithoutCompiler:
    """Goes before a class of optimizers."""

    add_param_group: Any = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad: Any = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict: Any = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict: Any = unwrap(torch.optim.Optimizer.load_state_dict)


class Optimizer(_WithoutCompiler, torch.optim.Optimizer):
    """What an optimizer of our own is made from."""


class Adam(_WithoutCompiler, torch.optim.Adam):
    """Adaptive moments."""

    step: Any = torch.no_grad()(unwrap(torch.optim.Adam.step))


class LBFGS(_WithoutCompiler, torch.optim.LBFGS):
    """Quasi-Newton steps."""
