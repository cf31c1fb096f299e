"""The local objective at some variables of full samples, drawn at random for each batch.

The residual of u needs u, its parents, its children and theirs, and nothing else of a sample. So
with a few variables in place of all, an update costs that share, whatever the model's size:
conditionals of other variables are never evaluated. With all of them it is the loss of
:class:`~deltaai.objectives.delta.DeltaObjective`, computed without sharing between variables.

An *item* is one chosen variable of one order; it has as many samples as that order. The
conditionals that an item needs are pairs (variable, order): u itself, and its children twice, as
they are and with u changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals import Inputs, Layout, Proposal, known_under
from deltaai.errors import ConfigError
from deltaai.models import log_changes_at
from deltaai.objectives.base import Objective
from deltaai.randomness import uniform
from deltaai.sampling import Paths


@dataclass(frozen=True, eq=False)
class Asked:
    """Conditionals of one block that some items need.

    Parameters
    ----------
    block, members, dags : the pairs.
    items : whose residual each enters.
    places : which input is the item's variable, for children; ``None`` for the variable itself.
    known_logits : what q knows of them before training, at the states.
    known_flips : the same with the item's variable changed.
    """

    block: int
    members: Int[Tensor, "pair"]
    dags: Int[Tensor, "pair"]
    items: Int[Tensor, "pair"]
    places: Int[Tensor, "pair"] | None
    known_logits: Float[Tensor, "pair logit sample"] | None = None
    known_flips: Float[Tensor, "pair logit sample"] | None = None


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """Chosen variables of each order, with changes of theirs, and what follows from them.

    Parameters
    ----------
    paths : the states.
    variables : the chosen ones.
    alternatives : their new values.
    log_ratio : log p(x) - log p(x').
    features, flipped : states before and after, encoded.
    asked : the conditionals that are needed.
    """

    paths: Paths
    variables: Int[Tensor, "dag chosen"]
    alternatives: Num[Tensor, "item sample"]
    log_ratio: Float[Tensor, "item sample"]
    features: Float[Tensor, "feature_row dag sample"]
    flipped: Float[Tensor, "feature_row dag sample"]
    asked: tuple[Asked, ...]


class SampledDeltaObjective(Objective[SampledBatch]):
    """The mean squared residual over random variables.

    Parameters
    ----------
    proposal : q.
    num_variables : how many variables of each order are drawn for a batch.
    """

    def __init__(self, proposal: Proposal, num_variables: int) -> None:
        super().__init__()
        if num_variables < 1:
            raise ConfigError(f"num_variables is {num_variables}; it must be at least 1")
        layout = proposal.layout
        self.free = layout.is_free.nonzero().squeeze(1)
        self.num_chosen = min(num_variables, len(self.free))
        # Slots that can be changed, sorted by input: those of u are where its children are.
        is_changed = (layout.first_flip_of >= 0) & (layout.slot_input < layout.num_variables)
        slots = is_changed.nonzero().squeeze(1)
        self._slots = slots[layout.slot_input[slots].argsort(stable=True)]
        counts = torch.bincount(layout.slot_input[slots], minlength=layout.num_variables)
        self._first = torch.cat((counts.new_zeros(1), counts.cumsum(0)))

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> SampledBatch:
        """Choose variables of each order, and new values for them."""
        shape = (len(paths.dags), len(self.free))
        chance = uniform(shape, generator, dtype=torch.float32, device=self.free.device)
        variables = self.free[chance.argsort(1)[:, : self.num_chosen]]
        others = proposal.propose(paths.columns, generator, paths.known, paths.context)
        dags = torch.arange(len(paths.dags), device=variables.device)[:, None]
        by_dag = others.view(-1, len(paths.dags), paths.each)
        return self._batch(proposal, paths, variables, by_dag[variables, dags].flatten(0, 1))

    def losses(self, proposal: Proposal, batch: SampledBatch) -> Float[Tensor, "batch"]:
        """Mean squared residual of each sample over the variables that were chosen."""
        residuals = sampled_residuals(proposal, batch)
        shape = (*batch.variables.shape, residuals.shape[1])
        squares = residuals.view(shape).square()
        if batch.paths.observed is None:
            return squares.mean(1).flatten()
        observed = batch.paths.observed.view(-1, len(batch.variables), batch.paths.each)
        dags = torch.arange(len(batch.variables), device=observed.device)[:, None]
        is_free = ~observed[batch.variables, dags]
        return squares.sum(1).flatten() / (is_free.sum() / is_free[:, 0].numel()).clamp(min=1)

    def drawn(self, batch: SampledBatch) -> dict[str, Tensor]:
        """The variables and their new values."""
        return {"variables": batch.variables, "alternatives": batch.alternatives}

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> SampledBatch:
        """Prepare with the choices of a checkpoint."""
        return self._batch(proposal, paths, drawn["variables"], drawn["alternatives"])

    @torch.no_grad()
    def _batch(
        self,
        proposal: Proposal,
        paths: Paths,
        variables: Int[Tensor, "dag chosen"],
        alternatives: Num[Tensor, "item sample"],
    ) -> SampledBatch:
        layout, shape = proposal.layout, (len(paths.dags), paths.each)
        dags = torch.arange(len(variables), device=variables.device).repeat_interleave(
            variables.shape[1]
        )
        chosen, model = variables.flatten(), proposal.model
        columns = torch.arange(paths.columns.shape[1], device=dags.device).view(shape)[dags]
        log_ratio = -log_changes_at(
            model,
            paths.columns,
            columns.flatten(),
            chosen.repeat_interleave(paths.each),
            alternatives.flatten(),
        ).view(alternatives.shape)
        changed = paths.columns.view(-1, *shape).clone()
        changed[chosen, dags] = alternatives.to(changed.dtype)
        batch = SampledBatch(
            paths,
            variables,
            alternatives,
            log_ratio,
            proposal.features(paths.columns).view(-1, *shape),
            proposal.features(changed.flatten(1)).view(-1, *shape),
            (),
        )
        before = None if paths.known is None else known_under(layout, paths.dags)
        asked = [
            _with_knowledge(proposal, batch, changed, part)
            for part in (
                *_of_themselves(layout, chosen, dags),
                *self._of_children(layout, chosen, dags, before),
            )
        ]
        return SampledBatch(**{**vars(batch), "asked": tuple(asked)})

    def _of_children(
        self,
        layout: Layout,
        variables: Int[Tensor, "item"],
        dags: Int[Tensor, "item"],
        before: Float[Tensor, "slot dag"] | None,
    ) -> Iterator[Asked]:
        start, stop = self._first[variables], self._first[variables + 1]
        count = stop - start
        items = torch.arange(len(variables), device=count.device).repeat_interleave(count)
        offset = torch.arange(len(items), device=count.device) - (count.cumsum(0) - count)[items]
        slots = self._slots[start[items] + offset]
        if before is not None:  # in its order, u must come before the child
            is_child = before[slots, dags[items]] > 0
            items, slots = items[is_child], slots[is_child]
        for number, block in enumerate(layout.blocks):
            here = (slots >= block.slots.start) & (slots < block.slots.stop)
            here = here.nonzero().squeeze(1)
            if len(here):
                local = slots[here] - block.first_slot
                members, places = local // block.num_inputs, local % block.num_inputs
                yield Asked(number, members, dags[items[here]], items[here], places)


def sampled_residuals(proposal: Proposal, batch: SampledBatch) -> Float[Tensor, "item sample"]:
    """Residual of the change of each chosen variable, in every sample; zero for observed ones."""
    paths, layout = batch.paths, proposal.layout
    shape = (len(paths.dags), paths.each)
    by_dag = paths.columns.view(-1, *shape)
    observed = None if paths.observed is None else paths.observed.view(-1, *shape)
    context = proposal.context_of(paths.context)
    residual = batch.log_ratio
    for part in batch.asked:
        block = layout.blocks[part.block]
        beside = None
        if context is not None:
            beside = context.of_pairs(part.block, part.members, part.dags, len(paths.dags))
        known = _known_of(proposal, batch, part)
        ask = proposal.conditionals.logits_at
        logits = ask(part.block, part.members, _features(layout, batch, part), known, beside)
        if part.known_logits is not None:
            logits = logits + part.known_logits
        variables = block.variables[part.members]
        values = by_dag[variables, part.dags]
        if part.places is None:
            ratio = block.head.log_ratio(logits, values, batch.alternatives[part.items])
        else:
            changed = _features(layout, batch, part, is_changed=True)
            flips = ask(part.block, part.members, changed, known, beside)
            if part.known_flips is not None:
                flips = flips + part.known_flips
            ratio = block.head.log_density(logits, values)
            ratio = ratio - block.head.log_density(flips, values)
            if observed is not None:  # an observed variable has no conditional
                ratio = ratio * ~observed[variables, part.dags]
        residual = residual.index_add(0, part.items, -ratio)
    if observed is None:
        return residual
    dags = torch.arange(len(batch.variables), device=residual.device)[:, None]
    return residual * ~observed[batch.variables, dags].flatten(0, 1)


def _of_themselves(
    layout: Layout, variables: Int[Tensor, "item"], dags: Int[Tensor, "item"]
) -> Iterator[Asked]:
    where = layout.block_of[variables]
    for number in torch.unique(where[:, 0]).tolist():
        items = (where[:, 0] == number).nonzero().squeeze(1)
        yield Asked(number, where[items, 1], dags[items], items, None)


def _features(
    layout: Layout, batch: SampledBatch, part: Asked, *, is_changed: bool = False
) -> Float[Tensor, "pair input feature sample"]:
    """Encoded inputs of each pair, perhaps with the item's variable changed."""
    rows = layout.blocks[part.block].feature_rows[part.members]
    inputs = batch.features[rows, part.dags[:, None, None]]
    if is_changed:
        pair = torch.arange(len(part.members), device=rows.device)
        inputs[pair, part.places] = batch.flipped[rows[pair, part.places], part.dags[:, None]]
    return inputs


def _known_of(
    proposal: Proposal, batch: SampledBatch, part: Asked
) -> Float[Tensor, "pair input sample"] | None:
    known, paths = batch.paths.known, batch.paths
    if known is None:
        return None
    block = proposal.layout.blocks[part.block]
    shape = (block.size, block.num_inputs, len(paths.dags), paths.each)
    return known[block.slots].view(shape)[part.members, :, part.dags]


def _with_knowledge(
    proposal: Proposal, batch: SampledBatch, changed: Num[Tensor, "var dag sample"], part: Asked
) -> Asked:
    """The same, with what q knows before training."""
    layout, paths = proposal.layout, batch.paths
    chosen = proposal.knowledge.choose(part.block, part.members)
    inputs = layout.blocks[part.block].inputs[part.members]
    inputs = inputs.where(inputs < layout.num_variables, 0)
    values = paths.columns.view(changed.shape)[inputs, part.dags[:, None]]
    moved = values.clone()
    if part.places is not None:
        pair = torch.arange(len(inputs), device=inputs.device)
        moved[pair, part.places] = changed[inputs[pair, part.places], part.dags]
    cells = torch.arange(inputs.numel(), device=inputs.device).view(inputs.shape)
    known = _known_of(proposal, batch, part)

    def asked(table: Tensor, *, is_changed: bool) -> Any:  # noqa: ANN401
        features = _features(layout, batch, part, is_changed=is_changed)
        handed = Inputs(part.block, part.members, features, table.flatten(0, 1), cells, known)
        return proposal.knowledge.logits_at(proposal.model, chosen, handed)

    flips = None if part.places is None else asked(moved, is_changed=True)
    before = asked(values, is_changed=False)
    return Asked(**{**vars(part), "known_logits": before, "known_flips": flips})
