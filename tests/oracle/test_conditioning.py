"""Conditioning on a cutset against enumeration and against elimination of the whole."""

import math

import numpy as np
import pytest
import torch

import deltaai as dai
from data_folder import data_folder
from deltaai.errors import EvidenceError, ImpossibleEvidenceError, MemoryLimitError
from deltaai.exact import (
    ConditionedInference,
    Cutset,
    Enumeration,
    ExactCost,
    ExactInference,
    find_cutset,
)
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from factor_graphs import MODELS

TOLERANCE = 1e-10
LIMITS = [64, 300]  # bytes: a few entries each


def sized_cutset(model, limit, most_states=64):
    """A cutset, or nothing if the limit is below the smallest table or zeros contradict."""
    try:
        return find_cutset(model, limit, most_states)
    except ImpossibleEvidenceError:
        return None


def assert_same(found, oracle):
    assert found.log_partition() == pytest.approx(oracle.log_partition(), abs=TOLERANCE)
    marginals, expected = found.marginals(), oracle.marginals()
    assert list(marginals) == list(expected)
    for name, row in expected.items():
        assert isinstance(marginals[name], np.ndarray)
        np.testing.assert_allclose(marginals[name], row, rtol=0, atol=TOLERANCE)


def random_model(seed):
    """Mixed states, also one; disconnected parts; zeros in two of three."""
    rng = np.random.default_rng(seed)
    return zoo.random_factor_graph(
        num_variables=int(rng.integers(3, 10)),
        num_factors=int(rng.integers(3, 14)),
        max_arity=4,
        max_states=4,
        zero_fraction=[0.0, 0.1, 0.3][seed % 3],
        scale=[0.5, 3.0][seed % 2],
        seed=seed,
    )


def contradiction(num_variables=5):
    """A ring of odd length in which neighbours differ: no factor alone shows it is impossible."""
    differ = [[0.0, 1.0], [1.0, 0.0]]
    names = [f"v{i}" for i in range(num_variables)]
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    factors = [TableFactor.from_values([u, v], differ) for u, v in pairs]
    return FactorGraph([Variable(name) for name in names], factors)


def by_hand(model, names):
    """A cutset that was not found by the search."""
    order = tuple(v.name for v in model.variables if v.name not in names)
    sizes = [model.variables[model.index(name)].num_states for name in names]
    return Cutset(tuple(names), math.prod(sizes), ExactCost(0, 1, 1, 0), 1, order)


@pytest.mark.parametrize("seed", range(12))
def test_random_models_under_tiny_limits_match_enumeration(seed):
    model = random_model(seed)
    oracle = Enumeration(model)
    for limit in LIMITS:
        cutset = sized_cutset(model, limit)
        if cutset is None:
            continue
        found = ConditionedInference(model, cutset, memory_limit=limit)
        try:
            oracle.log_partition()
        except ImpossibleEvidenceError:
            with pytest.raises(ImpossibleEvidenceError):
                found.log_partition()
            with pytest.raises(ImpossibleEvidenceError):
                found.marginals()
            continue
        assert_same(found, oracle)


def test_the_random_models_need_cutsets_of_many_sizes():
    sizes = set()
    for seed in range(12):
        cutsets = [sized_cutset(random_model(seed), limit) for limit in LIMITS]
        sizes |= {len(cutset.variables) for cutset in cutsets if cutset is not None}
    assert sizes >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_factor(name):
    model = MODELS[name]()
    found = []
    for limit in LIMITS:
        cutset = sized_cutset(model, limit)
        if cutset is not None:
            found.append(cutset)
            answer = ConditionedInference(model, cutset, memory_limit=limit)
            assert_same(answer, Enumeration(model))
    assert found


def test_a_wider_model_against_elimination_of_the_whole():
    model = zoo.ising_torus(side=6, sigma=0.7, seed=0)
    whole = ExactInference(model)
    limit = whole.cost.peak_bytes // 16
    cutset = find_cutset(model, limit)
    assert cutset is not None
    assert 1 <= len(cutset.variables) <= 8
    assert_same(ConditionedInference(model, cutset, memory_limit=limit), whole)


def test_potts_states_and_scores_far_apart():
    model = zoo.potts_lattice(side=4, states=3, sigma=30.0, seed=1)
    whole = ExactInference(model)
    limit = whole.cost.peak_bytes // 8
    cutset = find_cutset(model, limit)
    assert cutset is not None
    assert cutset.variables
    assert_same(ConditionedInference(model, cutset, memory_limit=limit), whole)


def test_a_cutset_that_separates_nothing_and_a_whole_model_as_cutset():
    model = random_model(6)
    names = [variable.name for variable in model.variables]
    for chosen in (names[:1], names[::2], names):
        answer = ConditionedInference(model, by_hand(model, chosen), memory_limit=10**6)
        assert_same(answer, Enumeration(model))
    tight = ConditionedInference(model, by_hand(model, names), memory_limit=24)
    assert_same(tight, Enumeration(model))


# -- the cutset --------------------------------------------------------------------------------


def test_a_cutset_says_what_it_costs():
    model = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    limit = 30_000
    cutset = find_cutset(model, limit)
    assert cutset is not None
    states = [model.variables[model.index(name)].num_states for name in cutset.variables]
    assert cutset.num_states == math.prod(states)
    assert cutset.total_entries == cutset.num_states * cutset.cost.total_entries
    assert sorted((*cutset.variables, *cutset.order)) == sorted(v.name for v in model.variables)
    at_one_state = ExactInference(model, dict.fromkeys(cutset.variables, 0))
    assert cutset.cost.peak_bytes <= limit < ExactInference(model).cost.peak_bytes
    assert at_one_state.cost.total_entries <= 4 * cutset.cost.total_entries
    assert find_cutset(model, limit) == cutset  # same model, same answer


def test_no_variable_of_a_cutset_is_taken_in_vain():
    """A model that fits needs no cutset, and one clique gives up as many variables as it must."""
    model = zoo.random_factor_graph(6, 1, max_arity=6, max_states=2, seed=0)
    assert find_cutset(model, 10**6).variables == ()
    names = [f"v{i}" for i in range(8)]
    table = torch.randn((2,) * 8, generator=torch.Generator().manual_seed(0))
    clique = FactorGraph([Variable(name) for name in names], [TableFactor(names, table)])
    whole = ExactInference(clique).cost.peak_bytes
    for size in (1, 3, 6):
        limit = whole // 2**size
        cutset = find_cutset(clique, limit)
        assert cutset is not None
        assert len(cutset.variables) == size
        answer = ConditionedInference(clique, cutset, memory_limit=limit)
        assert_same(answer, Enumeration(clique))


def test_too_many_states_are_refused():
    model = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    cutset = find_cutset(model, 30_000)
    assert cutset is not None
    assert find_cutset(model, 30_000, most_states=cutset.num_states) is not None
    assert find_cutset(model, 30_000, most_states=1) is None
    assert find_cutset(model, 8) is None  # not even a number fits
    assert find_cutset(zoo.ising_lattice(side=50, sigma=0.2, seed=0), 2**30) is None


def test_a_limit_below_the_cutsets_need_is_refused_before_any_work():
    model = zoo.ising_torus(side=6, sigma=0.5, seed=0)
    cutset = find_cutset(model, 30_000)
    assert cutset is not None
    with pytest.raises(MemoryLimitError, match="the memory limit is"):
        ConditionedInference(model, cutset, memory_limit=cutset.cost.peak_bytes - 1)
    optimist = by_hand(model, [model.variables[0].name])  # claims to need nothing
    with pytest.raises(MemoryLimitError):
        ConditionedInference(model, optimist, memory_limit=1000).log_partition()


def test_a_cutset_of_another_model_is_refused():
    cutset = find_cutset(zoo.ising_torus(side=6, sigma=0.5, seed=0), 30_000)
    assert cutset is not None
    with pytest.raises(EvidenceError, match="find_cutset"):
        ConditionedInference(zoo.sprinkler(), cutset)


# -- zeros and progress ------------------------------------------------------------------------


def test_contradictions_that_only_conditioning_shows():
    model = contradiction()
    answer = ConditionedInference(model, by_hand(model, ["v0"]), memory_limit=10**6)
    for ask in (answer.log_partition, answer.marginals):
        with pytest.raises(ImpossibleEvidenceError, match="probability zero"):
            ask()


def test_contradictions_that_show_at_once():
    factors = [TableFactor.from_values(["a"], values) for values in ([0.0, 1.0], [1.0, 0.0])]
    model = FactorGraph([Variable("a"), Variable("b")], factors)
    with pytest.raises(ImpossibleEvidenceError):
        find_cutset(model, 10**6)
    with pytest.raises(ImpossibleEvidenceError):
        ConditionedInference(model, by_hand(model, ["b"])).log_partition()


def test_impossible_branches_are_not_computed(monkeypatch):
    """Copies of one variable: fixing it fixes them, so of 2^7 joint states two are answered."""
    same = [[1.0, 0.0], [0.0, 3.0]]
    names = [f"v{i}" for i in range(9)]
    factors = [TableFactor.from_values(["v0", name], same) for name in names[1:8]]
    factors += [TableFactor(["v8", "v0"], [[0.0, 1.0], [2.0, 0.5]])]
    model = FactorGraph([Variable(name) for name in names], factors)
    asked = []
    whole = ExactInference.log_partition

    def counted(self):
        asked.append(self.model)
        return whole(self)

    monkeypatch.setattr(ExactInference, "log_partition", counted)
    answer = ConditionedInference(model, by_hand(model, names[:8]), memory_limit=64)
    answer.log_partition()
    assert len(set(map(id, asked))) == 2
    assert all(part.num_variables == 1 for part in asked)
    monkeypatch.undo()
    assert_same(answer, Enumeration(model))


def test_progress_rises_to_one_and_the_sweep_runs_once():
    model = zoo.ising_torus(side=5, sigma=0.5, seed=0)
    seen = []
    cutset = find_cutset(model, 6_000)
    assert cutset is not None
    assert cutset.num_states > 1
    answer = ConditionedInference(model, cutset, memory_limit=6_000, progress=seen.append)
    assert seen == []  # nothing before a question
    answer.log_partition()
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[-1] == pytest.approx(1.0)
    assert len(seen) > 2 * cutset.num_states
    count = len(seen)
    first = model.variables[0].name
    answer.marginals()[first][:] = 0.0
    assert answer.marginals()[first].sum() == pytest.approx(1.0)  # what was handed out is a copy
    assert len(seen) == count


# -- a file of the field -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("gibibytes", [2.0, 0.25])
def test_a_pedigree_that_needs_37_gigabytes_under_the_usual_order(gibibytes):
    folder = data_folder("uai")
    model = dai.read(folder / "linkage_21.uai")
    limit = int(gibibytes * 2**30)
    cutset = find_cutset(model, limit)
    assert cutset is not None
    answer = ConditionedInference(model, cutset, memory_limit=limit)
    reference = float((folder / "linkage_21.uai.PR").read_text().split()[-1])
    assert answer.log_partition() / math.log(10) == pytest.approx(reference, abs=1e-4)
    numbers = iter((folder / "linkage_21.uai.MAR").read_text().split()[2:])
    for name, row in answer.marginals().items():
        printed = [float(next(numbers)) for _ in range(int(next(numbers)))]
        np.testing.assert_allclose(row, printed, rtol=0, atol=1e-5, err_msg=name)


def test_a_pedigree_of_terabytes_is_given_up_quickly():
    model = dai.read(data_folder("uai") / "linkage_11.uai")
    assert find_cutset(model, 2 * 2**30) is None
