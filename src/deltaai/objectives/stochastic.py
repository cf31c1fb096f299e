"""The local objective with one child at a time (equation key ``stochastic``).

The loss of a variable u is L = ½ (g + Σ_i f_i)², with a term f_i for each of its n children. For
n > 1 and a uniform pair i ≠ j, with a bar where gradients are blocked,

    L_i  = ½ (g + n f̄_i)²,      L_ij = n/2 (ḡ + (n-1) f̄_i + f_j)²,      E[∇L_i + ∇L_ij] = ∇L

so two children stand for all of them (appendix "Stochastic losses for squared-sum objectives").
Only the gradient is unbiased: the value of L_i + L_ij is no estimate of L. With at most one child
the exact square is taken.

Costs, for each variable and sample: one conditional, shared by all terms, and at most two flipped
ones, where all of them take one for each child. The flipped ones are evaluated from their inputs
up, without the shared first layer that makes a flip in
:class:`~deltaai.conditionals.LocalConditionals` cheap: there this saves memory (two flips a
variable in place of one an arc) and hardly any time. It saves both in families where a flip costs
a full evaluation. The gradient pays with variance that grows with the number of children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from deltaai.conditionals import Context, Layout, Proposal, log_conditionals_of
from deltaai.errors import StateError
from deltaai.objectives.delta import DeltaBatch, DeltaObjective
from deltaai.randomness import uniform
from deltaai.sampling import Paths


def two_term_loss(
    g: Float[Tensor, "*shape"],
    blocked: Float[Tensor, "*shape"],
    graded: Float[Tensor, "*shape"],
    count: Int[Tensor, "*shape"],
) -> Float[Tensor, "*shape"]:
    """L_i + L_ij of chosen terms; the exact square where there are fewer than two.

    Parameters
    ----------
    g : what is always there.
    blocked : f_i, whose gradient is blocked here; not looked at where ``count`` is below two.
    graded : f_j, or the only term, or zero where there is none.
    count : number of terms n.
    """
    n = count.to(g.dtype)
    f_i, f_j = blocked.detach(), graded
    first = 0.5 * (g + n * f_i) ** 2
    second = 0.5 * n * (g.detach() + (n - 1) * f_i + f_j) ** 2
    return torch.where(count > 1, first + second, 0.5 * (g + f_j) ** 2)


def stochastic_square(
    g: Float[Tensor, "*shape"],
    f: Float[Tensor, "*shape term"],
    mask: Bool[Tensor, "*shape term"],
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*shape"]:
    """Loss whose expected gradient is that of ½ (g + Σ f)², from two of the terms.

    Parameters
    ----------
    g : what is always there.
    f : the terms.
    mask : which of the terms are real.
    generator : randomness of the choice.
    """
    f, mask = pad(f, (0, 2)), pad(mask, (0, 2))  # so that there are two to take
    chance = uniform(f.shape, generator, dtype=torch.float32, device=f.device)
    # Real terms in random order come first.
    order = torch.where(mask, chance, chance + 1).argsort(-1)
    count = mask.sum(-1)
    graded, blocked = torch.where(mask, f, 0).gather(-1, order[..., :2]).unbind(-1)
    return two_term_loss(g, blocked, graded, count)


def stochastic_delta_losses(
    proposal: Proposal,
    batch: DeltaBatch,
    generator: torch.Generator | None = None,
    *,
    samples_per_draw: int = 1,
) -> Float[Tensor, "var batch"]:
    """Two-term loss of every variable in every sample.

    Its expected gradient is that of half the squares of
    :func:`~deltaai.objectives.delta.delta_residuals`.

    Parameters
    ----------
    proposal : q.
    batch : prepared states, in one order or many.
    generator : randomness of the choice of children.
    samples_per_draw : how many successive samples share their choice, and so the gathering of
        weights; samples of one draw must have the same order. Larger is faster, and noisier.
    """
    draws = _Draws.of(batch, samples_per_draw)
    layout, context = proposal.layout, proposal.context_of(batch.context)
    logits = proposal.conditionals.logits(batch.features, batch.known, context)
    logits = logits + batch.known_logits
    base = log_conditionals_of(layout, logits, batch.columns)
    own = base - log_conditionals_of(layout, logits, batch.alternatives)
    slots, count = draws.choose_children(layout, generator)
    graded = -draws.child_ratios(proposal, base, slots[0], count > 0, context)
    with torch.no_grad():
        blocked = -draws.child_ratios(proposal, base, slots[1], count > 1, context)
    each = count.repeat_interleave(samples_per_draw, dim=1)
    losses = two_term_loss(batch.log_ratio - own, blocked, graded, each)
    return losses if batch.observed is None else losses * ~batch.observed


class StochasticDeltaObjective(DeltaObjective):
    """The local objective at full samples, from two children of each variable."""

    _generator: torch.Generator | None = None

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> DeltaBatch:
        """Draw alternatives; children are drawn anew for every update."""
        self._generator = generator
        return super().prepare(proposal, paths, generator)

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> DeltaBatch:
        """Prepare with the alternatives of a checkpoint."""
        self._generator = generator
        return super().prepare_again(proposal, paths, drawn, generator)

    def losses(self, proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "batch"]:
        """Losses whose expected gradient is that of the mean squared residual."""
        num_free = batch.num_free(proposal.layout).clamp(min=1)
        return 2 * stochastic_delta_losses(proposal, batch, self._generator).sum(0) / num_free


@dataclass(frozen=True, eq=False)
class _Draws:
    """A batch cut into draws: successive samples that share one choice of children.

    Parameters
    ----------
    batch : the batch.
    num_draws, num_samples : number of draws, and of samples in each.
    known : which inputs are known in each draw.
    observed : which variables are evidence in each draw.
    """

    batch: DeltaBatch
    num_draws: int
    num_samples: int
    known: Float[Tensor, "slot draw"] | None
    observed: Bool[Tensor, "var draw"] | None

    @classmethod
    def of(cls, batch: DeltaBatch, samples_per_draw: int) -> _Draws:
        total = batch.columns.shape[1]
        if samples_per_draw < 1 or total % samples_per_draw:
            raise StateError(
                f"{total} samples cannot be cut into draws of {samples_per_draw}: "
                "samples_per_draw must divide the number of samples"
            )
        num_draws = total // samples_per_draw
        shared: list[Tensor | None] = []
        for part in (batch.known, batch.observed):
            cut = None if part is None else part.reshape(len(part), num_draws, samples_per_draw)
            if cut is not None and not bool((cut == cut[..., :1]).all()):
                raise StateError(
                    f"{samples_per_draw} successive samples do not all have the same order and "
                    "evidence; pass samples_per_draw=1, or put those alike together"
                )
            shared.append(None if cut is None else cut[..., 0])
        return cls(batch, num_draws, samples_per_draw, *shared)

    def choose_children(
        self, layout: Layout, generator: torch.Generator | None
    ) -> tuple[Int[Tensor, "two var draw"], Int[Tensor, "var draw"]]:
        """Slots of two children of each variable in random order, and how many it has.

        A child of u is a slot whose input is u and known, with a variable that is not observed.
        Slots are sorted by input, then children first, then at random; where there are not two
        children, the slots mean nothing.
        """
        num_variables = layout.num_variables
        parent = layout.slot_input
        shape = (len(parent), self.num_draws)
        chance = uniform(shape, generator, dtype=torch.float64, device=parent.device)
        is_known = torch.ones_like(chance) if self.known is None else self.known.double()
        is_known = is_known * (layout.first_flip_of >= 0)[:, None]  # context is never changed
        if self.observed is not None:
            is_known = is_known * ~self.observed[layout.slot_variable]
        order = (parent[:, None] + 0.5 * chance + 0.5 * (1 - is_known)).argsort(0)
        count = chance.new_zeros(num_variables + 1, self.num_draws)  # the last takes padding
        count = count.index_add(0, parent, is_known)[:-1].long()
        slots_each = torch.bincount(parent, minlength=num_variables + 1)
        first = (slots_each.cumsum(0) - slots_each)[:-1]
        if not len(order):
            return first.new_zeros(2, num_variables, self.num_draws), count
        places = torch.stack((first, first + 1)).clamp(max=len(order) - 1)
        return order[places], count

    def child_ratios(
        self,
        proposal: Proposal,
        base: Float[Tensor, "var batch"],
        slots: Int[Tensor, "var draw"],
        is_wanted: Bool[Tensor, "var draw"],
        context: Context | None,
    ) -> Float[Tensor, "var batch"]:
        """Log q(x_v | x_Pa) - log q(x_v | x'_Pa) of one child v a variable; zero if not wanted."""
        layout, batch = proposal.layout, self.batch
        features, flipped = self._cut(batch.features), self._cut(batch.flipped)
        columns, before = self._cut(batch.columns), self._cut(base)
        known_flips = self._cut(batch.known_flips)
        ratios = torch.zeros_like(before)
        for number, block in enumerate(layout.blocks):
            is_here = (slots >= block.slots.start) & (slots < block.slots.stop) & is_wanted
            changed, draw = is_here.nonzero(as_tuple=True)
            if not len(changed):
                continue
            slot = slots[changed, draw] - block.first_slot
            members, place = slot // block.num_inputs, slot % block.num_inputs
            child, pair = block.variables[members], torch.arange(len(slot), device=slot.device)
            rows = block.feature_rows[members]
            inputs = features[rows, draw[:, None, None]]
            inputs[pair, place] = flipped[rows[pair, place], draw[:, None]]
            seen = None
            if self.known is not None:
                by_member = self.known[block.slots].view(*block.inputs.shape, self.num_draws)
                seen = by_member[members, :, draw]
            beside = None
            if context is not None:
                beside = context.of_pairs(number, members, draw, self.num_draws)
            logits = proposal.conditionals.logits_at(number, members, inputs, seen, beside)
            first = layout.first_flip_of[slots[changed, draw]]
            flip = first[:, None] + torch.arange(block.num_logits, device=slot.device)
            logits = logits + known_flips[flip, draw[:, None]]
            after = block.head.log_density(logits, columns[child, draw])
            ratios = ratios.index_put((changed, draw), before[child, draw] - after)
        return ratios.flatten(1)

    def _cut(self, rows: Tensor) -> Tensor:
        """Columns as (draw, sample)."""
        return rows.reshape(len(rows), self.num_draws, self.num_samples)
