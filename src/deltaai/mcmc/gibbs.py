"""Gibbs sampling by colours: whole classes of variables redrawn at once, in many chains.

A Gibbs update draws x_v from p(x_v | all others), which leaves p invariant. Variables of one colour
of the Markov graph are independent given the rest, so drawing all of them together is the same as
drawing them one by one in any order; it leaves p invariant as well.

- ``scan="systematic"``: a step updates every colour once, in a fixed order. Each update leaves p
  invariant, hence so does the step (though it is not reversible).
- ``scan="random"``: a step makes as many updates as there are colours, each of a colour drawn
  uniformly. The choice does not look at the states, so a step is a mixture of products of updates
  that leave p invariant, and leaves p invariant too. All chains share the choice: given the
  choices each chain is an independent one with invariant p, so chains that start independent stay
  so.

Any cardinalities and kinds of factors will do. Variables with few joint states of neighbours are
updated from tables (:mod:`deltaai.mcmc.table_updates`), the others from their factors
(:mod:`deltaai.mcmc.local_scores`). In dense models a colour is little more than one variable;
if their factors are pairwise, local fields are kept instead
(:mod:`deltaai.mcmc.field_updates`). From an impossible state, chains move to states that break
fewer factors; they are not promised to find a possible one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.graphs import greedy_colouring
from deltaai.mcmc.chains import ChainState, Kernel, StepInfo
from deltaai.mcmc.conditional_tables import LARGEST_BLANKET, Blankets, tabulate
from deltaai.mcmc.field_updates import FieldSweeps
from deltaai.mcmc.local_scores import LocalScores
from deltaai.mcmc.table_updates import Scratch, TableBlock, Thresholds
from deltaai.models import FactorGraph, States
from deltaai.threads import Turn, limited_threads

SCANS = ("systematic", "random")

# Thresholds are kept for several inverse temperatures, as a ladder of replicas comes back to each:
# so many of them, and so many table entries in all.
MOST_TEMPERATURES = 64
MOST_ENTRIES = 2**24
# Variables of a colour, on average, below which fields are faster than colours.
_FEW_OF_A_COLOUR = 8


@dataclass(frozen=True, eq=False)
class Block:
    """Variables of one colour with one number of states, one after the other in the columns.

    Parameters
    ----------
    members : the variables.
    start : where they begin in the columns.
    table : how they are updated from tables, if they are.
    """

    members: Int[Tensor, "member"]
    start: int
    table: TableBlock | None


class GibbsKernel(Kernel[ChainState]):
    """Colour-parallel Gibbs sampling; one step is one sweep.

    Tables are made once if the model is constant, and at every step if it has parameters that a
    learner may change. A kernel keeps scratch memory, so threads that share one take turns, step by
    step.

    Parameters
    ----------
    model : the target.
    scan : ``"systematic"`` or ``"random"``, see the module's description.
    largest_blanket : joint states of its neighbours up to which a variable is updated from a
        table; 0 for no tables.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> kernel = GibbsKernel(zoo.ising_lattice(side=4, sigma=0.2, seed=0))
    >>> generator = torch.Generator().manual_seed(0)
    >>> state = kernel.init(10, generator)
    >>> state, info = kernel.step(state, generator)
    >>> state.states.shape, info
    (torch.Size([10, 16]), StepInfo(acceptance=1.0, num_updates=160))
    """

    def __init__(
        self,
        model: FactorGraph,
        scan: str = "systematic",
        *,
        largest_blanket: int = LARGEST_BLANKET,
    ) -> None:
        super().__init__(model)
        if scan not in SCANS:
            raise ConfigError(f"scan must be {' or '.join(SCANS)}, not {scan!r}")
        if not 0 <= largest_blanket <= LARGEST_BLANKET:
            raise ConfigError(
                f"largest_blanket must be from 0 to {LARGEST_BLANKET}, not {largest_blanket}"
            )
        self.scan = scan
        graph = model.markov_graph()
        self._blankets = Blankets.of(model, graph)
        self._lay_out(greedy_colouring(graph), largest_blanket)
        self.fields = self._dense_fields()
        self._scratch = Scratch()
        self._is_kept = False
        self._scores: dict[int, Tensor] = {}
        self._direct: dict[int, LocalScores] = {}
        self._thresholds: dict[float, dict[int, Thresholds]] = {}
        self._turn = Turn()  # at all of these

    def _lay_out(self, colours: tuple[tuple[int, ...], ...], largest_blanket: int) -> None:
        """Give every variable a row such that those updated together stand side by side."""
        sizes = self.model.num_states.cpu().numpy()
        degrees = np.diff(self._blankets.graph.offsets)
        # Bytes hold the states only if no variable has more than 127.
        is_tabulated = (self._blankets.num_joint <= largest_blanket) & (sizes.max(initial=0) <= 127)
        layout: list[list[tuple[np.ndarray, bool]]] = []
        for colour in colours:
            variables = np.array(colour)
            variables = variables[np.argsort(-degrees[variables], kind="stable")]
            keys = np.stack((sizes[variables], is_tabulated[variables]), 1)
            layout.append(
                [
                    (variables[(keys == key).all(1)], bool(key[1]))
                    for key in np.unique(keys, axis=0)
                    if key[0] > 1  # a variable with one state has nothing to draw
                ]
            )
        drawn = [members for blocks in layout for members, _ in blocks]
        fixed = np.flatnonzero(sizes <= 1)
        device = self.model.device
        self._order = torch.from_numpy(np.concatenate([*drawn, fixed]).astype(np.int64)).to(device)
        self._row_of = torch.argsort(self._order)
        self._classes = tuple(
            tuple(self._block(torch.from_numpy(members), table) for members, table in blocks)
            for blocks in layout
            if blocks
        )
        self.blocks = tuple(block for blocks in self._classes for block in blocks)

    def _block(self, members: Tensor, is_tabulated: bool) -> Block:
        members = members.to(self.model.device)
        start = int(self._row_of[members[0]])
        table = TableBlock.build(self._blankets, members, self._row_of) if is_tabulated else None
        return Block(members, start, table)

    def _dense_fields(self) -> FieldSweeps | None:
        """Fields, if colours hold few variables and most of these have many neighbours."""
        num_direct = sum(len(block.members) for block in self.blocks if block.table is None)
        num_variables = sum(len(block.members) for block in self.blocks)
        is_dense = num_variables < _FEW_OF_A_COLOUR * self.num_classes
        return FieldSweeps.of(self.model) if is_dense and 2 * num_direct > num_variables else None

    def num_entries(self, block: Block) -> int:
        """Probabilities in the tables of a block's members."""
        members = block.members.cpu().numpy()
        return int(self._blankets.num_joint[members].sum()) * int(self.model.num_states[members[0]])

    @property
    def num_classes(self) -> int:
        """Number of colours."""
        return len(self._classes)

    def init(
        self,
        num_chains: int,
        generator: torch.Generator,
        states: States | None = None,
        held: Bool[Tensor, "chain var"] | None = None,
    ) -> ChainState:
        """Start chains at given states, one row a chain, or at uniformly random ones.

        Parameters
        ----------
        held : variables that a chain leaves as they are. Updating only the others leaves p given
            these invariant.
        """
        columns = self.start_columns(num_chains, generator, states)
        return ChainState(columns, held=None if held is None else held.T.contiguous())

    @torch.no_grad()
    @limited_threads(1)
    def step(
        self, state: ChainState, generator: torch.Generator, beta: float | int = 1.0
    ) -> tuple[ChainState, StepInfo]:
        """Update as many colours as there are, in all chains."""
        self.check_step(state, beta)
        with self._turn:
            return self._sweep(state, generator, beta)

    def _sweep(
        self, state: ChainState, generator: torch.Generator, beta: float | int
    ) -> tuple[ChainState, StepInfo]:
        if self.fields is not None:
            return self._field_sweep(self.fields, state, generator, float(beta))
        self._prepare(float(beta))
        given = state.columns
        columns = self._scratch.take("columns", tuple(given.shape), given.dtype, given.device)
        torch.index_select(given, 0, self._order, out=columns)
        held = None if state.held is None else state.held[self._order]
        before = columns.clone() if held is not None else columns
        num_updates = 0
        for position in self._visits(generator):
            for block in self._classes[position]:
                self._update(block, columns, float(beta), generator)
                num_updates += len(block.members) * state.num_chains
                if held is not None:
                    rows = slice(block.start, block.start + len(block.members))
                    columns[rows] = before[rows].where(held[rows], columns[rows])
        moved = ChainState(columns.index_select(0, self._row_of), held=state.held)
        return moved, StepInfo(1.0, num_updates)

    def _field_sweep(
        self, fields: FieldSweeps, state: ChainState, generator: torch.Generator, beta: float
    ) -> tuple[ChainState, StepInfo]:
        columns = state.columns.clone()
        visited = [block for place in self._visits(generator) for block in self._classes[place]]
        order = [variable for block in visited for variable in block.members.tolist()]
        fields.sweep(columns, order, beta, generator, state.held)
        return ChainState(columns, held=state.held), StepInfo(1.0, len(order) * state.num_chains)

    @torch.no_grad()
    def log_score(self, state: ChainState) -> Float64[Tensor, "chain"]:
        """Log score of every chain."""
        if self.fields is not None:
            return self.fields.log_score(state.columns)
        return self.model.log_score(state.states).double()

    def _visits(self, generator: torch.Generator) -> list[int]:
        count = self.num_classes
        if self.scan == "systematic" or count == 0:
            return list(range(count))
        device = generator.device
        drawn: list[int] = torch.randint(
            count, (count,), generator=generator, device=device
        ).tolist()
        return drawn

    def _update(
        self, block: Block, columns: Tensor, beta: float, generator: torch.Generator
    ) -> None:
        if block.table is not None:
            thresholds = self._thresholds[beta][block.start]
            block.table.update(columns.view(torch.uint8), thresholds, generator, self._scratch)
        else:
            drawn = self._direct[block.start].draw(columns, beta, generator)
            columns[block.start : block.start + len(block.members)] = drawn

    def _prepare(self, beta: float) -> None:
        """Make what depends on the factors: anew if they may have changed."""
        is_kept, self._is_kept = self._is_kept, self.is_constant
        if not (is_kept and self._is_kept):
            self._thresholds.clear()
            for block in self.blocks:
                if block.table is None:
                    direct = LocalScores.build(self.model, block.members, self._row_of)
                    self._direct[block.start] = direct
                else:
                    scores = tabulate(self.model, self._blankets, block.members)
                    self._scores[block.start] = scores
        if beta not in self._thresholds:
            num_entries = sum(len(scores) for scores in self._scores.values())
            most = min(MOST_TEMPERATURES, MOST_ENTRIES // max(num_entries, 1))
            if self._thresholds and len(self._thresholds) >= most:
                del self._thresholds[next(iter(self._thresholds))]
            self._thresholds[beta] = {
                start: Thresholds.of(scores, beta) for start, scores in self._scores.items()
            }
