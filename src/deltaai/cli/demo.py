"""``deltaai demo``: the main thing in under a minute, in the words a user would type.

A model too wide for tables, its plan, a sampler trained for it, and what that says; then a small
model, where the exact answer stands beside the sampler's, and evidence that no training prepared
for. Everything shown is what the objects say of themselves.
"""

from __future__ import annotations

from rich.markup import escape

import deltaai as dai
from deltaai.cli import show
from deltaai.trust import Answer

_WIDE = "lattice"  # 32 x 32
# Training that takes half a minute at most, and is good enough to be worth a look.
_STEPS, _SECONDS = 50, 25
_SMALL_STEPS = 200
# On the small lattice: nine spins against what their neighbours would have.
_UNLIKELY = "dict(x_3_2=0, x_5_2=0, x_1_1=1, x_2_3=1, x_1_0=1, x_0_0=1, x_2_5=0, x_3_3=0, x_4_1=0)"


def run_demo() -> None:
    """Plan, train, ask; compare with the exact answer; ask something unlikely."""
    model = dai.example(_WIDE)
    spins = show.plural(model.num_variables, "spin")
    _part(f"1. A model too wide for tables: {spins} on a square, each coupled to its neighbours")
    _typed(f'model = dai.example("{_WIDE}")', "dai.plan(model)")
    _say(dai.plan(model))

    _part("2. So a neural sampler is trained for it, once")
    _typed(f"sampler = dai.fit(model, steps={_STEPS}, time_limit={_SECONDS})")
    sampler = dai.fit(model, steps=_STEPS, time_limit=_SECONDS, progress=show.has_progress())
    _say(sampler)

    _part("3. It answers, and says what each answer is worth")
    _typed('dai.query(sampler, of=["x0", "x40", ("x40", "x41")], num_samples=5000)')
    asked: list[str | tuple[str, ...]] = ["x0", "x40", ("x40", "x41")]
    _say(dai.query(sampler, of=asked, num_samples=5000, progress=show.has_progress()))

    _part("4. Is that true? On a small model the exact answer can stand beside it")
    _typed(
        "small = dai.zoo.ising_lattice(side=6, sigma=0.8, seed=3)",
        f"sampler = dai.fit(small, steps={_SMALL_STEPS})",
        'dai.query(sampler, of=["x_1_4"])    # by the sampler',
        'dai.query(small, of=["x_1_4"])      # exactly',
    )
    small = dai.zoo.ising_lattice(side=6, sigma=0.8, seed=3)
    sampler = dai.fit(small, steps=_SMALL_STEPS, progress=show.has_progress())
    _beside(dai.query(sampler, of=["x_1_4"]), dai.query(small, of=["x_1_4"]))

    _part("5. Unlikely evidence, which no training prepared it for: does it know what it says?")
    _explain(
        "Every sampled answer is held against samples that owe nothing to the sampler; where they "
        "know better, they answer."
    )
    _typed(
        f"odd = {_UNLIKELY}",
        'dai.query(sampler, odd, of=["x_1_4"])',
        'dai.query(small, odd, of=["x_1_4"])',
    )
    odd = dict(x_3_2=0, x_5_2=0, x_1_1=1, x_2_3=1, x_1_0=1, x_0_0=1, x_2_5=0, x_3_3=0, x_4_1=0)
    _beside(dai.query(sampler, odd, of=["x_1_4"]), dai.query(small, odd, of=["x_1_4"]))
    show.out.print(
        "\nYour own model: [bold]deltaai plan FILE[/], [bold]deltaai query FILE -e name=state[/], "
        "with .uai or .bif files.\nWithout a file: [bold]deltaai query asia -e smoke=yes[/]."
    )


def _part(title: str) -> None:
    show.out.print()
    show.out.rule(f"[bold]{escape(title)}", align="left")


def _explain(text: str) -> None:
    show.out.print(text, markup=False, style="dim")


def _typed(*lines: str) -> None:
    for line in lines:
        show.out.print(f">>> {line}", markup=False, style="cyan", soft_wrap=True)


def _say(shown: object) -> None:
    show.out.print(str(shown), markup=False, soft_wrap=True)


def _beside(sampled: Answer, exact: Answer) -> None:
    """Print what the sampler says, then what is true."""
    _say(sampled)
    _say(exact)
