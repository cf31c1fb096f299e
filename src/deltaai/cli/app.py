"""The program ``deltaai``: its commands, in order, and what all of them share.

The commands themselves parse, call and show (:mod:`deltaai.cli.asking`, :mod:`deltaai.cli.making`,
:mod:`deltaai.cli.teaching`, :mod:`deltaai.cli.measuring`); no inference happens in them.
``--help``, ``--version`` and completion do without torch. How the program begins and ends is in
:mod:`deltaai.cli.entry`.
"""

from __future__ import annotations

from typing import Annotated

import typer

import deltaai
from deltaai.cli import asking, exploring, making, measuring, teaching
from deltaai.cli.console import set_verbosity
from deltaai.cli.entry import main as main  # noqa: PLC0414 - where installed scripts look for it

app = typer.Typer(
    name="deltaai",
    help="Inference in sparse graphical models: plan, check and query model files.",
    epilog="Examples that need no file: sprinkler, asia, grid, lattice; try deltaai query asia -e "
    "smoke=yes. Exit codes: 0 answered, 1 something failed, 2 input that cannot be used, 3 not "
    "within the limits of memory and time, 4 output that could not be written, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"deltaai {deltaai.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    set_verbosity(0)


# In the order in which a newcomer may want them.
for _command in (
    asking.plan,
    asking.check,
    asking.query,
    exploring.most_likely,
    exploring.probability,
    exploring.conditional,
    exploring.informative,
    exploring.conflict,
    making.fit,
    asking.sample,
    teaching.learn,
    making.reproduce,
    making.demo,
):
    app.command()(_command)
app.add_typer(measuring.bench, name="bench")
