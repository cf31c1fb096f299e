"""Writing Bayesian networks as BIF, in the dialect of the bnlearn repository.

Names and labels are kept. One that cannot stand bare is quoted, and one that holds a quote or a
line break cannot be written. Rows are written with the last parent fastest, and none is left out.
"""

from __future__ import annotations

from itertools import product

from deltaai.errors import ConversionError
from deltaai.io.bif.text import is_bare
from deltaai.io.decimals import to_decimals
from deltaai.io.directed import why_not_bayesian
from deltaai.io.flat_tables import tables_of
from deltaai.io.states_only import refuse_real
from deltaai.models import FactorGraph


def format_bif(model: FactorGraph) -> str:
    """Write a model as the text of a BIF file.

    Raises
    ------
    ConversionError
        When the model is not a Bayesian network of one ConditionalTable a variable, or a name
        cannot be written.
    """
    refuse_real(model, "a BIF file")
    reason = why_not_bayesian(model) if model.variables else "it has no variables"
    if reason is not None:
        raise ConversionError(
            f"a BIF file holds a Bayesian network of one ConditionalTable a variable, but "
            f"{reason}; write .uai instead"
        )
    names = [_word(variable.name) for variable in model.variables]
    labels = [[_word(label) for label in variable.states] for variable in model.variables]
    lines = ["network unknown {", "}"]
    for name, listed in zip(names, labels, strict=True):
        lines += [
            f"variable {name} {{",
            f"  type discrete [ {len(listed)} ] {{ {', '.join(listed)} }};",
            "}",
        ]
    tables = tables_of(model)
    decimals = to_decimals(tables.log_values)
    for scope, begin in zip(tables.scopes, tables.offsets.tolist(), strict=False):
        *parents, child = scope
        width = len(labels[child])
        given = f" | {', '.join(names[v] for v in parents)}" if parents else ""
        lines.append(f"probability ( {names[child]}{given} ) {{")
        for row, states in enumerate(product(*(labels[v] for v in parents))):
            first = begin + row * width
            head = f"({', '.join(states)})" if parents else "table"
            lines.append(f"  {head} {', '.join(decimals[first : first + width])};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _word(name: str) -> str:
    if is_bare(name):
        return name
    if any(character in name for character in '"\n\r\x01\x02'):
        raise ConversionError(
            f"the name {name!r} has a quote or a line break, which BIF cannot hold; rename it"
        )
    return f'"{name}"'
