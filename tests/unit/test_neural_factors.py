"""Neural factors: what makes two of them the same, and scopes too large for a table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from deltaai.errors import ModelError
from deltaai.models import FactorGraph, NeuralFactor, Variable
from deltaai.models.neural_group import LARGEST_TABULATED
from factor_graphs import Scaled, all_states, assert_close, network, normal, wide_model


def pair_model(modules: Sequence[nn.Module]) -> FactorGraph:
    scopes = [("a", "b"), ("b", "c"), ("c", "a")]
    return FactorGraph(
        [Variable(name) for name in "abc"],
        [NeuralFactor(scope, module) for scope, module in zip(scopes, modules, strict=True)],
    )


def test_a_shared_module_is_stored_once_and_scores_like_copies() -> None:
    shared = pair_model([network(2, seed=1)] * 3)
    separate = pair_model([network(2, seed=1) for _ in range(3)])
    x = all_states(shared)
    assert_close(shared.log_score(x), separate.log_score(x))
    assert_close(shared.log_ratios(x), separate.log_ratios(x))
    assert [len(parameter) for parameter in shared.parameters()] == [1] * 4
    assert [len(parameter) for parameter in separate.parameters()] == [3] * 4
    shared.log_score(x).square().sum().backward()
    separate.log_score(x).square().sum().backward()
    for one, three in zip(shared.parameters(), separate.parameters(), strict=True):
        assert one.grad is not None
        assert three.grad is not None
        assert_close(one.grad[0], three.grad.sum(0))


class PrivatelyScaled(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self._gain = gain
        self.base = network(2, seed=1)

    def forward(self, features: Tensor) -> Tensor:
        return self._gain * self.base(features)[..., 0]


class WeightedSum(nn.Module):
    """A module whose weights are a plain attribute, neither parameter nor buffer."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, features: Tensor) -> Tensor:
        return features @ self.weights


def assert_scores_like_the_modules(modules: Sequence[nn.Module]) -> None:
    model = pair_model(modules)
    x = all_states(model)
    spins = 2.0 * x.double() - 1.0
    scopes = [[0, 1], [1, 2], [2, 0]]
    expected = sum(
        module(spins[:, scope]).reshape(-1) for scope, module in zip(scopes, modules, strict=True)
    )
    assert_close(model.log_score(x), expected)


def test_modules_that_differ_in_a_setting_are_kept_apart() -> None:
    assert_scores_like_the_modules([Scaled(gain, network(2, seed=1)) for gain in (1.0, 2.0, 3.0)])


def test_modules_that_differ_in_a_private_setting_are_kept_apart() -> None:
    # name begins with an underscore, so the first module's setting is used for all.
    assert_scores_like_the_modules([PrivatelyScaled(gain) for gain in (1.0, 2.0, 3.0)])


def test_modules_that_differ_in_the_digits_of_a_plain_tensor_are_kept_apart() -> None:
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert_scores_like_the_modules([WeightedSum(weights + step * 1e-6) for step in range(3)])


def test_modules_without_parameters() -> None:
    assert_scores_like_the_modules([Scaled(2.0) for _ in range(3)])


def test_a_module_without_parameters_in_single_precision() -> None:
    module = Scaled(2.0)
    model = FactorGraph(
        [Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)], dtype=torch.float32
    )
    x = all_states(model)
    assert model.log_score(x).dtype == torch.float32
    assert model.log_ratios(x).dtype == torch.float32
    assert model.condition({"a": 1}).log_score(x[:2, 1:]).dtype == torch.float32


def test_a_module_in_training_mode_is_evaluated_and_left_as_it_is() -> None:
    module = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.9), nn.Linear(4, 1)).double().train()
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    x = all_states(model)
    assert_close(model.log_score(x), model.log_score(x))
    assert module.training
    module.eval()
    assert_close(model.log_score(x), module(2.0 * x.double() - 1.0)[:, 0])


def test_buffers_are_part_of_the_factor() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double().eval()
    module[1].running_mean.copy_(normal(3, seed=1))
    module[1].running_var.copy_(normal(3, seed=2).square() + 0.1)
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    x = all_states(model)
    assert_close(model.log_score(x), module(2.0 * x.double() - 1.0)[:, 0])


def test_a_buffer_that_is_not_saved_is_part_of_the_factor() -> None:
    class Gained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            gain = torch.tensor([1.0, 3.0], dtype=torch.float64)
            self.register_buffer("gain", gain, persistent=False)

        def forward(self, features: Tensor) -> Tensor:
            return features @ self.gain

    assert_scores_like_the_modules([Gained()] * 3)


@pytest.mark.parametrize("is_one_layer", [True, False])
def test_tied_parameters_stay_tied_or_are_refused(is_one_layer: bool) -> None:
    # one weight are taken, and learning would give them two.
    first, second = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    second = first if is_one_layer else second
    second.weight = first.weight
    module = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(2, 1).double())
    try:
        model = pair_model([module] * 3)
    except ModelError:
        with pytest.raises(ModelError, match="has tied parameters"):
            pair_model([module] * 3)
        return
    assert_scores_like_the_modules([module] * 3)
    assert len(list(model.parameters())) == len(list(module.parameters()))


def test_a_scope_too_large_for_a_table_is_evaluated_directly() -> None:
    num_variables = 13
    assert 2**num_variables > LARGEST_TABULATED
    model, module = wide_model(num_variables)
    other = model.factors[1].module
    x = torch.randint(2, (20, num_variables + 1), generator=torch.Generator().manual_seed(0))
    s = 2.0 * x.double() - 1.0
    expected = module(s[:, :-1]) + other(s[:, 1:]) + module(s[:, 1:].flip(1))
    assert_close(model.log_score(x), expected[:, 0])
    assert not model.groups[0]._cache  # no table was made on the way

    variable = torch.arange(20) % (num_variables + 1)
    changed = x.clone()
    changed[torch.arange(20), variable] ^= 1
    difference = model.log_score(changed) - model.log_score(x)
    value = changed[torch.arange(20), variable]
    assert_close(model.log_ratio(x, variable, value), difference)
    flipped = model.log_ratios(x)[torch.arange(20), model.state_offsets[variable] + value]
    assert_close(flipped, difference)


def test_a_large_scope_with_evidence() -> None:
    model, _ = wide_model(13)
    x = torch.randint(2, (20, 14), generator=torch.Generator().manual_seed(0))
    x[:, [0, 3, 12]] = torch.tensor([1, 0, 1])
    kept = [v for v in range(14) if v not in (0, 3, 12)]
    reduced = model.condition({"x0": 1, "x3": 0}).condition({"x12": 1})
    assert_close(reduced.log_score(x[:, kept]), model.log_score(x))
    assert_close(reduced.log_ratios(x[:, kept])[:, :2], model.log_ratios(x)[:, 2:4])
