"""What zeros in factors rule out: states that cannot occur, and variables that are thus fixed.

A state k of variable v is *supported* by a factor φ over S if some joint state of S has it and is
possible as far as is known:

    max { φ(x_S) : x_v = k, x_w in D_w for the others w of S } > 0,   D_w the states left of w

A state that one factor does not support has probability zero. It is removed from D_v, and the
factors that touch v are asked again, until nothing changes (generalised arc consistency). This is
sound: no state of positive probability is removed, so log Z and all marginals stay as they are. It
is not complete: states that are ruled out only by several factors together may stay, and with them
zeros in the tables (see :mod:`deltaai.models.zeros.smoothing` for those).

Spin and neural factors are positive, so they rule out nothing. Tables with more than
``LARGEST_TABLE`` entries are not asked, which keeps the work bounded; they lose their impossible
states like the others. The smaller model itself is built in
:mod:`deltaai.models.zeros.restriction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.models.evidence import Evidence
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Clamp, FactorGroup
from deltaai.models.incidence import Incidence
from deltaai.models.table_group import TableGroup
from deltaai.models.zeros.reduction import Reduction
from deltaai.models.zeros.restriction import impossible, owners_of_states, restricted
from deltaai.models.zeros.smoothing import has_zero_entries, has_zeros
from deltaai.watch import look

# A factor is asked at most once a state of its scope, so this also bounds the work.
LARGEST_TABLE = 2**18


def propagate_zeros(model: FactorGraph, evidence: Evidence | None = None) -> Reduction:
    """Remove the states that zeros and evidence rule out, and the variables that this fixes.

    Parameters
    ----------
    model : the target; it is not changed.
    evidence : names to labels or state indices of the observed variables.

    Returns
    -------
    The smaller model, and the way between its states and those of ``model``. Where there is
    nothing to remove, ``Reduction.model`` is ``model`` itself.

    Raises
    ------
    ImpossibleEvidenceError
        If no state of some variable is left. Not every contradiction is found.

    Examples
    --------
    >>> from deltaai.models import FactorGraph, TableFactor, Variable
    >>> door, key = Variable("door", ["shut", "open"]), Variable("key", ["none", "iron", "gold"])
    >>> opens = TableFactor.from_values(["door", "key"], [[1.0, 1.0, 2.0], [0.0, 1.0, 3.0]])
    >>> reduction = propagate_zeros(FactorGraph([door, key], [opens]), {"door": "open"})
    >>> reduction.model.variables, reduction.fixed
    ((Variable(name='key', states=('iron', 'gold')),), {'door': 1})
    """
    return zeros_propagated(model, model.resolve_evidence(evidence))


def zeros_propagated(model: FactorGraph, observed: Mapping[int, int]) -> Reduction:
    """Do the same for what is observed by numbers."""
    fixed = {v: 0 for v, variable in enumerate(model.variables) if variable.num_states == 1}
    fixed |= observed
    if not fixed and not has_zeros(model):
        return Reduction.unchanged(model)
    return restricted(model, possible_states(model, fixed))


def possible_states(
    model: FactorGraph, fixed: Mapping[int, int] | None = None
) -> Bool[Tensor, "all_states"]:
    """Which (variable, state) pairs are left, in the order of ``model.state_offsets``.

    Parameters
    ----------
    model : the target.
    fixed : states of some variables that are known, all by their numbers.
    """
    offsets, owner = model.state_offsets, owners_of_states(model)
    possible = torch.ones(len(owner), dtype=torch.bool, device=model.device)
    if fixed:
        known = torch.tensor(list(fixed.items()), device=model.device, dtype=torch.long)
        is_known = torch.zeros(model.num_variables, dtype=torch.bool, device=model.device)
        is_known[known[:, 0]] = True
        possible &= ~is_known[owner]
        possible[offsets[known[:, 0]] + known[:, 1]] = True
    asked = [
        _Askable.build(group, model)
        for group in _without(model, fixed or {})
        if has_zero_entries(group) and group.table_size <= LARGEST_TABLE
    ]
    num_left = torch.zeros_like(model.num_states).index_add(0, owner, possible.long())
    waiting = [torch.arange(len(group.ids), device=model.device) for group in asked]
    while any(len(factors) for factors in waiting):
        changed = []
        for group, factors in zip(asked, waiting, strict=True):
            look()
            if len(factors) == 0:
                continue
            pairs, by = group.unsupported(factors, possible, model)
            lost = torch.unique(pairs)
            possible[lost] = False
            num_left.index_add_(0, owner[lost], torch.full_like(lost, -1))
            _refuse_empty(num_left, owner[pairs], by, model)
            changed.append(owner[lost])
        variables = torch.unique(torch.cat(changed))
        waiting = [group.touching(variables) for group in asked]
    return possible


@dataclass(frozen=True, eq=False)
class _Askable:
    """The factors of one group that have zeros, ready to be asked again and again.

    Parameters
    ----------
    ids : place of each factor in the model's list.
    is_positive : where each factor is not zero.
    pairs : for each place of the scope, the (variable, state) pairs that stand there.
    incidence : which of the factors touch a variable.
    """

    ids: Int[Tensor, "factor"]
    is_positive: Bool[Tensor, "factor *states"]
    pairs: tuple[Int[Tensor, "factor _"], ...]
    incidence: Incidence

    @classmethod
    def build(cls, group: TableGroup, model: FactorGraph) -> _Askable:
        is_positive = group.tables.detach() > -torch.inf
        has_zeros = ~is_positive.reshape(group.num_factors, group.table_size).all(1)
        chosen = has_zeros.nonzero().squeeze(1)
        scopes = group.scopes[chosen]
        pairs = tuple(
            model.state_offsets[scopes[:, place], None] + torch.arange(size, device=model.device)
            for place, size in enumerate(group.sizes)
        )
        incidence = Incidence.build(scopes, model.num_variables)
        return cls(group.ids[chosen], is_positive[chosen], pairs, incidence)

    def touching(self, variables: Int[Tensor, "changed"]) -> Int[Tensor, "chosen"]:
        """Factors whose scope holds one of the variables."""
        factors: Tensor = torch.unique(self.incidence.of(variables)[1])
        return factors

    def unsupported(
        self,
        factors: Int[Tensor, "chosen"],
        possible: Bool[Tensor, "all_states"],
        model: FactorGraph,
    ) -> tuple[Int[Tensor, "lost"], Int[Tensor, "lost"]]:
        """Find the pairs left that a factor does not support, and the id of that factor."""
        joint, count = self.is_positive[factors], len(factors)
        masks = [possible[pairs[factors]] for pairs in self.pairs]
        for place, mask in enumerate(masks):
            shape = [1] * len(masks)
            shape[place] = -1
            joint = joint & mask.view(count, *shape)
        is_dead = ~joint.reshape(count, -1).any(1)
        if bool(is_dead.any()):
            raise impossible(model, int(self.ids[factors[is_dead][0]]))
        lost, by = [possible.new_zeros(0, dtype=torch.long)], [self.ids[:0]]
        for place, mask in enumerate(masks):
            supported = joint.movedim(place + 1, 1).reshape(*mask.shape, -1).any(2)
            row, state = (mask & ~supported).nonzero(as_tuple=True)
            lost.append(self.pairs[place][factors[row], state])
            by.append(self.ids[factors[row]])
        return torch.cat(lost), torch.cat(by)


def _without(model: FactorGraph, fixed: Mapping[int, int]) -> Sequence[FactorGroup]:
    """Groups as functions of the variables that are not fixed, which keep their numbers."""
    if not fixed:
        return model.groups
    values = torch.full((model.num_variables,), -1, device=model.device, dtype=torch.long)
    values[list(fixed)] = torch.tensor(list(fixed.values()), device=model.device, dtype=torch.long)
    clamp = Clamp(values, torch.arange(model.num_variables, device=model.device))
    return [
        part
        for group in model.groups
        if isinstance(group, TableGroup)
        for part in group.condition(clamp)
    ]


def _refuse_empty(
    num_left: Int[Tensor, "var"],
    losers: Int[Tensor, "lost"],
    by: Int[Tensor, "lost"],
    model: FactorGraph,
) -> None:
    """Refuse a variable without any state left; one of several factors is to blame."""
    is_empty = num_left[losers] == 0
    if bool(is_empty.any()):
        at = int(is_empty.nonzero()[0])
        raise impossible(model, int(by[at]), model.variables[int(losers[at])].name)
