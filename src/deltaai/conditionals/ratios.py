"""Log-ratios of a product of conditionals when one variable changes (key ``delta-constraint``).

    log q(x) - log q(x') = Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa) - log q(x'_v | x'_Pa)

for every u at once, from the parameters of all heads at x and with each input in turn changed. It
serves q in the local objective, and p where p is itself a product of conditionals.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.proposal import Observed


def log_ratios_of(
    layout: Layout,
    logits: Float[Tensor, "row batch"],
    flips: Float[Tensor, "flip batch"],
    columns: Int[Tensor, "var batch"],
    others: Int[Tensor, "var batch"],
    known: Known = None,
    observed: Observed | None = None,
) -> Float[Tensor, "var batch"]:
    """Log-ratio of each state to itself with one variable at its value in ``others``, for each.

    Parameters
    ----------
    logits, flips : parameters of the heads, at the states and with each input changed.
    known : which inputs each variable may see.
    observed : variables that are given in each column, and so have no conditional.
    """
    num_columns = columns.shape[1]
    own = logits.new_zeros(layout.num_variables, num_columns)
    children = logits.new_zeros(layout.num_variables + 1, num_columns)  # the last takes padding
    for block in layout.blocks:
        rows = block.rows_of(logits)
        values = columns.index_select(0, block.variables)
        changed = others.index_select(0, block.variables)
        own = own.index_copy(0, block.variables, block.head.log_ratio(rows, values, changed))
        if block.num_flipped == 0 or block.num_logits == 0:
            continue
        base = block.head.log_density(rows, values)
        shape = (block.size, block.num_flipped, block.num_logits, num_columns)
        repeated = values[:, None].expand(-1, block.num_flipped, -1)
        after = block.head.log_density(flips[block.flips].view(shape), repeated)
        ratio = base[:, None] - after  # log q(x_v | x_Pa) - log q(x_v | x'_Pa)
        if known is not None:
            seen = known[block.slots].view(block.size, block.num_inputs, num_columns)
            ratio = ratio * seen[:, : block.num_flipped]
        if observed is not None:  # an observed variable has no conditional
            ratio = ratio * ~observed[block.variables][:, None]
        inputs = block.inputs[:, : block.num_flipped]
        children = children.index_add(0, inputs.reshape(-1), ratio.flatten(0, 1))
    return own + children[:-1]
