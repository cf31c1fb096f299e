"""The kernels by name, each with the settings it has where nobody says otherwise.

A new kernel is one file with a subclass of :class:`~deltaai.mcmc.chains.Kernel` and one line here;
a user adds one with :func:`register_kernel`. For other settings, call the class itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltaai.mcmc.chains import Kernel
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.hamiltonian import HamiltonianKernel, langevin
from deltaai.mcmc.tempering import ParallelTemperingKernel, geometric_betas
from deltaai.models import FactorGraph
from deltaai.registry import add_entry, checked_callable, entry_of

KernelBuilder = Callable[[FactorGraph], Kernel[Any]]

_NUM_REPLICAS, _LOWEST_BETA = 12, 0.05


def _tempering(model: FactorGraph) -> Kernel[Any]:
    return ParallelTemperingKernel(model, geometric_betas(_NUM_REPLICAS, _LOWEST_BETA))


KERNELS: dict[str, KernelBuilder] = {
    "gibbs": GibbsKernel,
    "gwg": GibbsWithGradientsKernel,
    "hmc": HamiltonianKernel,
    "mala": langevin,
    "tempering": _tempering,
}


def register_kernel(name: str, build: KernelBuilder, *, replace: bool = False) -> None:
    """Make a kernel a choice of :func:`build_kernel`.

    Parameters
    ----------
    name : what it is called.
    build : gives the kernel for a model; the class itself will mostly do.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of a kernel", build, "(model)")
    add_entry(KERNELS, "kernel", name, build, replace=replace)


def build_kernel(name: str, model: FactorGraph) -> Kernel[Any]:
    """Set up a kernel for a model, by its name.

    ``"gibbs"``, ``"gwg"`` and ``"tempering"`` are for variables with states, ``"hmc"`` and
    ``"mala"`` for models with real ones; or one that was registered.

    >>> from deltaai.models import zoo
    >>> build_kernel("gibs", zoo.sprinkler())
    Traceback (most recent call last):
    deltaai.errors.ConfigError: there is no kernel 'gibs'; did you mean 'gibbs'?; one of gibbs, gwg,
    hmc, mala, tempering
    """
    return entry_of(KERNELS, "kernel", name)(model)
