"""Logits of variables with two states, computed or drawn one after the other, in one compiled pass.

With z the features of what a variable sees,

    logit_v = bypass_v z + c_v + Σ_h last_{v,h} act(bias_{v,h} + context_{v,h} + first_{v,h} z)

A network of a few dozen units is less work than starting the operations that would compute it, so
where every variable waits for the one before it, drawing step by step takes most of its time for
nothing; and where all states are there, gathering the inputs takes longer than using them. Columns
are taken so many at a time that they stay in the processor's cache; the weights of a variable serve
all of them. What is known before training is added on the way, as entries of tables
(:mod:`deltaai.conditionals.compiled_tables`).
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from deltaai.conditionals.compiled_activations import (
    KINDS,
    Floats,
    Ints,
    activated,
    compiled,
    inlined,
    sigmoid,
    with_slope,
)

__all__ = ["KINDS", "backward", "forward", "logits_in_order"]

_ZERO, _ONE = np.float32(0), np.float32(1)
_AT_ONCE = 128  # columns
_INTS, _VECTOR, _MATRIX, _CUBE = "i8[::1]", "f4[::1]", "f4[:,::1]", "f4[:,:,::1]"


@inlined
@no_type_check  # numba reads these functions as they are written
def _gather(rows: Floats, wanted: Ints, low: int, high: int, tile: Floats) -> None:
    """Copy some columns of the rows that are wanted."""
    for i in range(len(wanted)):
        row, here = rows[wanted[i], low:high], tile[i]
        for b in range(high - low):
            here[b] = row[b]


@inlined
@no_type_check
def _put(row: Floats, here: Floats) -> None:
    """Copy numbers to where they are wanted."""
    for b in range(len(row)):
        row[b] = here[b]


@inlined
@no_type_check
def _product(one: Floats, other: Floats, width: int) -> np.float32:
    """The sum of products over columns."""
    total = _ZERO
    for b in range(width):
        total += one[b] * other[b]
    return total


@inlined
@no_type_check
def _add_products(units: Floats, weights: Floats, seen: Floats, count: int, width: int) -> None:
    """Add the products of weights and inputs to the units, four inputs at a time."""
    i = 0
    while i + 4 <= count:
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        z0, z1, z2, z3 = seen[i], seen[i + 1], seen[i + 2], seen[i + 3]
        for b in range(width):
            units[b] += w0 * z0[b] + w1 * z1[b] + w2 * z2[b] + w3 * z3[b]
        i += 4
    while i < count:
        w0, z0 = weights[i], seen[i]
        for b in range(width):
            units[b] += w0 * z0[b]
        i += 1


@inlined
@no_type_check
def _begin(units: Floats, constant: np.float32, context: Floats, at: Ints) -> None:
    """Start from a constant and, if there is any, the context of each column."""
    units[:] = constant
    if len(context):
        for b in range(len(at)):
            units[b] += context[at[b]]


@inlined
@no_type_check
def _add_entries(
    logit: Floats,
    v: int,
    first_table: Ints,
    first_entry: Ints,
    first_input: Ints,
    seen: Ints,
    strides: Ints,
    values: Floats,
    features: Floats,
    low: int,
    high: int,
    entry: Ints,
) -> None:
    """Add the entries of a variable's tables; inputs whose feature is above zero count."""
    for t in range(first_table[v], first_table[v + 1]):
        entry[:] = first_entry[t]
        for i in range(first_input[t], first_input[t + 1]):
            row, stride = features[seen[i], low:high], strides[i]
            for b in range(high - low):
                entry[b] += stride if row[b] > _ZERO else 0
        for b in range(high - low):
            logit[b] += values[entry[b]]


@compiled(
    "void(i8[::1], i8[::1], i8[::1], i8[::1], f4[::1], f4[::1], f4[:,::1], f4[:,::1], f4[::1],"
    "f4[:,:,::1], i8[::1], i8[::1], f4[:,::1], f4[::1], f4[:,::1], f4[:,::1],"
    "i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], f4[::1], i8, i8, i8)",
)
@no_type_check  # numba reads the function as it is written
def logits_in_order(
    order: Ints,
    starts: Ints,
    counts: Ints,
    inputs: Ints,
    first: Floats,
    bypass: Floats,
    bias: Floats,
    last: Floats,
    constant: Floats,
    context: Floats,
    place: Ints,
    own: Ints,
    chance: Floats,
    scale: Floats,
    features: Floats,
    logits: Floats,
    first_table: Ints,
    first_entry: Ints,
    first_input: Ints,
    table_inputs: Ints,
    strides: Ints,
    values: Floats,
    kind: int,
    start: int,
    stop: int,
) -> None:
    """Fill in the logits of some columns, and the features of what is drawn.

    Parameters
    ----------
    order : in which variables are taken.
    starts, counts, inputs : where the inputs of each begin, how many there are, and their rows
        among the features.
    first, bypass, bias, last, constant : weights.
    context : added to the units and, in the last place, to the logit; empty for none.
    place : where each column's context stands.
    own : row of each variable's own feature; empty if nothing is drawn.
    chance : uniform numbers; a variable is +1 with a probability above that.
    scale : what the logits of each column are multiplied by for drawing.
    first_table, first_entry, first_input, table_inputs, strides, values : tables whose entries are
        added to the logits, and the features of their inputs; the first is empty for none.
    kind : which activation.
    start, stop : the columns.
    """
    num_hidden, is_drawn, has_tables = bias.shape[1], len(own) > 0, len(first_table) > 0
    entry = np.empty(_AT_ONCE, np.int64)
    given = np.empty((num_hidden + 1, 0), np.float32)
    seen = np.empty((counts.max(), _AT_ONCE), np.float32)
    units, logit = np.empty(_AT_ONCE, np.float32), np.empty(_AT_ONCE, np.float32)
    for low in range(start, stop, _AT_ONCE):
        high = min(low + _AT_ONCE, stop)
        width, at = high - low, place[low:high]
        for v in order:
            begin, count = starts[v], counts[v]
            if len(context):
                given = context[v]
            _gather(features, inputs[begin : begin + count], low, high, seen)
            _begin(logit, constant[v], given[num_hidden], at)
            _add_products(logit, bypass[begin:], seen, count, width)
            for h in range(num_hidden):
                _begin(units, bias[v, h], given[h], at)
                weights, weight = first[begin * num_hidden + h * count :], last[v, h]
                _add_products(units, weights, seen, count, width)
                for b in range(width):
                    logit[b] += weight * activated(units[b], kind)
            if has_tables:
                _add_entries(
                    logit,
                    v,
                    first_table,
                    first_entry,
                    first_input,
                    table_inputs,
                    strides,
                    values,
                    features,
                    low,
                    high,
                    entry,
                )
            _put(logits[v, low:high], logit)
            if is_drawn:
                value, threshold = features[own[v], low:high], chance[v, low:high]
                flat = scale[low:high]
                for b in range(width):
                    value[b] = _ONE if threshold[b] < sigmoid(flat[b] * logit[b]) else -_ONE


_FORWARD = ", ".join(
    [_INTS] * 4
    + [_VECTOR] * 2
    + [_MATRIX] * 2
    + [_VECTOR, _CUBE]
    + [_MATRIX] * 2
    + [_INTS] * 2
    + [_CUBE]
    + [_MATRIX] * 2
)


@compiled(f"void({_FORWARD}, i8, i8, i8)")
@no_type_check  # numba reads the function as it is written
def forward(
    order: Ints,
    starts: Ints,
    counts: Ints,
    inputs: Ints,
    first: Floats,
    bypass: Floats,
    bias: Floats,
    last: Floats,
    constant: Floats,
    context: Floats,
    features: Floats,
    change: Floats,
    flip_starts: Ints,
    flip_counts: Ints,
    before: Floats,
    logits: Floats,
    flips: Floats,
    kind: int,
    start: int,
    stop: int,
) -> None:
    """Fill in the logits of some variables, and those with each input in turn changed.

    Parameters
    ----------
    change : what features change by.
    flip_starts, flip_counts : where the flips of each variable begin, and how many there are.
    before : pre-activations, to be filled in too.
    start, stop : places in ``order``; everything else as above.
    """
    num_hidden, num_columns = bias.shape[1], features.shape[1]
    given = np.empty((num_hidden + 1, 0), np.float32)
    seen = np.empty((counts.max(), _AT_ONCE), np.float32)
    moves, moved = np.empty_like(seen), np.empty_like(seen)
    linear, logit = np.empty(_AT_ONCE, np.float32), np.empty(_AT_ONCE, np.float32)
    for v in order[start:stop]:
        begin, count, num_flips = starts[v], counts[v], flip_counts[v]
        if len(context):
            given = context[v]
        for low in range(0, num_columns, _AT_ONCE):
            high = min(low + _AT_ONCE, num_columns)
            width, at = high - low, np.arange(low, high)
            _gather(features, inputs[begin : begin + count], low, high, seen)
            _gather(change, inputs[begin : begin + num_flips], low, high, moves)
            _begin(linear, constant[v], given[num_hidden], at)
            _add_products(linear, bypass[begin:], seen, count, width)
            logit[:] = linear
            for i in range(num_flips):
                weight, move, total = bypass[begin + i], moves[i], moved[i]
                for b in range(width):
                    total[b] = linear[b] + weight * move[b]
            for h in range(num_hidden):
                units, weight = before[v, h, low:high], last[v, h]
                _begin(units, bias[v, h], given[h], at)
                weights = first[begin * num_hidden + h * count :]
                _add_products(units, weights, seen, count, width)
                for b in range(width):
                    logit[b] += weight * activated(units[b], kind)
                for i in range(num_flips):
                    turn, move, total = weights[i], moves[i], moved[i]
                    for b in range(width):
                        total[b] += weight * activated(units[b] + turn * move[b], kind)
            _put(logits[v, low:high], logit)
            for i in range(num_flips):
                _put(flips[flip_starts[v] + i, low:high], moved[i])


_BACKWARD = ", ".join(
    [_INTS] * 4
    + [_VECTOR]
    + [_MATRIX] * 3
    + [_INTS] * 2
    + [_CUBE]
    + [_MATRIX] * 2
    + [_VECTOR] * 2
    + [_MATRIX] * 2
    + [_VECTOR, _CUBE]
)


@compiled(f"void({_BACKWARD}, i8, i8, i8)")
@no_type_check  # numba reads the function as it is written
def backward(
    order: Ints,
    starts: Ints,
    counts: Ints,
    inputs: Ints,
    first: Floats,
    last: Floats,
    features: Floats,
    change: Floats,
    flip_starts: Ints,
    flip_counts: Ints,
    before: Floats,
    of_logits: Floats,
    of_flips: Floats,
    of_first: Floats,
    of_bypass: Floats,
    of_bias: Floats,
    of_last: Floats,
    of_constant: Floats,
    of_context: Floats,
    kind: int,
    start: int,
    stop: int,
) -> None:
    """Add slopes to those of the weights of some variables, and fill in those of the context.

    The slopes of the context are those of the units, and of the logits in the last place.
    """
    num_hidden, num_columns = last.shape[1], features.shape[1]
    seen = np.empty((counts.max(), _AT_ONCE), np.float32)
    moves, slopes = np.empty_like(seen), np.empty_like(seen)
    base, total = np.empty(_AT_ONCE, np.float32), np.empty(_AT_ONCE, np.float32)
    ones = np.ones(_AT_ONCE, np.float32)
    for v in order[start:stop]:
        begin, count, num_flips = starts[v], counts[v], flip_counts[v]
        for low in range(0, num_columns, _AT_ONCE):
            high = min(low + _AT_ONCE, num_columns)
            width, above = high - low, of_logits[v, low:high]
            _gather(features, inputs[begin : begin + count], low, high, seen)
            _gather(change, inputs[begin : begin + num_flips], low, high, moves)
            for b in range(width):
                base[b] = total[b] = above[b]
            for i in range(num_flips):
                slope, above = slopes[i], of_flips[flip_starts[v] + i, low:high]
                for b in range(width):
                    slope[b] = above[b]
                    total[b] += above[b]
                of_bypass[begin + i] += _product(slope, moves[i], width)
            _put(of_context[v, num_hidden, low:high], total)
            of_constant[v] += _product(total, ones, width)
            for i in range(count):
                of_bypass[begin + i] += _product(total, seen[i], width)
            for h in range(num_hidden):
                units, weight = before[v, h, low:high], last[v, h]
                of_units, of_weight = of_context[v, h, low:high], _ZERO
                row = begin * num_hidden + h * count
                for b in range(width):
                    unit, bend = with_slope(units[b], kind)
                    of_weight += base[b] * unit
                    of_units[b] = base[b] * weight * bend
                for i in range(num_flips):
                    turn, move, slope, of_turn = first[row + i], moves[i], slopes[i], _ZERO
                    for b in range(width):
                        unit, bend = with_slope(units[b] + turn * move[b], kind)
                        of_weight += slope[b] * unit
                        inner = slope[b] * weight * bend
                        of_units[b] += inner
                        of_turn += inner * move[b]
                    of_first[row + i] += of_turn
                of_last[v, h] += of_weight
                of_bias[v, h] += _product(of_units, ones, width)
                for i in range(count):
                    of_first[row + i] += _product(of_units, seen[i], width)
