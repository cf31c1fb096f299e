"""Sums over many small models at once, against enumeration of each."""

import itertools
import math

import numpy as np
import pytest
import torch

from deltaai.exact import Part, PartFactor, PartSums, bytes_of
from deltaai.exact.parts import sums
from deltaai.graphs import UndirectedGraph, eliminate, min_fill_order


def random_part(rng, num_entries, num_rows):
    """A part whose factors are slices of random places of the tables."""
    number = int(rng.integers(1, 6))
    sizes = tuple(int(k) for k in rng.integers(1, 4, size=number))
    factors, edges = [], []
    scopes = [(v, v + 1) for v in range(number - 1)]  # of an impossible row nothing is possible
    for _ in range(int(rng.integers(0, 5))):
        scopes.append(tuple(rng.permutation(number)[: rng.integers(1, 4)].tolist()))
    for scope in scopes:
        edges += list(itertools.combinations(sorted(scope), 2))
        strides, stride = [], int(rng.integers(1, 3))
        for v in reversed(scope):
            strides.insert(0, stride)
            stride *= sizes[v]
        room = num_entries - sum(s * (sizes[v] - 1) for v, s in zip(scope, strides, strict=True))
        offsets = rng.integers(0, room, size=num_rows)
        factors.append(PartFactor(scope, tuple(strides), offsets))
    graph = UndirectedGraph.from_edges(number, edges)
    weights = rng.integers(1, 4, size=num_rows).astype(float)
    return Part(sizes, eliminate(graph, min_fill_order(graph)), tuple(factors), weights)


def enumerated(part, tables):
    """Log Z by the rows' weights, and expected counts, state by state."""
    total, counts = 0.0, np.zeros_like(tables)
    for row, weight in enumerate(part.weights):
        found = []
        for state in itertools.product(*(range(size) for size in part.sizes)):
            places = [
                int(one.offsets[row])
                + sum(s * state[v] for v, s in zip(one.scope, one.strides, strict=True))
                for one in part.factors
            ]
            found.append((places, math.exp(sum(tables[place] for place in places))))
        partition = sum(value for _, value in found)
        total += weight * math.log(partition) if partition else -math.inf
        for places, value in found:
            for place in places:
                counts[place] += weight * value / partition if partition else 0.0
    return total, counts


@pytest.mark.parametrize("limits", [(2**22, 2**18), (30, 12), (1, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_parts_count_what_enumeration_counts(seed, limits, monkeypatch):
    monkeypatch.setattr(sums, "_MOST_ENTRIES", limits[0])
    monkeypatch.setattr(sums, "_GROUP_ENTRIES", limits[1])
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=60) * 3
    tables[rng.random(60) < 0.1] = -math.inf
    some = [random_part(rng, 60, int(rng.integers(1, 5))) for _ in range(30)]
    found = PartSums(some, 60).counted(torch.from_numpy(tables))
    wanted = [enumerated(part, tables) for part in some]
    assert found.log_partition == pytest.approx(sum(total for total, _ in wanted), abs=1e-9)
    np.testing.assert_allclose(found.counts, sum(c for _, c in wanted), rtol=1e-9, atol=1e-9)


def test_possible_parts_count_beside_impossible_ones():
    graph = UndirectedGraph.from_edges(1, [])
    weights = np.ones(2)
    part = Part(
        (2,),
        eliminate(graph, [0]),
        (PartFactor((0,), (1,), np.array([0, 2])),),
        weights,
    )
    tables = torch.tensor([-math.inf, -math.inf, 0.0, 0.0], dtype=torch.float64)
    found = PartSums([part], 4).counted(tables)
    assert found.log_partition == -math.inf
    assert found.counts.tolist() == [0.0, 0.0, 0.5, 0.5]


def test_hundreds_of_factors_that_are_next_to_nothing():
    """Products of so many small numbers are not numbers any more, and logarithms are."""
    graph = UndirectedGraph.from_edges(1, [])
    factors = tuple(PartFactor((0,), (1,), np.zeros(1, dtype=int)) for _ in range(400))
    tables = torch.tensor([0.01, 0.02], dtype=torch.float64).log()
    found = PartSums([Part((2,), eliminate(graph, [0]), factors, np.ones(1))], 2).counted(tables)
    wanted = 400 * math.log(0.02) + math.log1p(0.5**400)
    assert found.log_partition == pytest.approx(wanted)
    np.testing.assert_allclose(found.counts, [0.0, 400.0], atol=1e-9)


def test_no_parts():
    found = PartSums([], 3).counted(torch.zeros(3, dtype=torch.float64))
    assert found.log_partition == 0.0
    assert found.counts.tolist() == [0.0, 0.0, 0.0]


def test_tables_of_a_part_are_those_of_its_elimination():
    rng = np.random.default_rng(0)
    for _ in range(20):
        part = random_part(rng, 60, 3)
        fronts = part.elimination.fronts
        assert sum(inputs for _, inputs in part.tables) == len(part.factors) + sum(
            map(bool, fronts)
        )
        assert part.entries_of_row >= max(math.prod(part.sizes[v] for v in f) for f in fronts)
        assert bytes_of([part, part]) > bytes_of([part]) > 8 * part.entries_of_row
