"""Updates of a trajectory-balance GFlowNet by torchgfn; run by ``torchgfn_update.py``.

It runs in an environment of its own (torchgfn needs an older numpy). Reads the couplings and fields
of an Ising model from a JSON file, trains a forward policy over (variable, value) pairs with a
constant uniform backward policy, and prints wall-clock and CPU seconds of each update as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from gfn.estimators import DiscretePolicyEstimator
from gfn.gflownet import TBGFlowNet
from gfn.gym import DiscreteEBM
from gfn.gym.discrete_ebm import EnergyFunction
from gfn.preprocessors import IdentityPreprocessor
from gfn.utils.modules import MLP


class SparseIsing(EnergyFunction):
    """The energy of the model, from its edges: as cheap as it can be."""

    def __init__(self, edges, couplings, fields):
        super().__init__()
        self.first, self.second = torch.tensor(edges).T
        self.couplings, self.fields = torch.tensor(couplings), torch.tensor(fields)

    def forward(self, states):
        """Energies of states 0 and 1."""
        spins = 2.0 * states - 1.0
        pairs = spins[..., self.first] * spins[..., self.second]
        return -(pairs @ self.couplings + spins @ self.fields)


def main() -> None:
    with open(sys.argv[1]) as file:
        job = json.load(file)
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    number = len(job["fields"])
    environment = DiscreteEBM(number, SparseIsing(job["edges"], job["couplings"], job["fields"]))
    network = MLP(
        number,
        environment.n_actions,
        hidden_dim=job["hidden"],
        n_hidden_layers=job["depth"],
        add_layer_norm=True,
    )
    identity = IdentityPreprocessor(number)
    forward = DiscretePolicyEstimator(network, environment.n_actions, preprocessor=identity)
    model = TBGFlowNet(forward, pb=None, constant_pb=True, init_logZ=job["log_partition"])
    optimiser = torch.optim.Adam(
        [
            {"params": list(network.parameters()), "lr": 1e-3},
            {"params": [model.logZ], "lr": 1e-1},
        ]
    )
    rows = []
    for _ in range(job["updates"]):
        wall, cpu = time.perf_counter(), time.process_time()
        # On-policy: the log-probabilities of sampling serve the loss, torchgfn's fastest way.
        paths = model.sample_trajectories(environment, n=job["batch"], save_logprobs=True)
        optimiser.zero_grad()
        loss = model.loss(environment, paths, recalculate_all_logprobs=False)
        loss.backward()
        optimiser.step()
        rows.append((time.perf_counter() - wall, time.process_time() - cpu))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
