"""What the formats and libraries of tables cannot hold: real variables."""

from __future__ import annotations

from deltaai.errors import ConversionError
from deltaai.models import FactorGraph


def refuse_real(model: FactorGraph, what: str) -> None:
    """Raise an error if a model has real variables.

    Parameters
    ----------
    what : cannot hold them.

    Examples
    --------
    >>> from deltaai.models import Variable
    >>> refuse_real(FactorGraph([Variable("x", support="line")]), "a UAI file")
    Traceback (most recent call last):
    ...
    deltaai.errors.ConversionError: a UAI file holds variables with states, and 'x' is real: write
    .dai instead
    """
    for variable in model.variables:
        if variable.is_real:
            raise ConversionError(
                f"{what} holds variables with states, and {variable.name!r} is real: write .dai "
                "instead"
            )
