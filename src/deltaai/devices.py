"""Where tensors are: the device that a user names, checked in one place.

Networks are trained, drawn from and evaluated on the device that was asked for, and p is scored
there. Exact tables, messages, chains and the judgement of samples are computed on the CPU: they are
small steps one after the other, which no other device takes faster.
"""

from __future__ import annotations

import warnings

import torch

from deltaai.errors import ConfigError, Setting, one_line, shown

Device = torch.device | str | None  # what a public function takes
CPU = torch.device("cpu")


def checked_device(device: Device) -> torch.device | None:
    """A device that is there and holds values; or none, if none was named.

    >>> checked_device("cpu")
    device(type='cpu')
    >>> checked_device("meta")
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: device is 'meta': its tensors hold no values; 'cpu' is always there
    """
    if device is None:
        return None
    reason = "a name such as 'cpu' or 'cuda' is needed"
    if isinstance(device, str | torch.device):
        try:
            with warnings.catch_warnings(action="ignore"):  # about names that are going out of use
                found = torch.empty(0, dtype=torch.float64, device=device).device
        except (RuntimeError, AssertionError, ImportError) as error:  # torch has them all
            # What follows the first sentence is for those who build torch.
            reason = one_line(error, longest=400).partition(". ")[0]
        else:
            if found.type != "meta":
                return found
            reason = "its tensors hold no values"
    raise ConfigError(Setting("device"), f" is {shown(device)}: {reason}; 'cpu' is always there")
