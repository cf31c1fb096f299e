"""Twelve latents: EM with each E-step against EM with exact posteriors.

    python benchmarks/latent_toy.py [--updates 6000] [--methods delta ...]

Rows come from a model with random conditionals on a loop of twelve latents, each observed variable
seeing two neighbours. All methods have the same networks, rates and updates. The likelihood of
fresh rows is exact, by enumeration of the 4096 states.
"""

import argparse
import time

import torch

from deltaai.graphs import UndirectedGraph
from deltaai.learning import E_STEPS, LatentConfig, LatentLearner, LatentModel, LatentStructure

NUM_LATENTS, NUM_OBSERVED = 12, 24


def structure():
    loop = [(v, (v + 1) % NUM_LATENTS) for v in range(NUM_LATENTS)]
    below = [
        (latent % NUM_LATENTS, NUM_LATENTS + number)
        for number in range(NUM_OBSERVED)
        for latent in (number // 2, number // 2 + 1)
    ]
    graph = UndirectedGraph.from_edges(NUM_LATENTS + NUM_OBSERVED, loop + below)
    observed = range(NUM_LATENTS, NUM_LATENTS + NUM_OBSERVED)
    return LatentStructure.of(graph, range(NUM_LATENTS), observed)


def truth(seed):
    """Rows of a model whose conditionals are far from even."""
    generator = torch.Generator().manual_seed(seed)
    model = LatentModel(structure(), settings("exact", 1), generator=generator)
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(1.2 * torch.randn(value.shape, generator=generator))
    latents = model.draw(6000, generator)
    return model, torch.bernoulli(model.means(latents), generator=generator)


def settings(method, updates):
    many = {"orders": "many"} if method == "delta-partial" else {}
    return LatentConfig(
        method=method,
        hidden=32,
        depth=1,
        observed_hidden=8,
        observed_depth=1,
        features=128,
        encoder_depth=2,
        batch=96,
        posterior_batch=96,
        learning_rate=5e-3,
        model_learning_rate=5e-3,
        updates=updates,
        **many,
    )


@torch.no_grad()
def log_likelihood(model, rows):
    places = torch.arange(NUM_LATENTS)
    states = (torch.arange(2**NUM_LATENTS) >> places[:, None]) & 1
    return model.log_joints(states, rows).logsumexp(1).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--methods", nargs="*", default=["exact", *sorted(set(E_STEPS) - {"exact"})]
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| seed | E-step | log-likelihood of 1000 fresh rows | CPU seconds |\n|---|---|---|---|")
    for seed in range(options.seeds):
        model, rows = truth(seed)
        print(f"| {seed} | the truth | {log_likelihood(model, rows[5000:]):.4f} | |", flush=True)
        for method in options.methods:
            learner = LatentLearner(
                structure(), rows[:5000], settings(method, options.updates), seed=seed
            )
            started = time.process_time()
            learner.run()
            spent = time.process_time() - started
            found = log_likelihood(learner.model, rows[5000:])
            print(f"| {seed} | {method} | {found:.4f} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
