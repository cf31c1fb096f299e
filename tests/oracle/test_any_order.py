"""The any-order GFlowNet against exact flows, by enumeration of all partial states."""

import itertools
import math

import pytest
import torch

from deltaai.exact import Enumeration
from deltaai.models import FactorGraph, TableFactor, Variable, tempered, zoo
from deltaai.objectives.any_order_balance import AnyOrderObjective
from deltaai.objectives.balance import path_potentials
from deltaai.sampling import any_order_policy as any_order
from deltaai.sampling.any_order_policy import AnyOrderPolicy
from deltaai.sampling.policies import Policy
from deltaai.training.any_order_paths import AnyOrderTask
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

TOLERANCE = 1e-9
UNSET = -1

MODELS = {
    "chain": zoo.random_factor_graph(3, 2, seed=0, min_states=2, max_states=2, max_arity=2),
    "loop": FactorGraph(
        [Variable(name, 2) for name in "abc"],
        [
            TableFactor(["a", "b"], [[0.3, -1.0], [0.5, 0.9]]),
            TableFactor(["b", "c"], [[-0.2, 0.4], [1.3, -0.6]]),
            TableFactor(["a", "c"], [[0.8, 0.1], [-0.7, 0.2]]),
        ],
    ),
    "ising": zoo.ising_lattice(side=2, sigma=0.7, seed=1),
    "three-state": zoo.random_factor_graph(3, 4, seed=1, min_states=3, max_states=3),
    "mixed": zoo.random_factor_graph(4, 5, seed=3, min_states=1, max_states=3),
    "neural": zoo.factor_lattice(side=2, sigma=1.0, seed=1),
    "one-variable": FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]),
    "one-state": FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])]),
    "no-factors": FactorGraph([Variable("a", 3), Variable("b", 2)], []),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
OBJECTIVES = ["tb", "db", "subtb", "fl-db", "fl-subtb"]
EVERY_OBJECTIVE = pytest.mark.parametrize("objective", OBJECTIVES)

pytestmark = pytest.mark.usefixtures("one_thread")


def double(name):
    return MODELS[name].to(dtype=torch.float64)


def sizes_of(model):
    return model.num_states.tolist()


def partial_states(sizes):
    """Every partial assignment, those with fewer variables set first."""
    every = itertools.product(*[[UNSET, *range(size)] for size in sizes])
    return sorted(every, key=lambda state: sum(value != UNSET for value in state))


def unset(state, variable):
    return (*state[:variable], UNSET, *state[variable + 1 :])


def variables_set(state):
    return [variable for variable, value in enumerate(state) if value != UNSET]


def every_path(model):
    """Every complete state in every order."""
    states = Enumeration(model).states.T
    orders = list(itertools.permutations(range(len(states))))
    ranks = torch.tensor(orders).argsort(1).T
    columns = states.repeat_interleave(len(orders), 1)
    return columns, ranks.repeat(1, states.shape[1])


def states_along(column, rank):
    """Partial states of a path, the empty one first."""
    for step in range(len(column) + 1):
        pairs = zip(column.tolist(), rank.tolist(), strict=True)
        yield tuple(value if place < step else UNSET for value, place in pairs)


def tiny_policy(sizes, *, is_backward_learned=False, dtype=torch.float64, seed=0):
    """A small network whose weights are all random, those that start at zero included."""
    generator = torch.Generator().manual_seed(seed)
    policy = AnyOrderPolicy(
        sizes, 6, 2, is_backward_learned=is_backward_learned, generator=generator
    )
    for value in policy.parameters():
        value.data += 0.5 * torch.randn(value.shape, generator=generator)
    return policy.to(dtype)


def rows_of(policy, states):
    """Partial states as the policy takes them."""
    table = torch.tensor(states)
    is_set = table != UNSET
    return policy.features(table.clamp(min=0).T.contiguous(), is_set), is_set


@torch.no_grad()
def exact_log_reach(policy):
    """Log probability that each partial state is passed, summed over all orders."""
    states = partial_states(policy.num_states)
    log_forward = policy.evaluate(*rows_of(policy, states), forward=True).log_forward
    log_forward = dict(zip(states, log_forward.tolist(), strict=True))
    first = [sum(policy.num_states[:v]) for v in range(policy.num_variables)]
    reach = {states[0]: 0.0}
    for state in states[1:]:
        terms = [
            reach[before] + log_forward[before][first[v] + state[v]]
            for v in variables_set(state)
            for before in [unset(state, v)]
        ]
        top = max(terms)
        reach[state] = top + math.log(sum(math.exp(term - top) for term in terms))
    return reach


def exact_log_q(policy, states):
    reach = exact_log_reach(policy)
    return torch.tensor([reach[tuple(row)] for row in states.tolist()], dtype=torch.float64)


# -- exact flows -------------------------------------------------------------------------------


class ExactFlows:
    """Flows of the uniform backward policy, from rewards downwards."""

    def __init__(self, model):
        oracle = Enumeration(model)
        rewards = oracle.log_scores.exp().tolist()
        complete = dict(zip(map(tuple, oracle.states.tolist()), rewards, strict=True))
        self.flows = dict.fromkeys(partial_states(sizes_of(model)), 0.0)
        self.flows.update(complete)
        for state in reversed(list(self.flows)):
            for v in variables_set(state):
                self.flows[unset(state, v)] += self.flows[state] / len(variables_set(state))

    def along(self, columns, ranks):
        """Log F of all states of paths, and log P_F and log P_B of their steps."""
        flows, forward, backward = [], [], []
        for column, rank in zip(columns.T, ranks.T, strict=True):
            path = list(states_along(column, rank))
            here = torch.tensor([self.flows[state] for state in path], dtype=torch.float64)
            chance = 1 / torch.arange(1, len(path), dtype=torch.float64)
            flows.append(here.log())
            forward.append((here[1:] * chance / here[:-1]).log())
            backward.append(chance.log())
        return torch.stack(flows, 1), torch.stack(forward, 1), torch.stack(backward, 1)


def exact_objective(objective, partial_energy, model, columns, ranks, flows):
    """An objective with the true log Z, and log flows as it would make them of a true network."""
    made = AnyOrderObjective(objective, partial_energy=partial_energy).double()
    batch = made.prepare(model, columns, ranks)
    corrections = flows - batch.log_rewards
    made.log_partition.data = corrections[0, 0]
    return made, made.log_flows(batch.log_rewards, corrections[1:-1])


@pytest.mark.parametrize("partial_energy", ["completed", "zero-filled"])
@EVERY_OBJECTIVE
@EVERY_MODEL
def test_exact_flows_leave_no_loss(name, objective, partial_energy):
    """Keystone: zero for every state and every order."""
    model = double(name)
    columns, ranks = every_path(model)
    flows, forward, backward = ExactFlows(model).along(columns, ranks)
    torch.testing.assert_close(
        flows[0], torch.full_like(flows[0], Enumeration(model).log_partition())
    )
    made, log_flows = exact_objective(objective, partial_energy, model, columns, ranks, flows)
    torch.testing.assert_close(log_flows, flows)
    potentials = path_potentials(log_flows.detach(), forward, backward)
    assert float((potentials - potentials[0]).abs().max()) < TOLERANCE
    assert float(made.balance(potentials).abs().max()) < TOLERANCE


@EVERY_OBJECTIVE
@pytest.mark.parametrize("name", ["loop", "mixed", "one-variable"])
def test_one_wrong_entry_leaves_a_loss(name, objective):
    """Power: whichever number it is, the path that it belongs to notices."""
    model = double(name)
    columns, ranks = every_path(model)
    exact = ExactFlows(model).along(columns, ranks)
    made, log_flows = exact_objective(objective, "completed", model, columns, ranks, exact[0])
    for place, part in enumerate(exact):
        is_inner_unused = objective == "tb" and place == 0
        for step in (0, len(part) - 1) if is_inner_unused else range(len(part)):
            wrong = [log_flows.detach(), *exact[1:]]
            wrong[place] = wrong[place].clone()
            wrong[place][step, -1] += 0.01
            losses = made.balance(path_potentials(*wrong))
            assert float(losses[-1]) > 1e-6
            assert bool((losses[:-1].abs() < TOLERANCE).all())


@pytest.mark.parametrize("is_backward_learned", [False, True])
@EVERY_MODEL
def test_policies_are_distributions(name, is_backward_learned):
    policy = tiny_policy(sizes_of(MODELS[name]), is_backward_learned=is_backward_learned)
    states = partial_states(policy.num_states)
    features, is_set = rows_of(policy, states)
    found = policy.evaluate(features, is_set, forward=True, backward=True, flow=True)
    is_open = (~is_set).repeat_interleave(torch.tensor(policy.num_states), 1)
    forward, backward = found.log_forward[:-1].exp(), found.log_backward[1:].exp()
    is_partial = is_open.any(1)[:-1]
    torch.testing.assert_close(
        forward[is_partial].sum(1), torch.ones(int(is_partial.sum())).double()
    )
    assert bool(((forward > 0) == is_open[:-1])[is_partial].all())
    torch.testing.assert_close(backward.sum(1), torch.ones(len(states) - 1).double())
    assert bool(((backward > 0) == is_set[1:]).all())
    if not is_backward_learned:
        counts = is_set[1:].sum(1, keepdim=True)
        torch.testing.assert_close(backward, is_set[1:] / counts.double())
    assert bool(found.log_flow.isfinite().all())


@pytest.mark.parametrize("is_backward_learned", [False, True])
@EVERY_MODEL
def test_paths_follow_the_policy_step_by_step(name, is_backward_learned, monkeypatch):
    """All steps at once, in whatever chunks, are the steps one by one."""
    model = MODELS[name]
    policy = tiny_policy(sizes_of(model), is_backward_learned=is_backward_learned)
    columns, ranks = every_path(model)
    whole = policy.log_paths(columns, ranks, flow=True)
    monkeypatch.setattr(any_order, "_ROWS_AT_ONCE", 7)
    chunked = policy.log_paths(columns, ranks, flow=True)
    for field in ("log_forward", "log_backward", "log_flow"):
        torch.testing.assert_close(getattr(chunked, field), getattr(whole, field))
    assert policy.log_paths(columns, ranks).log_flow is None
    for number in range(0, columns.shape[1], 5):  # some of them, for time
        states = list(states_along(columns[:, number], ranks[:, number]))
        found = policy.evaluate(*rows_of(policy, states), forward=True, backward=True, flow=True)
        for step, variable in enumerate(ranks[:, number].argsort().tolist()):
            pair = sum(policy.num_states[:variable]) + int(columns[variable, number])
            torch.testing.assert_close(
                whole.log_forward[step, number], found.log_forward[step, pair]
            )
            torch.testing.assert_close(
                whole.log_backward[step, number], found.log_backward[step + 1, variable]
            )
        torch.testing.assert_close(whole.log_flow[:, number], found.log_flow)


@EVERY_OBJECTIVE
@pytest.mark.parametrize("is_backward_learned", [False, True])
def test_losses_are_those_of_the_potentials(objective, is_backward_learned):
    """The equation, one path and one pair of states at a time."""
    model, beta, decay = double("mixed"), 0.7, 0.8
    policy = tiny_policy(sizes_of(model), is_backward_learned=is_backward_learned)
    made = AnyOrderObjective(objective, decay=decay, partial_energy="completed", log_partition=0.4)
    columns, ranks = policy.sample(12, generator=torch.Generator().manual_seed(0))
    batch = made.prepare(tempered(model, beta), columns, ranks)
    paths = policy.log_paths(columns, ranks, flow=True)
    for number, loss in enumerate(made.losses(policy, batch)):
        flows = paths.log_flow[:, number].tolist()
        flows[0], flows[-1] = made.log_partition.item(), 0.0
        for step, value in enumerate(batch.log_rewards[:, number].tolist()):
            flows[step] += value
        assert flows[-1] == pytest.approx(beta * float(model.log_score(columns.T)[number]))
        change = (paths.log_backward - paths.log_forward)[:, number].tolist()
        total, weights = 0.0, 0.0
        last = len(flows) - 1
        for i, j in itertools.combinations(range(last + 1), 2):
            weight = {"tb": j - i == last, "db": j - i == 1}.get(objective.removeprefix("fl-"))
            weight = decay ** (j - i) if weight is None else float(weight)
            total += weight * (flows[i] - sum(change[i:j]) - flows[j]) ** 2
            weights += weight
        assert float(loss.detach()) == pytest.approx(total / weights)


# -- probabilities and samples -----------------------------------------------------------------


@pytest.mark.parametrize("is_backward_learned", [False, True])
@pytest.mark.parametrize("name", ["loop", "mixed", "one-variable"])
def test_all_paths_together_have_the_probability_of_the_state(name, is_backward_learned):
    model = MODELS[name]
    policy = tiny_policy(sizes_of(model), is_backward_learned=is_backward_learned)
    states = Enumeration(model).states
    wanted = exact_log_q(policy, states)
    assert float(wanted.exp().sum()) == pytest.approx(1)
    columns, ranks = every_path(model)
    paths = policy.log_paths(columns, ranks)
    by_state = paths.log_forward.sum(0).view(len(states), -1)
    torch.testing.assert_close(by_state.logsumexp(1), wanted)
    backward = paths.log_backward.sum(0).view(len(states), -1)
    torch.testing.assert_close(backward.logsumexp(1).exp(), torch.ones(len(states)).double())
    # The estimate is the mean of P_F / P_B, whose spread under P_B is known here.
    num_paths = 4000
    found = policy.log_prob(states.T.contiguous(), num_paths, torch.Generator().manual_seed(0))
    second_moment = (2 * by_state - backward).exp().sum(1)
    stderr = ((second_moment - (2 * wanted).exp()).clamp(min=0) / num_paths).sqrt()
    assert bool(((found.exp() - wanted.exp()).abs() <= 5 * stderr + TOLERANCE).all())


def test_few_paths_give_a_lower_bound():
    policy = tiny_policy([2, 3, 2, 2])
    columns = torch.tensor([[1], [2], [0], [1]]).expand(-1, 4000).contiguous()
    wanted = float(exact_log_q(policy, columns.T[:1])[0])
    generator = torch.Generator().manual_seed(0)
    one, four = (float(policy.log_prob(columns, num, generator).mean()) for num in (1, 4))
    assert one < four < wanted


EXPLORING = Policy(temperature=2.0, uniform_share=0.3, tempered_share=0.5)


@pytest.mark.parametrize("name", ["loop", "mixed", "ising"])
def test_samples_follow_the_policy(name):
    model = MODELS[name]
    policy = tiny_policy(sizes_of(model))
    states = Enumeration(model).states
    probabilities = exact_log_q(policy, states).exp()
    columns, ranks = policy.sample(20_000, generator=torch.Generator().manual_seed(1))
    assert chi_square_p_value(states, columns.T, probabilities) > FALSE_FAILURE
    paths, places = every_path(model)
    joint = policy.log_paths(paths, places).log_forward.detach().sum(0).exp()
    found = torch.cat((columns, ranks)).T
    assert chi_square_p_value(torch.cat((paths, places)).T, found, joint) > FALSE_FAILURE
    columns, _ = policy.sample(20_000, EXPLORING, torch.Generator().manual_seed(1))
    assert chi_square_p_value(states, columns.T, probabilities) < FALSE_FAILURE  # power


@pytest.mark.parametrize(
    "policy",
    [Policy(temperature=2.0), Policy(uniform_share=0.3), EXPLORING],
    ids=["tempered", "uniform-mixture", "both"],
)
def test_exploration_is_as_stated(policy):
    """The first step of a path: a choice of one of all pairs."""
    sampler = tiny_policy([2, 3])
    features, is_set = rows_of(sampler, [(UNSET, UNSET)])
    log_forward = sampler.evaluate(features, is_set, forward=True).log_forward[0].detach()
    on_policy, tempered = log_forward.exp(), (log_forward / policy.temperature).softmax(0)
    mixed = policy.tempered_share * tempered + (1 - policy.tempered_share) * on_policy
    wanted = (1 - policy.uniform_share) * mixed + policy.uniform_share / 5
    columns, ranks = sampler.sample(20_000, policy, torch.Generator().manual_seed(1))
    first = ranks.argmin(0)
    found = torch.stack((first, columns.gather(0, first[None])[0]), 1)
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]])
    assert chi_square_p_value(pairs, found, wanted) > FALSE_FAILURE


@pytest.mark.parametrize("is_backward_learned", [False, True])
def test_backward_samples_follow_the_backward_policy(is_backward_learned):
    policy = tiny_policy([2, 3, 2], is_backward_learned=is_backward_learned)
    orders = torch.tensor(list(itertools.permutations(range(3))))
    state = torch.tensor([[1], [2], [0]])
    log_backward = policy.log_paths(state.expand(-1, 6), orders.T).log_backward
    ranks = policy.sample_backward(state.expand(-1, 20_000), torch.Generator().manual_seed(1))
    wanted = log_backward.detach().sum(0).exp()
    assert chi_square_p_value(orders, ranks.T, wanted) > FALSE_FAILURE
    uniform = torch.full((6,), 1 / 6)
    is_uniform = chi_square_p_value(orders, ranks.T, uniform) > FALSE_FAILURE
    assert is_uniform != is_backward_learned


# -- training ----------------------------------------------------------------------------------


def train(task, steps, rate, batch=128):
    """A plain loop: fresh paths for every update, an eighth of their steps uniform."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(task.parameter_groups(rate), betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        task.draw(batch, Policy(uniform_share=0.125), 1.0, generator)
        optimizer.zero_grad()
        task.loss().backward()
        optimizer.step()
        schedule.step()


def lattice_task(objective, sigma=0.2, **options):
    model = zoo.ising_lattice(side=3, sigma=sigma, seed=0)
    generator = torch.Generator().manual_seed(0)
    policy = AnyOrderPolicy(sizes_of(model), 64, generator=generator, **options)
    return AnyOrderTask(model, policy, AnyOrderObjective(objective))


def divergence(task):
    """KL(p, q) over all states, q being summed over all orders."""
    oracle = Enumeration(task.scorer)
    log_p = oracle.probabilities().log()
    return float((log_p.exp() * (log_p - exact_log_q(task.sampler, oracle.states))).sum())


@pytest.mark.parametrize(
    ("objective", "steps", "rate"),
    [
        ("tb", 400, 1e-2),
        pytest.param("db", 1000, 1e-2, marks=pytest.mark.slow),
        pytest.param("subtb", 1000, 1e-2, marks=pytest.mark.slow),
        pytest.param("fl-db", 1200, 1e-2, marks=pytest.mark.slow),
        pytest.param("fl-subtb", 700, 1e-2, marks=pytest.mark.slow),
    ],
)
def test_every_objective_trains_a_lattice(objective, steps, rate):
    task = lattice_task(objective)
    before = divergence(task)
    train(task, steps, rate)
    after = divergence(task)
    assert before > 0.5
    assert after <= 0.02
    oracle = Enumeration(task.scorer)
    assert float(task.objective.log_partition.detach()) == pytest.approx(
        oracle.log_partition(), abs=0.15
    )
    estimate = task.estimate(4000, torch.Generator().manual_seed(1))
    assert estimate.log_partition == pytest.approx(oracle.log_partition(), abs=5 * estimate.stderr)
    assert estimate.ess_fraction > 0.8
