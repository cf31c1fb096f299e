"""The entries of Q⁻¹ that the factor has a place for: variances, and covariances inside cliques.

Columns of L that share their front but for each other form a block J with one front R (a
supernode). With A = L D Lᵀ and G = L_RJ L_JJ⁻¹, what the block adds to those after it is

    x_J | x_R ~ N(-Gᵀ x_R, (L_JJ D_J L_JJᵀ)⁻¹)

so, going down from the roots, the covariance Z = A⁻¹ of a block and its front follows from that of
the front alone, which is part of the block above:

    Z_RJ = -Z_RR G,    Z_JJ = (L_JJ D_J L_JJᵀ)⁻¹ - Gᵀ Z_RJ

(Takahashi, Fagan and Chen, in blocks). The whole inverse is never there: a block waits with its
Z_RR until its turn comes, depth first, which :mod:`deltaai.exact.gaussian.fill` has predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts come when they are needed
from jaxtyping import Float

from deltaai.exact.gaussian.factor import Factor
from deltaai.graphs import Elimination
from deltaai.watch import look


@dataclass(frozen=True)
class Block:
    """Variables that are eliminated together, and the front that they share."""

    members: tuple[int, ...]
    front: tuple[int, ...]
    parent: int  # the block that the first of the front is in; -1 where there is no front


def blocks_of(elimination: Elimination) -> list[Block]:
    """Put variables together whose fronts are one another's, less themselves.

    >>> from deltaai.graphs import UndirectedGraph, eliminate
    >>> triangle = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    >>> [(block.members, block.front) for block in blocks_of(eliminate(triangle, (3, 0, 1, 2)))]
    [((3, 2), ()), ((0, 1), (2,))]
    """
    fronts, parents = elimination.fronts, elimination.parents
    is_continued = [False] * len(fronts)  # a variable that another block goes on with
    member_of = [-1] * len(fronts)
    chains: list[list[int]] = []
    for vertex in elimination.order:
        if not is_continued[vertex]:
            member_of[vertex] = len(chains)
            chains.append([vertex])
        chain, parent = chains[member_of[vertex]], parents[vertex]
        extends = parent >= 0 and len(fronts[vertex]) == len(fronts[parent]) + 1
        if extends and not is_continued[parent]:
            is_continued[parent] = True
            member_of[parent] = member_of[vertex]
            chain.append(parent)
    tops = [parents[chain[-1]] for chain in chains]
    return [
        Block(tuple(chain), fronts[chain[-1]], member_of[top] if top >= 0 else -1)
        for chain, top in zip(chains, tops, strict=True)
    ]


def clique_covariances(
    factor: Factor, elimination: Elimination
) -> Iterator[tuple[Sequence[int], Float[np.ndarray, "clique clique"], int]]:
    """Yield each block with its front, their covariance, and how many are of the block itself."""
    blocks = blocks_of(elimination)
    children: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        if block.parent >= 0:
            children[block.parent].append(number)
    places = np.empty(len(factor.order), dtype=np.int64)
    places[factor.order] = np.arange(len(places))
    local = np.zeros(len(places), dtype=np.int64)  # place of a variable in the clique at hand
    stack = [(number, np.zeros((0, 0))) for number, block in enumerate(blocks) if block.parent < 0]
    while stack:
        look()
        number, above = stack.pop()
        block = blocks[number]
        clique = block.members + block.front
        local[list(clique)] = np.arange(len(clique))
        covariance = _extended(factor, block, places, local, above)
        for child in children[number]:
            front = local[list(blocks[child].front)]
            stack.append((child, covariance[front[:, None], front]))
        scale = factor.scale[list(clique)]
        yield clique, covariance * scale[:, None] * scale, len(block.members)


def variances(factor: Factor, elimination: Elimination) -> Float[np.ndarray, "var"]:
    """The diagonal of Q⁻¹."""
    found = np.empty(len(factor.order))
    for clique, covariance, count in clique_covariances(factor, elimination):
        found[list(clique[:count])] = covariance.diagonal()[:count]
    return found


def _extended(
    factor: Factor,
    block: Block,
    places: np.ndarray,
    local: np.ndarray,
    above: Float[np.ndarray, "front front"],
) -> Float[np.ndarray, "clique clique"]:
    """Scaled covariance of a block and its front, from that of its front."""
    count, lower = len(block.members), factor.lower
    columns = np.zeros((count + len(block.front), count))
    at = places[list(block.members)]
    for column, place in enumerate(at.tolist()):
        entries = slice(lower.indptr[place], lower.indptr[place + 1])
        columns[local[factor.order[lower.indices[entries]]], column] = lower.data[entries]
    inverse = scipy.linalg.solve_triangular(
        columns[:count], np.eye(count), lower=True, unit_diagonal=True, check_finite=False
    )
    gain = columns[count:] @ inverse
    cross = -above @ gain
    found = np.empty((len(columns), len(columns)))
    found[count:, count:] = above
    found[count:, :count] = cross
    found[:count, count:] = cross.T
    found[:count, :count] = inverse.T @ (inverse / factor.pivots[at][:, None]) - gain.T @ cross
    return found
