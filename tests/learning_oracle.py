"""Small models that learn, rows of theirs, and the gradient of the likelihood by enumeration."""

import itertools

import torch

from deltaai.exact import exact
from deltaai.learning import learnable
from deltaai.models import FactorGraph, NeuralFactor, SpinCoupling, TableFactor, Variable


def grid_model(kind, side=3, seed=0, scale=0.7):
    """A grid whose factors are of one kind, with parameters; tables have some third states."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [3 if kind == "tables" and v % 4 == 0 else 2 for v in range(side * side)]
    variables = [Variable(f"x{v}", size) for v, size in enumerate(sizes)]
    edges = [(v, v + 1) for v in range(side**2) if (v + 1) % side]
    edges += [(v, v + side) for v in range(side**2 - side)]
    factors = []
    torch.manual_seed(seed)
    for u, v in edges:
        names, shape = [f"x{u}", f"x{v}"], (sizes[u], sizes[v])
        drawn = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        if kind == "tables":
            factors.append(TableFactor(names, drawn))
        elif kind == "spins":
            factors.append(SpinCoupling(*names, float(drawn[0, 0])))
        else:
            layers = [torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)]
            factors.append(NeuralFactor(names, torch.nn.Sequential(*layers).double()))
    return learnable(FactorGraph(variables, factors))


def rows_of(truth, count, seed=0, missing=0.0):
    """Rows drawn exactly, with cells missing at random."""
    rows = exact(FactorGraph(truth.variables, truth.factors)).sample(count, seed).clone()
    generator = torch.Generator().manual_seed(seed + 1)
    rows[torch.rand(rows.shape, generator=generator) < missing] = -1
    return rows


def all_states(model):
    """Every joint state."""
    return torch.tensor(list(itertools.product(*(range(k) for k in model.num_states.tolist()))))


def enumerated_loss(model, rows):
    """Mean negative log-likelihood, by listing all states; gradients flow."""
    states = all_states(model)
    scores = model.log_score(states).double()
    agrees = ((rows[:, None] == states[None]) | (rows[:, None] < 0)).all(2)
    of_rows = torch.where(agrees, scores[None], -torch.inf).logsumexp(1)
    return scores.logsumexp(0) - of_rows.mean()


def enumerated_gradient(model, rows):
    """Its gradient, all parameters in one vector."""
    return flat(torch.autograd.grad(enumerated_loss(model, rows), list(model.parameters())))


def flat(tensors):
    return torch.cat([value.detach().double().flatten() for value in tensors])


def estimated_gradient(gradient, chosen, repeats=1):
    """Mean gradient of the surrogate over some calls, and its standard error."""
    found = []
    for _ in range(repeats):
        parameters = list(gradient.model.parameters())
        found.append(flat(torch.autograd.grad(gradient.surrogate(chosen), parameters)))
    stacked = torch.stack(found)
    spread = stacked.std(0) if repeats > 1 else torch.zeros_like(found[0])
    return stacked.mean(0), spread / repeats**0.5
