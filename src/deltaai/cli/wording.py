"""Settings as the command line spells them: errors of the library mention them by name."""

from __future__ import annotations

import shlex

from deltaai.errors import Setting

# Settings with an option of their own; all others are given with --set.
_WITH_OPTION = frozenset(
    {
        "bins",
        "checkpoint",
        "data_dir",
        "device",
        "evidence",
        "held_out",
        "latent",
        "memory",
        "memory_limit",
        "method",
        "metrics",
        "missing",
        "num_samples",
        "objective",
        "of",
        "orders",
        "prior",
        "restart",
        "restarts",
        "resume",
        "samples",
        "seconds",
        "seed",
        "smoothing",
        "start",
        "start_rows",
        "steps",
        "structure",
        "time_limit",
    }
)


def as_option(setting: Setting) -> str:
    """Spell a setting as it is typed.

    >>> as_option(Setting("time_limit")), as_option(Setting("orders", "many"))
    ('--time-limit', '--orders many')
    >>> as_option(Setting("batch_size", 64))
    '--set batch_size=64'
    """
    is_flag = setting.value is None or setting.value is True
    value = "" if is_flag else shlex.quote(str(setting.value))
    if setting.name in _WITH_OPTION:
        option = "--" + setting.name.replace("_", "-")
        return f"{option} {value}" if value else option
    return f"--set {setting.name}={value}" if value else f"--set {setting.name}"
