"""Every MCMC kernel of the library, by name: a function from a model to the kernel."""

from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.gradient_moves import GibbsWithGradientsKernel
from deltaai.mcmc.tempering import ParallelTemperingKernel

KERNELS = {
    "gibbs": GibbsKernel,
    "gibbs, random scan": lambda model: GibbsKernel(model, "random"),
    "gibbs, no tables": lambda model: GibbsKernel(model, largest_blanket=0),
    "informed": GibbsWithGradientsKernel,
    "gradients": lambda model: GibbsWithGradientsKernel(model, is_exact=False),
    "tempering": lambda model: ParallelTemperingKernel(model, (1.0, 0.5, 0.1)),
}
