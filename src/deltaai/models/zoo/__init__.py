"""A zoo of models: generated ones with a seed, and a few classic ones.

Every generator draws from its own :class:`torch.Generator`, so the same arguments give the same
model in every run, and nobody else's random numbers move.
"""

from deltaai.models.zoo.factor_networks import factor_ladder, factor_lattice
from deltaai.models.zoo.gaussian import gaussian_lattice, gaussian_tree
from deltaai.models.zoo.ising import ising_ladder, ising_lattice, ising_torus, spin_glass_grid
from deltaai.models.zoo.pose_energy import pose_energy
from deltaai.models.zoo.potts import potts_lattice
from deltaai.models.zoo.pyramid import LatentBit, Pyramid, pyramid
from deltaai.models.zoo.random_graphs import random_bayesian_network, random_factor_graph
from deltaai.models.zoo.sprinkler import sprinkler

__all__ = [
    "LatentBit",
    "Pyramid",
    "factor_ladder",
    "factor_lattice",
    "gaussian_lattice",
    "gaussian_tree",
    "ising_ladder",
    "ising_lattice",
    "ising_torus",
    "pose_energy",
    "potts_lattice",
    "pyramid",
    "random_bayesian_network",
    "random_factor_graph",
    "spin_glass_grid",
    "sprinkler",
]
