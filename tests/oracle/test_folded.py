"""Folded factors are the log-factors they stand for."""

import pytest
import torch

from deltaai.conditionals import Layout, LocalConditionals, Proposal
from deltaai.conditionals.folded import fold
from deltaai.conditionals.informed import LARGEST_ARITY
from deltaai.conditionals.local import gather_inputs
from deltaai.models import FactorGraph, TableFactor, Variable, zoo


def mixed_model():
    """Pairs of every combination of numbers of states, twice the same pair, and fields."""
    generator = torch.Generator().manual_seed(0)
    sizes = [2, 3, 1, 4, 2]
    variables = [Variable(f"x{number}", size) for number, size in enumerate(sizes)]
    pairs = [(0, 1), (1, 0), (1, 3), (3, 4), (0, 4), (2, 3), (4, 0)]
    scopes = [*pairs, (0,), (1,), (3,), (3,)]
    factors = [
        TableFactor(
            [f"x{v}" for v in scope],
            torch.randn([sizes[v] for v in scope], generator=generator, dtype=torch.float64),
        )
        for scope in scopes
    ]
    return FactorGraph(variables, factors)


MODELS = {
    "ising": lambda: zoo.ising_lattice(side=3, sigma=0.5, seed=0),
    "potts": lambda: zoo.potts_lattice(side=3, states=3, sigma=0.5, seed=0),
    "mixed": mixed_model,
    "no factors": lambda: FactorGraph([Variable("a", 2), Variable("b", 3)], []),
}


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_terms(name, is_masked):
    model = MODELS[name]()
    graph = model.markov_graph()
    inputs = [graph.neighbours(v) for v in range(model.num_variables)]
    layout = Layout.build(model.num_states.tolist(), inputs)
    proposal = Proposal(model, LocalConditionals(layout, 2, takes_masks=True).double())
    assert all(group.arity <= LARGEST_ARITY for group in model.groups)
    generator = torch.Generator().manual_seed(1)
    chance = torch.rand(model.num_variables, 7, generator=generator)
    columns = (chance * model.num_states[:, None]).long()
    known = None
    if is_masked:
        known = (torch.rand(layout.num_slots, 7, generator=generator) < 0.5).double()
        known[layout.slot_input == model.num_variables] = 0
    expected = proposal.known_logits(columns, known)
    folded = fold(proposal.knowledge.terms, model.groups, model.dtype)
    features = layout.encoding.encode(columns, torch.float64)
    for block, here in zip(layout.blocks, folded, strict=True):
        mask = None
        if known is not None:
            mask = known[block.slots].view(block.size, block.num_inputs, 7)
        found = here.logits(torch.arange(block.size), gather_inputs(block, features), mask)
        torch.testing.assert_close(found.flatten(0, 1), expected[block.rows])
