"""The pyramid of the paper's MNIST experiment: a graph of pixels and three layers of latents.

The structure (appendix "Latent variable modeling of MNIST"), from the image upwards:

=====  ==========  ==================================  =========
layer  nodes       window of a node in the layer below  variables
=====  ==========  ==================================  =========
0      28 x 28     (pixels)                             784
1      6 x 6       8 x 8 pixels, stride 4               144
2      2 x 2       4 x 4 nodes, stride 2                16
3      1 x 1       2 x 2 nodes                          4
=====  ==========  ==================================  =========

A latent node is four binary variables. A node and everything in its window form **one** clique:
the nodes of a window are joined to each other, not only to the node above, and all four bits of a
node take part. Edges between pixels are then removed.

That gives 36 · 64 · 4 = 9216 edges between pixels and latents and 7414 among latents, and
completing the latter to a chordal graph gives the 7990 which the paper prints. For the former the
paper prints 4608, one half: the structure above cannot give that.

It is a graph without factors; what p and q look like on it is decided where they are learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from deltaai.arguments import checked_count, checked_items
from deltaai.errors import ConfigError, ModelError, Setting
from deltaai.graphs import UndirectedGraph
from deltaai.models.variable import Variable

# Windows of the paper's layers, from the image upwards: side and stride.
WINDOWS = ((8, 4), (4, 2), (2, 1))
NUM_BITS = 4


class LatentBit(NamedTuple):
    """Where a latent variable stands: layer 1 to 3, row and column of its node, bit of the node."""

    layer: int
    row: int
    column: int
    bit: int


class _Layer(NamedTuple):
    side: int
    window: int
    stride: int


@dataclass(frozen=True)
class Pyramid:
    """The pyramid's graph and what its vertices mean.

    The pixels come first (0 to 783 in the paper's), row by row; then the latents (784 to 947),
    layer by layer from the image upwards, node by node along the rows, bit by bit.

    Parameters
    ----------
    side : pixels of an image's side.
    graph : the undirected graph over all variables.
    variables : binary variables named ``pixel_3_17`` (row, column) and ``latent1_2_5_b0``
        (layer, row, column, bit).
    pixels, latents : vertices of either kind, ascending.
    positions : for each of ``latents``, where it stands.
    """

    side: int
    graph: UndirectedGraph
    variables: tuple[Variable, ...]
    pixels: tuple[int, ...]
    latents: tuple[int, ...]
    positions: tuple[LatentBit, ...]


def pyramid(
    side: int = 28,
    windows: Sequence[tuple[int, int]] = WINDOWS,
    bits: int = NUM_BITS,
) -> Pyramid:
    """Build a pyramid graph; by default that of the paper.

    Parameters
    ----------
    side : pixels of an image's side.
    windows : side and stride of the windows of each layer, from the image upwards; they must tile
        the layer below.
    bits : binary variables of a latent node.

    Examples
    --------
    >>> built = pyramid()
    >>> built.graph, len(built.pixels), len(built.latents)
    (UndirectedGraph(948 vertices, 16630 edges), 784, 164)
    >>> built.variables[784].name, built.positions[0]
    ('latent1_0_0_b0', LatentBit(layer=1, row=0, column=0, bit=0))

    For images of 8 x 8 pixels:

    >>> small = pyramid(side=8, windows=((4, 2), (3, 1)))
    >>> len(small.pixels), len(small.latents)
    (64, 40)
    """
    side, bits = checked_count("side", side, least=1), checked_count("bits", bits, least=1)
    layers = _layers(side, windows)
    positions = tuple(
        LatentBit(number, row, column, bit)
        for number, layer in enumerate(layers, start=1)
        for row in range(layer.side)
        for column in range(layer.side)
        for bit in range(bits)
    )
    num_pixels = side * side
    pixels = tuple(range(num_pixels))
    latents = tuple(range(num_pixels, num_pixels + len(positions)))
    names = [f"pixel_{p // side}_{p % side}" for p in pixels]
    names += [f"latent{at.layer}_{at.row}_{at.column}_b{at.bit}" for at in positions]
    return Pyramid(
        side=side,
        graph=UndirectedGraph.from_edges(len(names), list(_edges(side, layers, positions))),
        variables=tuple(Variable(name, 2) for name in names),
        pixels=pixels,
        latents=latents,
        positions=positions,
    )


def _layers(side: int, windows: Sequence[tuple[int, int]]) -> tuple[_Layer, ...]:
    """The layers of latents, each with the number of windows that fit into the one below."""
    layers = []
    for pair in checked_items("windows", windows, "pairs (side, stride)"):
        named = checked_items("windows", pair, "pairs (side, stride)")
        if len(named) != 2:
            raise ConfigError(Setting("windows"), f" has {pair!r}: give pairs (side, stride)")
        window, stride = (checked_count("windows", number, least=1) for number in named)
        if window > side or (side - window) % stride:
            raise ModelError(
                f"windows of {window} x {window} with stride {stride} do not tile a layer of "
                f"{side} x {side}: choose a side of at most {side} and a stride that divides "
                f"{side} less that side"
            )
        side = (side - window) // stride + 1
        layers.append(_Layer(side, window, stride))
    return tuple(layers)


def _edges(
    side: int, layers: Sequence[_Layer], positions: tuple[LatentBit, ...]
) -> Iterator[tuple[int, int]]:
    """Yield the edges of each window's clique, those between pixels left out."""
    # The vertices at each node of each layer; a pixel is a node of one vertex.
    nodes = {(0, p // side, p % side): [p] for p in range(side * side)}
    for vertex, at in enumerate(positions, start=side * side):
        nodes.setdefault((at.layer, at.row, at.column), []).append(vertex)

    for (number, row, column), bits in nodes.items():
        if number == 0:
            continue
        layer = layers[number - 1]
        below = [
            vertex
            for down in range(layer.window)
            for right in range(layer.window)
            for vertex in nodes[
                number - 1, row * layer.stride + down, column * layer.stride + right
            ]
        ]
        yield from combinations(bits, 2)
        yield from ((under, above) for under in below for above in bits)
        if number > 1:
            yield from combinations(below, 2)
