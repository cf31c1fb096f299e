"""``python -m deltaai.cli``: the same as the command ``deltaai``."""

from deltaai.cli.app import main

main()
