"""A run that is interrupted and resumed, beside one that is not."""

import pytest
import torch

from deltaai.fitting.fit_model import fit


class Stop(Exception):
    """Raised in the middle of a run."""


def assert_resumes_to_the_same_weights(model, folder, *, stop_at, **settings):
    """Train in one go, and again with a stop on the way: the weights must be equal."""
    whole = fit(model, **settings)

    def interrupt(progress):
        if progress.step == stop_at:
            raise Stop

    path = folder / "run.checkpoint"
    with pytest.raises(Stop):
        fit(model, **settings, checkpoint=path, watch=interrupt)
    resumed = fit(model, **settings, checkpoint=path, resume=True)
    states = (one.proposal.conditionals.state_dict() for one in (whole, resumed))
    for first, second in zip(*(state.values() for state in states), strict=True):
        assert torch.equal(first, second)
