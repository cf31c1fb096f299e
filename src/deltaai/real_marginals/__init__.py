"""What answers say of real variables: mean, deviation, quantiles, histogram."""

from deltaai.real_marginals.marginal import QUANTILES, RealMarginal
from deltaai.real_marginals.numbers import written

__all__ = ["QUANTILES", "RealMarginal", "written"]
