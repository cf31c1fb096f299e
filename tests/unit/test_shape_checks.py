"""Wrong shapes are noticed in tests, up to the number of calls that a test may check."""

from contextlib import nullcontext

import pytest
import torch
from jaxtyping import TypeCheckError

import shape_checks
from deltaai.importance import log_means

WRONG = torch.zeros(2, 2, dtype=torch.float64)
RIGHT = torch.zeros(2, dtype=torch.float64)


def test_a_wrong_shape_is_noticed():
    with pytest.raises(TypeCheckError):
        log_means(WRONG, 1)


def test_after_many_calls_shapes_are_checked_only_if_all_are():
    for _ in range(shape_checks.MOST_CALLS):
        log_means(RIGHT, 1)
    with pytest.raises(TypeCheckError) if shape_checks.CHECKS_ALL else nullcontext():
        log_means(WRONG, 1)
    shape_checks.begin()
    test_a_wrong_shape_is_noticed()
