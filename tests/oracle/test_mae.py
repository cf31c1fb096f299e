"""The masked autoencoder, trained for many orders, under evidence."""

import numpy as np
import pytest
import torch

from deltaai.exact import Enumeration
from deltaai.fitting.fit_model import fit
from deltaai.models import zoo

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = zoo.ising_lattice(side=3, sigma=0.3, seed=0)


@pytest.fixture(scope="module")
def sampler():
    settings = {"hidden": 32, "steps": 150, "batch_size": 32, "learning_rate": 5e-3}
    return fit(MODEL, orders="many", family="mae", **settings)


@pytest.mark.parametrize("observed", [{0: 1}, {4: 0}, {2: 1, 3: 0, 8: 1}])
def test_posterior_marginals_are_right(sampler, observed):
    evidence = {MODEL.variables[v].name: state for v, state in observed.items()}
    drawn = sampler.posterior(evidence, 4000, torch.Generator().manual_seed(0))
    truth = Enumeration(MODEL, evidence)
    estimate = drawn.estimate
    assert estimate.ess_fraction > 0.8
    assert estimate.log_partition == pytest.approx(truth.log_partition(), abs=0.05)
    found = drawn.marginals()
    for name, expected in truth.marginals().items():
        np.testing.assert_allclose(found[name], expected, atol=0.03)
