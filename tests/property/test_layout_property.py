"""Layouts of random variables with random inputs: what must always hold."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltaai.conditionals import Layout
from deltaai.conditionals.table import TableConditionals


@st.composite
def layouts(draw, most_inputs=9):
    """Up to 12 variables of 1 to 5 states, each with any of the others as inputs, in any order."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=12))
    inputs = []
    for variable in range(len(sizes)):
        others = [u for u in range(len(sizes)) if u != variable]
        mixed = draw(st.permutations(others))
        inputs.append(tuple(mixed[: draw(st.integers(0, most_inputs))]))
    return Layout.build(sizes, inputs)


def random_columns(layout, count, seed=0):
    rng = np.random.default_rng(seed)
    shape = (layout.num_variables, count)
    return torch.from_numpy(rng.integers(0, np.array(layout.num_states)[:, None], shape))


@given(layouts())
def test_every_variable_stands_in_one_block_of_its_kind(layout):
    seen = torch.cat([block.variables for block in layout.blocks])
    assert sorted(seen.tolist()) == list(range(layout.num_variables))
    for number, block in enumerate(layout.blocks):
        for place, variable in enumerate(block.variables.tolist()):
            assert layout.block_of[variable].tolist() == [number, place]
            assert layout.num_states[variable] == block.head.num_states == block.num_logits + 1
            assert layout.first_row_of[variable] == block.first_row + place * block.num_logits


@given(layouts())
def test_padding_stands_behind_the_inputs_and_reads_zeros(layout):
    zero_row, nobody = layout.encoding.zero_row, layout.num_variables
    for block in layout.blocks:
        # Somebody needs the whole width, and not much of it is padding.
        longest = max(len(layout.inputs[v]) for v in block.variables.tolist())
        assert block.num_inputs == longest
        for variable, row, features in zip(
            block.variables.tolist(),
            block.inputs.tolist(),
            block.feature_rows.tolist(),
            strict=True,
        ):
            inputs = layout.inputs[variable]
            assert tuple(row[: len(inputs)]) == inputs
            assert set(row[len(inputs) :]) <= {nobody}
            for u, rows in zip(row, features, strict=True):
                count = 0 if u == nobody else layout.encoding.num_features[u]
                first = 0 if u == nobody else layout.encoding.first_row[u]
                assert rows[:count] == list(range(first, first + count))
                assert set(rows[count:]) <= {zero_row}


@given(layouts())
def test_rows_slots_and_flips_follow_one_another(layout):
    row = slot = flip = 0
    for block in layout.blocks:
        assert (block.rows.start, block.slots.start, block.flips.start) == (row, slot, flip)
        row, slot, flip = block.rows.stop, block.slots.stop, block.flips.stop
    assert (row, slot, flip) == (layout.num_rows, layout.num_slots, layout.num_flips)
    assert row == sum(states - 1 for states in layout.num_states)
    assert len(layout.slot_variable) == len(layout.slot_input) == slot
    sizes = torch.tensor(layout.num_states)[layout.slot_variable] - 1
    assert torch.equal(layout.first_flip_of, sizes.cumsum(0) - sizes)
    assert flip == int(sizes.sum())


@given(layouts())
def test_slots_are_found_for_every_pair_and_no_other(layout):
    every = np.arange(layout.num_variables)
    variables, inputs = np.meshgrid(every, every, indexing="ij")
    slots = layout.slots_of(variables, inputs)
    for v in every:
        for u in every:
            assert (slots[v, u] >= 0) == (u in layout.inputs[v])
            if slots[v, u] >= 0:
                assert layout.slot_variable[slots[v, u]] == v
                assert layout.slot_input[slots[v, u]] == u
    found = slots[slots >= 0]
    assert len(set(found.tolist())) == len(found) == sum(map(len, layout.inputs))


@given(layouts(), st.sampled_from([torch.float32, torch.float64]))
def test_encoded_states_can_be_read_back(layout, dtype):
    columns = random_columns(layout, 7)
    encoding = layout.encoding
    rows = encoding.encode(columns, dtype)
    assert rows.dtype == dtype
    assert rows.shape == (encoding.num_rows + 1, 7)
    assert not bool(rows[encoding.zero_row].any())
    for variable, states in enumerate(layout.num_states):
        first, count = encoding.first_row[variable], encoding.num_features[variable]
        assert count == (1 if states == 2 else states)
        own = rows[first : first + count]
        if states == 2:
            assert bool((own.abs() == 1).all())
            read = (own[0] + 1) / 2
        else:
            assert bool((own.sum(0) == 1).all())
            read = own.argmax(0)
        assert torch.equal(read.long(), columns[variable])


@given(layouts(most_inputs=4))
def test_tables_have_one_entry_for_each_joint_state_of_the_inputs(layout):
    """Entries of members do not overlap, and follow the states of the inputs, last one fastest."""
    tables = TableConditionals(layout)
    columns = random_columns(layout, 30)
    features = layout.encoding.encode(columns)
    for number, block in enumerate(layout.blocks):
        members = torch.arange(block.size)
        found = tables.entries(number, members, features[block.feature_rows])
        first = 0
        for place, variable in enumerate(block.variables.tolist()):
            shape = tuple(layout.num_states[u] for u in layout.inputs[variable])
            states = tuple(columns[list(layout.inputs[variable])].numpy())
            expected = np.ravel_multi_index(states, shape) if shape else np.zeros(30, dtype=int)
            assert found[place].tolist() == (first + expected).tolist()
            first += int(np.prod(shape, dtype=int))
        assert first == len(tables.tables[number])
