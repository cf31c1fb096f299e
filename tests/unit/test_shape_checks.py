"""Wrong shapes are noticed in tests, in as many calls of a function as a test may check."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from jaxtyping import Float64, TypeCheckError
from torch import Tensor

import shape_checks
from deltaai.importance import ImportanceEstimate, log_means, pareto_khat

WRONG = torch.zeros(2, 2, dtype=torch.float64)
RIGHT = torch.zeros(2, dtype=torch.float64)


def checked(function):
    """As the import hook does it."""
    from beartype import beartype

    return shape_checks.limited(typechecker=beartype)(function)


def test_a_wrong_shape_is_noticed():
    with pytest.raises(TypeCheckError):
        log_means(WRONG, 1)


def test_after_many_calls_of_a_function_it_is_checked_only_if_all_are():
    for _ in range(shape_checks.MOST_CALLS):
        log_means(RIGHT, 1)
    with pytest.raises(TypeCheckError) if shape_checks.CHECKS_ALL else nullcontext():
        log_means(WRONG, 1)
    with pytest.raises(TypeCheckError):  # others are still
        pareto_khat("weights")
    shape_checks.begin()
    test_a_wrong_shape_is_noticed()


def test_fields_of_classes_are_checked():
    with pytest.raises(TypeCheckError):
        ImportanceEstimate(*[0.0] * 7, num_samples="many")


def test_what_is_returned_and_axes_of_one_name_are_checked():
    @checked
    def first(one: Float64[Tensor, "row"], other: "Float64[Tensor, 'row']") -> "NotImported":
        return one[: len(other)]

    @checked
    def halved(one: Float64[Tensor, "row"]) -> Float64[Tensor, "row"]:
        return one[: len(one) // 2]

    @checked
    def repeated(count: int) -> Float64[Tensor, "{count}"]:
        return RIGHT

    @checked
    def parts(one: Float64[Tensor, "row"]) -> "Iterator[Tensor]":
        yield from one

    assert first(RIGHT, RIGHT) is not None
    with pytest.raises(TypeCheckError):  # at once
        parts(WRONG)
    assert repeated(2) is RIGHT
    with pytest.raises(TypeCheckError):
        repeated(3)
    with pytest.raises(TypeCheckError):
        first(RIGHT, RIGHT[:1])
    with pytest.raises(TypeCheckError):
        halved(RIGHT)
