"""A folder that is also a function: ``deltaai.exact(model)`` and ``import deltaai.exact`` agree.

Python makes every folder that is imported an attribute of the one above it, so one name cannot be
a function there and a folder in ``import deltaai.exact.inference``. It is one thing instead, that
can be called. Nothing is inferred here.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from deltaai.exact.gaussian.inference import GaussianInference
from deltaai.exact.inference import ExactInference, exact


class CallableFolder(ModuleType):
    """The type of the module ``deltaai.exact``; to call it is to call :func:`exact`."""

    def __call__(self, *arguments: Any, **named: Any) -> ExactInference | GaussianInference:  # noqa: ANN401
        """Prepare exact inference; see :func:`exact`."""
        return exact(*arguments, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(exact)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return importlib.import_module, (self.__name__,)  # so that it crosses processes
