"""Importance-weighted bounds against exact sums, and the classifier's entropy."""

import math

import pytest
import torch

from deltaai.errors import ConfigError, WeightError
from deltaai.io import ImageSet, read_digits
from deltaai.metrics import (
    DigitClassifier,
    classifier_accuracy,
    importance_bound,
    importance_bounds,
    prediction_entropy,
    train_classifier,
)
from deltaai.randomness import generator_of


def two_state_model(images, number, generator):
    """Weights of p(x = 1) = 0.2 * 0.9 + 0.8 * 0.3 with one bit for a latent and q uniform."""
    latents = torch.randint(2, (number, len(images)), generator=generator)
    log_joint = torch.tensor([0.8 * 0.3, 0.2 * 0.9]).log()[latents]
    return log_joint - math.log(0.5)


def test_bounds_rise_with_the_number_of_samples_to_the_exact_value():
    images = torch.ones(40, 1)
    bounds = importance_bounds(two_state_model, images, (1, 10, 100, 1000), generator_of(0))
    means = [float(bounds[size].mean()) for size in (1, 10, 100, 1000)]
    assert means == sorted(means)
    for smaller, larger in ((1, 10), (10, 100), (100, 1000)):  # not only on average
        assert bool((bounds[smaller] <= bounds[larger]).all())
    assert means[0] == pytest.approx(0.5 * (math.log(0.48) + math.log(0.36)), abs=0.01)
    assert means[-1] == pytest.approx(math.log(0.2 * 0.9 + 0.8 * 0.3), abs=0.002)


def test_constant_weights_give_their_value_for_every_size():
    def draw(images, number, generator):
        return images[:, 0].expand(number, -1)

    images = torch.tensor([[-700.0], [-1e4], [3.0]])
    for bound in importance_bounds(draw, images, (5, 20), None).values():
        assert bound.tolist() == pytest.approx([-700.0, -1e4, 3.0])


def test_pieces_are_small_and_give_what_all_weights_at_once_do():
    weights = torch.randn(60, 7, generator=generator_of(0))
    drawn = []

    def draw(images, number, generator):
        (start,) = (int(images[0, 0]),)
        first = sum(each == start for each, _ in drawn) * number
        drawn.append((start, number * len(images)))
        return weights[first : first + number, start : start + len(images)]

    images = torch.arange(7.0)[:, None]
    bounds = importance_bounds(draw, images, (10, 60), None, rows_at_once=30)
    assert max(size for _, size in drawn) == 30
    assert torch.allclose(bounds[60], importance_bound(weights))
    groups = torch.stack([importance_bound(weights[at : at + 10]) for at in range(0, 60, 10)])
    assert torch.allclose(bounds[10], groups.mean(0))


def test_weights_and_sizes_that_are_none():
    with pytest.raises(WeightError, match="no weights"):
        importance_bound(torch.zeros(0, 2))
    with pytest.raises(WeightError, match="NaN or infinite"):
        importance_bound(torch.tensor([[math.nan]]))
    assert importance_bound(torch.tensor([[-math.inf], [0.0]])).tolist() == [-math.log(2)]
    for sizes in ((2, 3), (0, 2), (4, 6, 12), ()):
        with pytest.raises(ConfigError):
            importance_bounds(two_state_model, torch.ones(1, 1), sizes, None)


def test_entropy_of_a_classifier_that_is_sure_and_of_one_that_is_not():
    classifier = DigitClassifier(28, 10, generator_of(0))
    images = torch.rand(20, 784, generator=generator_of(1))
    with torch.no_grad():
        classifier.last_weight.zero_()
        classifier.last_bias.zero_()
        assert prediction_entropy(classifier, images) == pytest.approx(math.log(10))
        classifier.last_bias[3] = 1000.0
    assert prediction_entropy(classifier, images) == 0.0
    assert classifier_accuracy(classifier, images, torch.full((20,), 3)) == 1.0


def test_the_network_is_that_of_the_appendix():
    shapes = {
        name: tuple(value.shape)
        for name, value in DigitClassifier(28, 10, generator_of(0)).named_parameters()
        if name.endswith("weight")
    }
    assert shapes["first_weight"] == (10, 1, 5, 5)
    assert shapes["second_weight"] == (20, 10, 5, 5)
    assert shapes["hidden_weight"] == (50, 320)
    with pytest.raises(ConfigError, match="too small for two convolutions"):
        DigitClassifier(4, 10, generator_of(0))


def test_dropout_leaves_half_out_and_keeps_the_mean():
    from deltaai.metrics.digit_classifier import _with_some_left_out

    kept = _with_some_left_out(torch.ones(100, 100), generator_of(0))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.05)


def test_digits_are_learned_the_same_way_every_time():
    digits = read_digits()
    few = ImageSet(
        "few", 8, digits.train[:600], digits.train_labels[:600], digits.test, digits.test_labels
    )
    classifier = train_classifier(few, updates=600, batch_size=32, learning_rate=5e-3)
    assert classifier_accuracy(classifier, few.train, few.train_labels) > 0.95
    assert classifier_accuracy(classifier, few.test, few.test_labels) > 0.8
    noise = torch.rand(200, 64, generator=generator_of(0))
    assert prediction_entropy(classifier, noise) > 2 * prediction_entropy(classifier, few.test)
    first, second = (train_classifier(few, updates=5).state_dict()["last_weight"] for _ in range(2))
    assert torch.equal(first, second)
