"""The masked autoencoder against a plain evaluation of one row at a time."""

import pytest
import torch

from deltaai.conditionals import Layout, known_under
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.fitting.fit_model import fit
from deltaai.models import zoo
from deltaai.sampling import Given, Schedule, sample_sequentially

NUM_STATES = [2, 3, 2, 2, 1, 4]
# As under one order: the inputs are parents. As under many: they are neighbours, with masks.
PARENTS = [[], [0], [0, 1], [], [2], [1, 2, 3]]
NEIGHBOURS = [[1, 2], [0, 2, 5], [0, 1, 4, 5], [5], [2], [1, 2, 3]]
BATCH = 5

pytestmark = pytest.mark.usefixtures("one_thread")


def tiny(inputs, dtype=torch.float64):
    """A small network all of whose weights are random, those that start at zero included."""
    layout = Layout.build(NUM_STATES, inputs)
    generator = torch.Generator().manual_seed(0)
    network = MaskedAutoencoder(layout, hidden=6, depth=3, generator=generator).to(dtype)
    for value in network.parameters():
        value.data += 0.3 * torch.randn(value.shape, generator=generator, dtype=dtype)
    return network


def random_columns(seed):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(NUM_STATES)[:, None]
    return (torch.rand(len(NUM_STATES), BATCH, generator=generator) * sizes).long()


def random_known(layout, seed):
    """Masks, some of which hide all inputs of a variable; padding is sometimes marked as known."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(layout.num_slots, BATCH, generator=generator) < 0.5).double()


def plain(network, variable, known, features):
    """Logits of one variable in one column, given the set of known inputs."""
    layout = network.layout
    num_logits = NUM_STATES[variable] - 1
    rows = layout.first_row_of[variable] + torch.arange(num_logits)
    if not known:
        return network.marginals[rows]
    state = torch.zeros(layout.encoding.num_rows, dtype=features.dtype)
    for other in known:
        first, count = layout.encoding.first_row[other], layout.encoding.num_features[other]
        state[first : first + count] = features[first : first + count]
    for layer in network.body.layers:
        state = layer.weight @ state + layer.bias
        mean, variance = state.mean(), state.var(unbiased=False)
        state = (state - mean) / (variance + 1e-5).sqrt() * layer.norm.weight + layer.norm.bias
        state = state.relu()
    return network.heads[rows] @ state + network.head_biases[rows]


def known_inputs(layout, known, variable, column):
    slots = zip(layout.slot_variable.tolist(), layout.slot_input.tolist(), strict=True)
    return [
        other
        for slot, (owner, other) in enumerate(slots)
        if owner == variable
        and other < layout.num_variables
        and (known is None or bool(known[slot, column]))
    ]


CASES = {
    "one order": (PARENTS, False),
    "neighbours, all known": (NEIGHBOURS, False),
    "masks": (NEIGHBOURS, True),
}


@pytest.fixture(params=CASES)
def case(request):
    inputs, has_masks = CASES[request.param]
    network = tiny(inputs)
    known = random_known(network.layout, 3) if has_masks else None
    encode = network.layout.encoding.encode
    features, flipped = (encode(random_columns(seed), torch.float64) for seed in (1, 2))
    return network, features, flipped, known


def test_logits_are_those_of_one_row_at_a_time(case):
    network, features, _, known = case
    layout = network.layout
    logits = network.logits(features, known)
    assert logits.shape == (layout.num_rows, BATCH)
    for variable, states in enumerate(NUM_STATES):
        rows = layout.first_row_of[variable] + torch.arange(states - 1)
        for column in range(BATCH):
            seen = known_inputs(layout, known, variable, column)
            expected = plain(network, variable, seen, features[:, column])
            torch.testing.assert_close(logits[rows, column], expected)


def test_flips_are_plain_evaluations_of_changed_states(case):
    network, features, flipped, known = case
    layout = network.layout
    logits, flips = network.logits_and_flips(features, flipped, known)
    torch.testing.assert_close(logits, network.logits(features, known))
    assert flips.shape == (layout.num_flips, BATCH)
    slots = zip(layout.slot_variable.tolist(), layout.slot_input.tolist(), strict=True)
    for slot, (variable, other) in enumerate(slots):
        rows = layout.first_flip_of[slot] + torch.arange(NUM_STATES[variable] - 1)
        for column in range(BATCH):
            seen = known_inputs(layout, known, variable, column)
            changed = features[:, column].clone()
            if other in seen:
                first, count = layout.encoding.first_row[other], layout.encoding.num_features[other]
                changed[first : first + count] = flipped[first : first + count, column]
            expected = plain(network, variable, seen, changed)
            torch.testing.assert_close(flips[rows, column], expected)


def test_logits_at_handed_inputs_are_the_same(case):
    network, features, _, known = case
    layout = network.layout
    expected = network.logits(features, known)
    for number, block in enumerate(layout.blocks):
        members = torch.arange(block.size).flip(0).repeat(2)  # any order, and repeated
        inputs = features[block.feature_rows[members]]
        shape = (block.size, block.num_logits, BATCH)
        wanted = expected[block.rows].view(shape)[members]
        if known is None:
            torch.testing.assert_close(network.logits_at(number, members, inputs), wanted)
            continue
        masks = known[block.slots].view(block.size, block.num_inputs, BATCH)[members]
        for column in range(BATCH):  # one mask serves all columns of a pair
            logits = network.logits_at(number, members, inputs, masks[:, :, column])
            torch.testing.assert_close(logits[:, :, column], wanted[:, :, column])
        torch.testing.assert_close(network.logits_at(number, members, inputs, masks), wanted)


def test_particles_are_drawn_with_their_log_prob():
    """Given evidence, every column comes with a mask of its own."""
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    sampler = fit(model, orders="many", family="mae", hidden=8, steps=2)
    proposal, dag = sampler.proposal, sampler.random_order(0)
    columns = torch.ones(model.num_variables, 50, dtype=torch.long)
    observed = torch.zeros_like(columns, dtype=torch.bool)
    observed[[0, 8]] = True
    known = known_under(proposal.layout, [dag]).expand(-1, 50)
    states, log_q, _ = sample_sequentially(
        proposal,
        Schedule.build(proposal, [dag], masks=True, is_given=True),
        Given(columns, observed, known),
        num_groups=5,
        generator=torch.Generator().manual_seed(0),
    )
    assert bool((states[[0, 8]] == 1).all())
    assert len(states.unique(dim=1).T) > 10
    torch.testing.assert_close(log_q.double(), sampler.log_prob(states.T, dag=dag).double())


def test_marginals_follow_from_structure_not_from_values():
    """Features that happen to be zero are still known: the network answers, not the marginals."""
    network = tiny(NEIGHBOURS)
    layout = network.layout
    silent = torch.zeros(layout.encoding.num_rows + 1, BATCH, dtype=torch.float64)
    everything = torch.ones(layout.num_slots, BATCH, dtype=torch.float64)
    marginals = network.marginals[:, None].expand(-1, BATCH)
    for known in (None, everything):
        assert bool((network.logits(silent, known) != marginals).all())
    loud = layout.encoding.encode(random_columns(0), torch.float64)
    torch.testing.assert_close(network.logits(loud, torch.zeros_like(everything)), marginals)
    # Padding that a mask calls known is still no input.
    lonely = tiny(PARENTS)
    known = torch.ones(lonely.layout.num_slots, BATCH, dtype=torch.float64)
    torch.testing.assert_close(lonely.logits(loud, known), lonely.logits(loud))


def test_gradients_agree_with_finite_differences(case):
    """Along a random direction of every parameter."""
    network, features, flipped, known = case
    weights = torch.linspace(-1, 1, network.layout.num_rows + network.layout.num_flips).double()

    def loss():
        outputs = network.logits_and_flips(features, flipped, known)
        return weights @ torch.cat(outputs).square().sum(1)

    generator, step = torch.Generator().manual_seed(7), 1e-6
    loss().backward()
    with torch.no_grad():
        for name, value in network.named_parameters():
            direction = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            sides = []
            for move in (step * direction, -step * direction):
                value.add_(move)
                sides.append(float(loss()))
                value.sub_(move)
            expected = (sides[0] - sides[1]) / (2 * step)
            found = float((value.grad * direction).sum())
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6), name


def test_chunks_change_nothing(case, monkeypatch):
    network, features, flipped, known = case
    whole = network.logits_and_flips(features, flipped, known)
    monkeypatch.setattr("deltaai.conditionals.mae._ROWS_AT_ONCE", 3)
    for part, expected in zip(
        network.logits_and_flips(features, flipped, known), whole, strict=True
    ):
        torch.testing.assert_close(part, expected)


def test_marginals_have_their_own_learning_rate():
    network = tiny(PARENTS)
    body, marginals = network.parameter_groups(1e-3)
    assert marginals["params"] == [network.marginals]
    assert marginals["lr"] == pytest.approx(0.1)
    assert body["lr"] == pytest.approx(1e-3)
    assert len(body["params"]) + 1 == len(list(network.parameters()))
    torch.optim.Adam(network.parameter_groups(1e-3))


def test_the_paper_has_three_layers_of_512():
    network = MaskedAutoencoder(Layout.build([2] * 4, [[], [0], [1], [2]]))
    assert [tuple(layer.weight.shape) for layer in network.body.layers] == [
        (512, 4),
        (512, 512),
        (512, 512),
    ]
    assert network.heads.shape == (4, 512)
    first, second = (
        MaskedAutoencoder(network.layout, 8, generator=torch.Generator().manual_seed(1))
        for _ in range(2)
    )
    for mine, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, other)
