"""Real networks with evidence, against pyAgrum on the same model converted in memory."""

import numpy as np
import pytest
import torch

import deltaai as dai
from data_folder import data_folder


@pytest.mark.parametrize("name", ["asia", "sachs", "child", "alarm"])
def test_marginals_with_evidence_equal_pyagrum(name):
    gum = pytest.importorskip("pyagrum")
    model = dai.read(data_folder() / "bif" / f"{name}.bif.gz")
    peer = dai.to_pyagrum(model)
    drawn = dai.exact(model).sample(5, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    for row in drawn:  # evidence drawn from the model is possible
        observed = rng.permutation(model.num_variables)[: rng.integers(1, 4)].tolist()
        evidence = {model.variables[v].name: model.variables[v].states[row[v]] for v in observed}
        engine = gum.LazyPropagation(peer)
        engine.setEvidence(evidence)
        engine.makeInference()
        for variable, found in dai.exact(model, evidence).marginals().items():
            expected = engine.posterior(variable).toarray()
            np.testing.assert_allclose(found, expected, atol=1e-9)
