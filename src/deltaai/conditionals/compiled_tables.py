"""Log-tables as logits of variables with two states, looked up in one compiled pass.

A table of v is a row of numbers, log φ(second state) - log φ(first), one for each joint state of
the others in its scope. In a column it is read at

    entry = first + Σ_s stride_s x_s,

and with input s changed at entry + stride_s (x'_s - x_s): no state is gathered again for a flip.
Tables are taken one after the other, each for all columns, so that its numbers stay in the
processor's cache.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from deltaai.conditionals.compiled_activations import Floats, Ints, compiled

_INTS, _VECTOR, _MATRIX = "i8[::1]", "f4[::1]", "f4[:,::1]"
_ZERO = np.float32(0)

# Of a row the first table; of a table the first entry and the first input; of an input its variable
# and its stride; and the numbers.
_TABLES = f"{_INTS}, {_INTS}, {_INTS}, {_INTS}, {_INTS}, {_VECTOR}"


@compiled(
    f"void({_TABLES}, i4[:,::1], i4[:,::1], {_INTS}, {_INTS}, {_INTS}, {_MATRIX}, {_MATRIX},i8, i8)"
)
@no_type_check  # numba reads the function as it is written
def add_tables(
    first_table: Ints,
    first_entry: Ints,
    first_input: Ints,
    seen: Ints,
    strides: Ints,
    values: Floats,
    states: Ints,
    others: Ints,
    flip_of: Ints,
    flip_starts: Ints,
    flip_counts: Ints,
    logits: Floats,
    flips: Floats,
    start: int,
    stop: int,
) -> None:
    """Fill in the logits of some rows, and those with each input in turn changed.

    Parameters
    ----------
    first_table, first_entry, first_input, seen, strides, values : the tables.
    states, others : of all variables in all columns, and what each is changed to; without columns
        nothing is changed.
    flip_of : the row of flips of each input.
    flip_starts, flip_counts : where the flips of each row begin, and how many there are.
    start, stop : the rows.
    """
    width, has_flips = states.shape[1], others.shape[1] > 0
    entry = np.empty(width, np.int64)
    value = np.empty(width, np.float32)
    for r in range(start, stop):
        logit = logits[r]
        logit[:] = _ZERO
        for f in range(flip_starts[r], flip_starts[r] + flip_counts[r]):
            flips[f, :] = _ZERO
        for t in range(first_table[r], first_table[r + 1]):
            entry[:] = first_entry[t]
            for i in range(first_input[t], first_input[t + 1]):
                state, stride = states[seen[i]], strides[i]
                for b in range(width):
                    entry[b] += stride * state[b]
            for b in range(width):
                value[b] = values[entry[b]]
                logit[b] += value[b]
            if has_flips:
                for i in range(first_input[t], first_input[t + 1]):
                    state, other, stride = states[seen[i]], others[seen[i]], strides[i]
                    flip = flips[flip_of[i]]
                    for b in range(width):
                        flip[b] += values[entry[b] + stride * (other[b] - state[b])] - value[b]
        for f in range(flip_starts[r], flip_starts[r] + flip_counts[r]):
            flip = flips[f]
            for b in range(width):
                flip[b] += logit[b]
