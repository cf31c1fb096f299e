"""The autoencoder: weights against a sum done by hand, learning, and resuming to the same run."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Normal

from deltaai.errors import ConfigError, FormatError, TrainingError
from deltaai.io import ImageSet, binarised
from deltaai.learning import AutoencoderConfig, VariationalAutoencoder
from deltaai.randomness import generator_of

SMALL = {"num_latents": 2, "hidden": 16, "depth": 2, "batch_size": 32}


def stripes():
    """Images of 3 x 3 pixels that are one of two patterns, blurred a little."""
    labels = torch.arange(200, dtype=torch.int64) % 2
    patterns = torch.tensor([[1, 0, 0] * 3, [0, 0, 1] * 3], dtype=torch.float32)
    pixels = 0.05 + 0.9 * patterns[labels]
    return ImageSet("stripes", 3, pixels, labels, pixels[:50], labels[:50])


def learner(seed=0, **settings):
    return VariationalAutoencoder(stripes(), AutoencoderConfig(**(SMALL | settings)), seed)


def test_weights_are_the_log_densities_that_they_say():
    trained = learner()
    trained.run(updates=20)
    images = binarised(stripes().test[:4], generator_of(1))
    weights = trained.log_weights(images, 3, generator_of(2))
    with torch.no_grad():
        mean, log_scale = trained.encoder(images).chunk(2, dim=1)
        posterior = Normal(mean, log_scale.exp())
        noise = torch.randn(3, *mean.shape, generator=generator_of(2))
        latents = mean + log_scale.exp() * noise
        logits = trained.decoder(latents.flatten(0, 1)).view(3, 4, 9)
        expected = (
            Normal(0.0, 1.0).log_prob(latents).sum(2)
            + Bernoulli(logits=logits).log_prob(images.expand(3, 4, 9)).sum(2)
            - posterior.log_prob(latents).sum(2)
        )
    assert torch.allclose(weights, expected, atol=1e-4)


def test_the_lower_bound_is_the_mean_weight():
    trained = learner()
    trained.run(updates=20)
    images = binarised(stripes().test[:1], generator_of(1))
    with torch.no_grad():
        bounds = [float(trained._lower_bound(images)) for _ in range(4000)]
    weights = trained.log_weights(images, 4000, generator_of(2))
    errors = math.hypot(
        *(float(torch.tensor(each).std()) for each in (bounds, weights[:, 0].tolist()))
    )
    assert abs(sum(bounds) / 4000 - float(weights.mean())) < 4 * errors / math.sqrt(4000)


def test_it_learns_two_patterns():
    trained = learner(updates=400)
    trained.run()
    assert trained.num_updates == 400
    assert trained.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)  # what a line leaves
    images = binarised(stripes().test, generator_of(1))
    bound = trained.log_weights(images, 50, generator_of(2)).logsumexp(0) - math.log(50)
    entropy = -(0.95 * math.log(0.95) + 0.05 * math.log(0.05)) * 9 + math.log(2)
    assert entropy - 0.6 < -float(bound.mean()) < entropy + 1.0
    again = trained.reconstruct(images, generator_of(3))
    assert float((again - stripes().test).abs().mean()) < 0.15
    drawn = trained.sample(100, generator_of(4))
    assert drawn.shape == (100, 9)
    assert 0.2 < float((drawn[:, 0] > 0.5).float().mean()) < 0.8


def test_a_run_that_was_killed_goes_on_to_the_same_parameters(tmp_path):
    whole = learner(updates=40)
    whole.run()
    first = learner(updates=40)
    first.run(updates=17)
    first.log_weights(binarised(stripes().test, generator_of(0)), 2, generator_of(1))
    first.save(tmp_path / "run")
    first.run(updates=21)  # lost
    second = learner(updates=40)
    second.restore(tmp_path / "run")
    assert (second.num_updates, second.seconds > 0) == (17, True)
    second.run()
    for one, other in zip(whole.trained.parameters(), second.trained.parameters(), strict=True):
        assert torch.equal(one, other)
    assert second.num_parameters == whole.num_parameters


def test_the_clock_stands_still_between_runs():
    trained = learner()
    trained.run(seconds=0.05)
    before = trained.seconds
    assert 0.05 <= before < 5
    trained.sample(10, None)
    trained.run(updates=trained.num_updates)
    assert trained.seconds == before
    trained.run(seconds=0.0)
    assert trained.seconds == before


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "run"
    learner().save(path)
    with pytest.raises(TrainingError, match="other images or another seed"):
        learner(seed=1).restore(path)
    with pytest.raises(TrainingError, match=r"other settings \(.*batch_size"):
        learner(batch_size=8).restore(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FormatError, match="damaged, or cut short"):
        learner().restore(path)


def test_what_makes_no_sense(as_a_user_runs_it):
    with pytest.raises(ConfigError, match="say how long to train"):
        learner().run()
    with pytest.raises(ConfigError, match="updates is -1"):
        learner().run(updates=-1)
    with pytest.raises(ConfigError, match="take that of image_set"):
        VariationalAutoencoder("mnist")
    with pytest.raises(ConfigError, match="hidden is 0"):
        AutoencoderConfig(hidden=0)
    broken = learner()
    with torch.no_grad():
        broken.decoder.bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match="the loss is nan after 0 updates: lower learning_rate"):
        broken.run(updates=1)
