"""An E-step on the MNIST pyramid: ours against the paper's configuration, in one run.

    python benchmarks/latent_update.py [--turns 3]

The paper's: masked autoencoders of width 512 for q and p, 1148 draws, each of the 164 latents
changed in 7 of them. Ours: a network for each variable, 128 draws, each of them chosen among five,
all latents changed in 64 of them. An update of q is timed from drawing latents to the optimiser's
step; images are random bits, since their content does not matter for the cost. Memory is bounded by
taking the paper's residuals in portions whose gradients are added.
"""

import argparse
import time

import torch

from deltaai.learning import LatentConfig, LatentLearner, LatentStructure, TermsAround
from deltaai.models import zoo
from deltaai.objectives import SampledDeltaObjective
from deltaai.sampling import Paths

PORTIONS = 41  # groups of four latents, seven draws each


def learner(**settings):
    generator = torch.Generator().manual_seed(0)
    rows = (torch.rand(2000, 784, generator=generator) < 0.2).float()
    structure = LatentStructure.of_pyramid(zoo.pyramid())
    return LatentLearner(structure, rows, LatentConfig(updates=1000, **settings), seed=0)


def update_ours(made):
    generator = made.generator
    draws = made.step.draw(made._batch(), generator)
    with torch.enable_grad():
        made._differentiate("q", lambda: made.step.loss(draws, generator))
    made._descend("q", 1.0)
    return draws.paths.columns.shape[1]


def update_the_papers(made):
    generator, posterior, model = made.generator, made.posterior, made.model
    paths = made.step.draw(made._batch(), generator).paths
    optimizer, dag = made._optimizers["q"], paths.dags[0]
    optimizer.zero_grad(set_to_none=True)
    objective = SampledDeltaObjective(posterior, 1)
    for portion in range(PORTIONS):
        columns = slice(portion * 28, (portion + 1) * 28)
        few = Paths(paths.columns[:, columns], (dag,) * 4, context=paths.context[columns])
        batch = objective.prepare(posterior, few, generator)
        centres = batch.variables.flatten().tolist()
        both = torch.cat((few.columns, few.context.T.long())).view(-1, 4, 7)
        with torch.no_grad():  # log p(x) - log p(x') needs p at both values of the latent
            for part, values in ((model.prior, both[:164]), (model.likelihood, both)):
                around = TermsAround(part, centres)
                changed = values.clone()
                changed[centres, range(4)] = 1 - changed[centres, range(4)]
                around.log_sums(values) - around.log_sums(changed)
        (objective.losses(posterior, batch).sum() / 1148).backward()
    optimizer.step()
    return paths.columns.shape[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours = learner()
    papers = learner(family="mae", hidden=512, batch=1148, candidates=1)
    update_ours(ours)
    print(
        "| turn | ours, CPU s | the paper's, CPU s | ratio, CPU | ratio, wall-clock |\n"
        "|---|---|---|---|---|"
    )
    for turn in range(options.turns):
        spent = []
        for update, made, times in ((update_ours, ours, 10), (update_the_papers, papers, 1)):
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(times):
                update(made)
            spent.append(
                ((time.process_time() - cpu) / times, (time.perf_counter() - wall) / times)
            )
        (our_cpu, our_wall), (their_cpu, their_wall) = spent
        print(
            f"| {turn} | {our_cpu:.3f} | {their_cpu:.1f} | {their_cpu / our_cpu:.0f} "
            f"| {their_wall / our_wall:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
