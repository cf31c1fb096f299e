"""``python -m deltaai.cli``: the same as the command ``deltaai``."""

from deltaai.cli.entry import main

main()
