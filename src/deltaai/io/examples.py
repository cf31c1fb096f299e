"""Models that come with the package, so that a first question needs no file.

Their files lie in ``deltaai/examples``, in the formats that users bring. This file knows their
names; :func:`deltaai.io.files.read` takes such a name where there is no file of that name.
"""

from __future__ import annotations

from pathlib import Path

from deltaai.errors import did_you_mean

_FOLDER = Path(__file__).parents[1] / "examples"

# Name, file and what it is, in the order in which one might look at them.
_EXAMPLES = {
    "sprinkler": ("sprinkler.bif", "why is the grass wet? 4 variables"),
    "asia": ("asia.bif", "a chest clinic, 8 variables"),
    "grid": ("grid.uai.gz", "a 10 x 10 Ising lattice"),
    "lattice": ("lattice.uai.gz", "a 32 x 32 Ising lattice, too wide for tables"),
}


def examples() -> dict[str, str]:
    """Names of the examples, and what each is.

    >>> examples()["asia"]
    'a chest clinic, 8 variables'
    """
    return {name: about for name, (_, about) in _EXAMPLES.items()}


def example_file(name: str) -> Path | None:
    """File of an example; nothing if there is none of that name."""
    found = _EXAMPLES.get(name)
    return None if found is None else _FOLDER / found[0]


def listed_examples(name: object) -> str:
    """End of a sentence that says which examples there are.

    >>> listed_examples("aisa")
    "; did you mean 'asia'? Examples: sprinkler, asia, grid, lattice"
    """
    return f"{did_you_mean(name, _EXAMPLES) or '.'} Examples: {', '.join(_EXAMPLES)}"
