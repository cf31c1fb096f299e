"""TensorBoard files, where TensorBoard is installed; a clear word where it is not."""

import importlib

import pytest

from deltaai.errors import ConfigError
from deltaai.fitting.fit_model import fit
from deltaai.models import zoo
from deltaai.training.tensorboard import watch_with_tensorboard

LATTICE = zoo.ising_lattice(side=2, sigma=0.3, seed=0)


def test_the_course_of_training_is_written(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    watch = watch_with_tensorboard(tmp_path)
    fit(LATTICE, steps=6, evaluate_every=3, target_kl=1e-9, watch=watch)
    stored = events.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in stored.Scalars("loss")] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in stored.Scalars("ess")] == [3, 6]


def test_without_tensorboard_the_remedy_is_named(monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install deltaai\[tensorboard\]"):
        watch_with_tensorboard(tmp_path)
