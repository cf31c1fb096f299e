"""Log-ratios of a product of conditionals when one variable changes (key ``delta-constraint``).

    log q(x) - log q(x') = Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa) - log q(x'_v | x'_Pa)

for every u at once, from the parameters of all heads at x and with each input in turn changed. It
serves q in the local objective, and p where p is itself a product of conditionals.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.flips import is_worth_compiling, load_compiled, shared_out
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.proposal import Observed
from deltaai.models import Columns

_UNITS = 4  # hidden units that take as long as the logarithm of a flip


def log_ratios_of(
    layout: Layout,
    logits: Float[Tensor, "row batch"],
    flips: Float[Tensor, "flip batch"],
    columns: Columns,
    others: Columns,
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
    if known is None and observed is None and _is_compiled(layout, logits):
        return _in_one_pass(layout, logits, flips, columns, others)
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


def _is_compiled(layout: Layout, logits: Float[Tensor, "row batch"]) -> bool:
    """Whether all variables have two states, and there is enough to do for the compiled pass."""
    return (
        layout.is_binary
        and logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and is_worth_compiling(_UNITS * layout.num_flips * logits.shape[1])
        and load_compiled() is not None
    )


def _in_one_pass(
    layout: Layout,
    logits: Float[Tensor, "row batch"],
    flips: Float[Tensor, "flip batch"],
    columns: Columns,
    others: Columns,
) -> Float[Tensor, "var batch"]:
    variables = layout.row_variable
    values = columns.index_select(0, variables).to(logits.dtype)
    moves = values - others.index_select(0, variables).to(logits.dtype)
    found: Tensor = _Ratios.apply(  # type: ignore[no-untyped-call]
        layout, values.mul_(2).sub_(1), moves, logits, flips
    )
    return found


class _Ratios(torch.autograd.Function):
    """The compiled pass, and its gradient in logits and flips."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        layout: Layout,
        signs: Tensor,
        moves: Tensor,
        logits: Tensor,
        flips: Tensor,
    ) -> Tensor:
        ctx.layout = layout
        given = [value.detach().contiguous() for value in (signs, moves, logits, flips)]
        ctx.save_for_backward(*given)
        ratios = logits.new_zeros(layout.num_variables + 1, logits.shape[1])
        _run("forward", layout, [*given, ratios])
        return ratios[:-1]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        given = ctx.saved_tensors
        of_logits, of_flips = (torch.empty_like(value) for value in given[2:])
        above = torch.cat((slopes[0], slopes[0].new_zeros(1, slopes[0].shape[1])))
        _run("backward", ctx.layout, [*given, above, of_logits, of_flips])
        return None, None, None, of_logits, of_flips


def _run(name: str, layout: Layout, tensors: list[Tensor]) -> None:
    kernel = getattr(importlib.import_module("deltaai.conditionals.compiled_ratios"), name)
    indices = [layout.row_variable, layout.row_flips[0], layout.row_flips[1], layout.flip_input]
    arrays = [value.numpy() for value in (*indices, *tensors)]
    number = tensors[0].shape[1]
    shared_out(
        lambda start, stop: kernel(*arrays, start, stop),
        number,
        _UNITS * layout.num_flips * number,
        is_columns=True,
    )
