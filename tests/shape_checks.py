"""Shapes and types of arguments are checked while tests run: the first calls of every test.

A test that trains makes a hundred thousand calls of the same few functions, and checking all of
them took more than half of the time of all tests. So after so many checked calls a test goes on
without; the next one begins anew. With ``DELTAAI_CHECK_ALL=1`` all calls are checked, as
``make test-slow`` does.
"""

import functools
import os

from beartype import beartype
from jaxtyping import config

MOST_CALLS = 2000
CHECKS_ALL = os.environ.get("DELTAAI_CHECK_ALL", "0") == "1"
left = {"calls": MOST_CALLS}


def begin():
    """Check calls again, from the next one on."""
    left["calls"] = MOST_CALLS
    config.update("jaxtyping_disable", False)


def limited(function):
    """Check the types of a function's arguments, and count."""
    if CHECKS_ALL:
        return beartype(function)
    # Made when it is first called: most functions of the library are not called by most workers.
    strict = functools.cache(lambda: beartype(function))

    @functools.wraps(function)
    def counted(*arguments, **named):
        left["calls"] -= 1
        if left["calls"] <= 0:
            config.update("jaxtyping_disable", True)
        return strict()(*arguments, **named)

    return counted
