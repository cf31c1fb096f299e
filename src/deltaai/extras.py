"""Packages that only some users have: imported when needed, one clear line when missing."""

from __future__ import annotations

import importlib
from typing import Any

from deltaai.errors import DeltaAIError


def extra(module: str, name: str, what: str) -> Any:  # noqa: ANN401
    """Import a module that comes with an extra of this package.

    Parameters
    ----------
    module : the module.
    name : the extra that installs it.
    what : what it is needed for, in the plural.

    Examples
    --------
    >>> extra("no_such_module", "tables", "tables")
    Traceback (most recent call last):
    ...
    deltaai.errors.DeltaAIError: tables need no_such_module: pip install 'deltaai[tables]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise DeltaAIError(f"{what} need {package}: pip install 'deltaai[{name}]'") from None
