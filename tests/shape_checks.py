"""Shapes and types of arguments are checked while tests run: the first calls of every function.

A test that trains makes a hundred thousand calls of the same few functions, and checking all of
them took more than half of the time of all tests. So a function that a test has called so many
times goes on without; the next test begins anew. With ``DELTAAI_CHECK_ALL=1`` all calls are
checked, as ``make test-slow`` does.

The import hook of jaxtyping decorates every function with ``jaxtyping.jaxtyped``, in whose place
the tests put :func:`limited`. That one binds the arguments of every call and checks them twice,
before and after; here beartype checks them once. Checks are made when a function is first called:
most functions are not called by most workers, and functions inside functions are made many times.
"""

import dataclasses
import functools
import inspect
import os
import sys
from collections import Counter
from types import FunctionType
from typing import Any

import jaxtyping
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError, config

CHECKS_ALL = os.environ.get("DELTAAI_CHECK_ALL", "0") == "1"
MOST_CALLS = 20
most_checked = sys.maxsize if CHECKS_ALL else MOST_CALLS
calls: Counter[int] = Counter()
jaxtyped = inspect.unwrap(jaxtyping.jaxtyped)  # as it was
sizes = jaxtyped("context")  # one size for each name of an axis, in one call


def begin():
    """Check calls again, from the next one on."""
    calls.clear()
    config.update("jaxtyping_disable", False)


def meaning(annotation, names):
    """What an annotation says; anything if it names what is imported for mypy alone."""
    try:
        return eval(annotation, names) if isinstance(annotation, str) else annotation
    except Exception:
        return Any


def strict(function, typechecker):
    """The function with its checks."""
    names = function.__globals__
    hints = {name: meaning(text, names) for name, text in function.__annotations__.items()}
    has_values = any("{" in str(hint) for hint in hints.values())  # as sizes of axes
    if has_values or inspect.isgeneratorfunction(function):  # which runs when the call is over
        return jaxtyped(function, typechecker=typechecker)
    parts = (function.__name__, function.__defaults__, function.__closure__)
    copy = FunctionType(function.__code__, names, *parts)
    functools.update_wrapper(copy, function, assigned=["__module__", "__qualname__"])
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, hints
    del copy.__wrapped__
    return typechecker(copy)


def limit(function, typechecker):
    """Check arguments and values of a function in its first calls of every test."""
    checked = functools.cache(lambda: strict(function, typechecker))
    number = id(function.__code__)  # the same for all functions that one line makes

    @functools.wraps(function)
    def counted(*arguments, **named):
        if calls[number] >= most_checked or config.jaxtyping_disable:
            return function(*arguments, **named)
        calls[number] += 1
        with sizes:
            try:
                return checked()(*arguments, **named)
            except BeartypeCallHintViolation as error:
                raise TypeCheckError(str(error)) from error

    return counted


@functools.wraps(jaxtyped)
def limited(*, typechecker):
    """What jaxtyping's import hook puts on every function and class."""

    def decorated(made):
        if not inspect.isclass(made):
            return limit(made, typechecker)
        start = made.__init__
        is_plain = inspect.isfunction(start) and start.__globals__ is not globals()
        if dataclasses.is_dataclass(made) and is_plain:
            made.__init__ = limit(start, typechecker)
        return made

    return decorated
