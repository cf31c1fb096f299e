"""How much memory training takes, from the layout of its networks and the size of a batch.

An update holds the hidden units of every flip until the way back, and for the block under way
their changes and gradients besides. Beside them stand log-factors, masks and logits of the flips,
weights with gradients and moments, and the states of an estimate with their features and logits.
How often each of these is alive at the worst moment was fitted to measured peaks (lattices of 8 to
32, ladders, Potts and factor lattices; one order, many, and any evidence): predictions are 0.87 to
1.37 times those, 1.05 mostly. For Bayesian networks from files (alarm, child, hepar2, mildew,
water) they are 0.97 to 1.8 times, most where there is little to hold; for one variable of a
thousand or a hundred thousand states 0.85 to 1.3. Only the local family is known here.
"""

from __future__ import annotations

from deltaai.conditionals import Layout

_FLOAT = 4
_LEAST_BYTES = 8 * 10**6
# How many times each is there at the worst moment.
_UNITS, _UNITS_OF_LARGEST, _FLIPS, _MASKS, _WEIGHTS, _STATES = 0.75, 5.0, 15.0, 17.0, 8.0, 17.0
_ROWS = 4.0  # features and logits of an estimate, beyond one of each for a variable


def training_bytes(
    layout: Layout, hidden: int, batch_size: int, estimate_size: int, *, takes_masks: bool
) -> int:
    """Peak memory of training, beyond that of the model.

    Parameters
    ----------
    layout : inputs of the conditionals.
    hidden : units of each network.
    batch_size : states of an update.
    estimate_size : states of an estimate of log Z.
    takes_masks : whether inputs may be unknown: with many orders, or evidence.
    """
    others = _WEIGHTS * num_weights(layout, hidden, takes_masks=takes_masks)
    more_rows = max(layout.num_rows + layout.encoding.num_rows - 2 * layout.num_variables, 0)
    others += estimate_size * (_STATES * layout.num_variables + _ROWS * more_rows)
    per_column = bytes_per_column(layout, hidden, takes_masks=takes_masks)
    return _LEAST_BYTES + int(batch_size * per_column + _FLOAT * others)


def bytes_per_column(layout: Layout, hidden: int, *, takes_masks: bool) -> float:
    """What an update holds for each of its states: the flips of all networks."""
    units = [hidden * block.size * block.num_flipped for block in layout.blocks]
    per_column = _UNITS * sum(units) + _UNITS_OF_LARGEST * max(units, default=0)
    per_column += _FLIPS * layout.num_flips + (_MASKS * layout.num_slots if takes_masks else 0)
    return _FLOAT * per_column


def num_weights(layout: Layout, hidden: int, *, takes_masks: bool) -> int:
    """Weights of all networks of the local family."""
    total = 0
    for block in layout.blocks:
        inputs = block.num_inputs * (block.num_features + takes_masks)
        total += block.size * ((hidden + block.num_logits) * (inputs + 1))
        total += block.size * block.num_logits * hidden
    return total
