"""A small latent-variable model, and everything about it by enumeration in double precision."""

import itertools

import torch

from deltaai.conditionals import known_under
from deltaai.graphs import UndirectedGraph
from deltaai.learning import LatentConfig, LatentLearner, LatentStructure
from deltaai.sampling import Schedule

# Four latents in a loop, of which two see each of five observed variables.
LOOP = [(0, 1), (1, 2), (2, 3), (0, 3)]
EDGES = [*LOOP, (0, 4), (1, 4), (1, 5), (2, 5), (2, 6), (3, 6), (0, 7), (3, 8)]
STRUCTURE = LatentStructure.of(
    UndirectedGraph.from_edges(9, EDGES), latents=range(4), observed=range(4, 9)
)
SMALL = {
    "hidden": 5,
    "observed_hidden": 4,
    "features": 6,
    "batch": 56,
    "posterior_batch": 56,
    "num_orders": 2,
}


def rows_of(number, seed=0):
    chance = torch.rand(number, 5, generator=torch.Generator().manual_seed(seed))
    return (chance < 0.5).float()


def learner(method="delta", seed=0, grey=None, spread=0.7, **settings):
    """An untrained learner in double precision, with weights at random everywhere."""
    config = LatentConfig(**{**SMALL, "method": method, "updates": 100, **settings})
    made = LatentLearner(STRUCTURE, rows_of(64) if grey is None else grey, config, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    made.model.double()
    made.posterior.trained.double()
    made.posterior.dtype = torch.float64
    made.model._drawn.dtype = torch.float64
    objective = getattr(made.step, "objective", None)
    if objective is not None:
        objective.double()
    made.grey = made.grey.double()
    orders = made.step.parts.orders
    made._schedule = Schedule.build(made.posterior, [orders.fixed], masks=orders.kind == "many")
    made.step.redraw(0)
    if hasattr(made.step, "source"):
        made.step.source.set_orders(made.step.source.dags)
    with torch.no_grad():
        for part in (made.model, made.posterior.trained):
            for value in part.parameters():
                drawn = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                value.copy_(spread * drawn)
    return made


def all_states(number):
    return torch.tensor(list(itertools.product((0, 1), repeat=number)), dtype=torch.long)


def joint(made, rows):
    """Log p(h, x) of every state of the latents (rows of the result) and every row."""
    latents = all_states(made.structure.num_latents)
    return torch.stack(
        [
            made.model.log_joint(state[:, None].expand(-1, len(rows)), rows.double())
            for state in latents
        ]
    )


def known_in_the_fixed_order(made, number):
    """What conditionals see in each of so many columns; everything that they have if it is one."""
    orders = made.step.parts.orders
    if orders.kind == "one":
        return None
    known = known_under(made.posterior.layout, [orders.fixed], torch.float64)
    return known.expand(-1, number)


def log_posterior(made, rows, known=None):
    """Log q(h | x) of every state of the latents and every row."""
    latents = all_states(made.structure.num_latents)
    context = made.posterior.context_of(rows.double())
    return torch.stack(
        [
            made.posterior.log_prob(state[:, None].expand(-1, len(rows)), known, context=context)
            for state in latents
        ]
    )
