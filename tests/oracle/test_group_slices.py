"""Slices of chosen factors, by every kind of group, against their values one by one."""

import pytest
import torch

from deltaai.models import zoo
from deltaai.models.temperature import tempered

MODELS = {
    "spins": zoo.ising_lattice(side=3, sigma=0.5, seed=0),
    "tables": zoo.random_factor_graph(
        num_variables=6, num_factors=9, max_arity=4, max_states=4, scale=1.0, seed=1
    ),
    "networks": zoo.factor_lattice(side=3, sigma=1.0, seed=0),
    "tempered": tempered(zoo.factor_lattice(side=3, sigma=1.0, seed=0), 0.3),
    "given evidence": zoo.factor_lattice(side=3, sigma=1.0, seed=0).condition({"x_1_1": 1}),
}


@pytest.mark.parametrize("name", MODELS)
def test_slices_of_chosen_factors_are_their_values(name):
    model = MODELS[name]
    generator = torch.Generator().manual_seed(0)
    for group in model.groups:
        chosen = torch.randint(group.num_factors, (5,), generator=generator)
        values = torch.stack(
            [torch.randint(size, (5, 7), generator=generator) for size in group.sizes]
        )
        for place in range(group.arity):
            found = group.log_slices_at(chosen, values, place)
            assert found.shape == (5, group.sizes[place], 7)
            for state in range(group.sizes[place]):
                there = values.clone()
                there[place] = state
                wanted = group.log_values_at(chosen.repeat_interleave(7), there.flatten(1))
                torch.testing.assert_close(found[:, state].flatten(), wanted)
