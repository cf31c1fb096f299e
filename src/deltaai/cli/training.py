"""``deltaai fit`` and ``deltaai sample``: progress while training, a summary that can be read."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deltaai.cli import show
from deltaai.errors import DeltaAIError
from deltaai.inference.fit import fit
from deltaai.inference.loading import load_sampler
from deltaai.inference.sampler import Sampler
from deltaai.io import read
from deltaai.io.atomic import replace_file
from deltaai.sampling.importance import ImportanceEstimate
from deltaai.training.loop import Progress as Standing

_CHECKPOINT_EVERY = 50


def run_fit(
    file: Path,
    output: Path,
    *,
    orders: str,
    seed: int,
    resume: bool,
    metrics: Path | None,
    is_json: bool,
    settings: dict[str, Any],
) -> None:
    """Train, save, and say how good the sampler is."""
    if orders not in {"one", "many"}:
        raise DeltaAIError(f"--orders is {orders!r}: choose one or many")
    if not output.parent.is_dir():
        raise DeltaAIError(f"there is no folder {output.parent} to write {output.name} to")
    checkpoint = output.with_name(output.name + ".checkpoint")
    if resume and not checkpoint.exists():
        raise DeltaAIError(f"nothing to resume: there is no {checkpoint}")
    model = read(file)
    try:
        with training_bar() as watch:
            sampler = fit(
                model,
                orders=orders,  # type: ignore[arg-type]
                seed=seed,
                checkpoint=checkpoint,
                resume=resume,
                metrics=metrics,
                watch=watch,
                checkpoint_every=_CHECKPOINT_EVERY,
                **settings,
            )
    except KeyboardInterrupt:
        if checkpoint.exists():
            show.err.print(f"stopped; continue with the same command and --resume ({checkpoint})")
        raise
    sampler.save(output)
    checkpoint.unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(seed + 1)
    estimate = sampler.log_partition(generator=generator)
    worst = sorted(sampler.residuals(generator=generator).items(), key=lambda item: -item[1])[:3]
    if is_json:
        show.as_json(_document(output, sampler, estimate, dict(worst)))
    else:
        _summary(output, sampler, estimate, worst)


def run_sample(file: Path, number: int, *, seed: int, output: Path | None, is_csv: bool) -> None:
    """Draw samples; to a table on screen, as CSV, or to a file."""
    if number < 1:
        raise DeltaAIError(f"the number of samples is {number}: it must be at least 1")
    if output is not None and output.suffix not in {".csv", ".npz"}:
        raise DeltaAIError(f"{output}: samples are written to .csv or .npz files")
    sampler = load_sampler(file)
    x, log_q = sampler.sample_with_log_prob(number, torch.Generator().manual_seed(seed))
    if output is not None and output.suffix == ".npz":
        buffer = io.BytesIO()
        names = np.array([variable.name for variable in sampler.model.variables])
        np.savez_compressed(buffer, states=x.numpy(), log_q=log_q.numpy(), variables=names)
        replace_file(output, buffer.getvalue())
    elif output is not None or is_csv:
        text = _as_csv(sampler, x)
        if output is None:
            sys.stdout.write(text)
            return
        replace_file(output, text.encode())
    else:
        show.samples_table(sampler.model, x[:20], f"{min(number, 20)} of {number} samples")
        return
    show.err.print(f"{number} samples in {output}")


def _as_csv(sampler: Sampler, x: torch.Tensor) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    variables = sampler.model.variables
    writer.writerow(variable.name for variable in variables)
    for row in x.tolist():
        writer.writerow(v.states[k] for v, k in zip(variables, row, strict=True))
    return stream.getvalue()


@contextmanager
def training_bar() -> Iterator[Callable[[Standing], None] | None]:
    """Show the course of training, if there is a terminal to show it on."""
    if not show.err.is_terminal:
        yield None
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.fields[standing]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=show.err, transient=True) as bars:
        task = bars.add_task("training", total=None, standing="")
        last = ""

        def watch(standing: Standing) -> None:
            nonlocal last
            if standing.estimate is not None:
                ess, elbo = standing.estimate.ess_fraction, standing.estimate.elbo
                last = f"ESS {ess:.1%}  ELBO {elbo:.3f}"
            text = f"{standing.step}/{standing.steps}  loss {standing.loss:.4g}  {last}"
            bars.update(task, completed=standing.step, total=standing.steps, standing=text)

        yield watch


def _summary(
    output: Path,
    sampler: Sampler,
    estimate: ImportanceEstimate,
    worst: list[tuple[str, float]],
) -> None:
    steps = sampler.history[-1]["step"] if sampler.history else 0
    seconds = sampler.history[-1]["seconds"] if sampler.history else 0.0
    show.figures(
        f"Sampler for {show.plural(sampler.model.num_variables, 'variable')} in {output}",
        [
            ("training", f"{steps} updates, {seconds:.1f} s, {sampler.orders.kind} order(s)"),
            ("log Z", f"{estimate.log_partition:.4f} ± {estimate.stderr:.4f}"),
            ("ELBO", f"{estimate.elbo:.4f}"),
            ("effective samples", f"{estimate.ess_fraction:.1%} of {estimate.num_samples}"),
            ("Pareto k-hat", f"{estimate.khat:.2f} ({_verdict(estimate)})"),
            ("largest residuals", ", ".join(f"{name} {value:.2g}" for name, value in worst)),
        ],
    )


def _verdict(estimate: ImportanceEstimate) -> str:
    """What the weights say; where nearly all are equal, a tail fitted to the rest says nothing."""
    if estimate.khat <= 0.5 or estimate.ess_fraction >= 0.95:
        return "reliable"
    return "usable" if estimate.khat <= 0.7 else "do not trust: train longer"


def _document(
    output: Path, sampler: Sampler, estimate: ImportanceEstimate, worst: dict[str, float]
) -> dict[str, Any]:
    return {
        "sampler": str(output),
        "estimate": estimate,
        "config": sampler.config.to_dict(),
        "history": sampler.history,
        "largest_residuals": worst,
    }
