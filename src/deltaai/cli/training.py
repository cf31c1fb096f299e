"""``deltaai fit``: progress while training, a file that can be used again, a readable summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from deltaai.answering import SAMPLER_SUFFIX
from deltaai.budget import Budget
from deltaai.cli import show
from deltaai.cli.outputs import Output, check_outputs
from deltaai.cli.parsing import parse_names
from deltaai.cli.progress import bars
from deltaai.cli.run_file import RunFile
from deltaai.cli.sources import read_model
from deltaai.errors import DeltaAIError, TimeLimitError
from deltaai.fitting import Sampler, fit
from deltaai.heap import hand_back
from deltaai.randomness import generator_of

_CHECKPOINT_EVERY = 50
# What training leaves of a limit of time for judging the sampler: a share, and at most so much.
_JUDGING_SHARE, _JUDGING_SECONDS = 0.3, 15.0


def run_fit(
    file: Path,
    output: Path,
    *,
    orders: str,
    seed: int,
    checkpoint: Path | None,
    resume: bool,
    restart: bool,
    metrics: Path | None,
    evidence: str | None,
    device: str | None,
    is_json: bool,
    is_csv: bool,
    budget: Budget,
    settings: dict[str, Any],
) -> None:
    """Train, save, and say how good the sampler is."""
    if orders not in {"one", "many"}:
        raise DeltaAIError(f"--orders is {orders!r}: choose one or many")
    run_file = RunFile.of(output, checkpoint)
    check_outputs(
        [
            Output("--output", output, "samplers", (SAMPLER_SUFFIX,)),
            run_file.output,
            Output("--metrics", metrics, "courses of training", (".jsonl", ".csv")),
        ],
        [file],
    )
    run_file.settle(resume=resume, restart=restart)
    model = read_model(file, budget)
    settings = settings | {"time_limit": budget.leaving(_JUDGING_SHARE, _JUDGING_SECONDS)}
    with run_file.kept():
        with bars() as shown:
            sampler = fit(
                model,
                orders=orders,  # type: ignore[arg-type]
                seed=seed,
                evidence="any" if evidence == "any" else parse_names(evidence, model),
                checkpoint=run_file.path,
                resume=resume,
                restart=restart,
                metrics=metrics,
                progress=False,
                watch=shown.training,
                memory_limit=budget.memory,
                device=device,
                **{"checkpoint_every": _CHECKPOINT_EVERY} | settings,
            )
        show.detail(f"trained with {sampler.config.to_dict()}")
        sampler.save(output, budget=budget)
    generator = generator_of((seed + 1) % 2**63)
    found = sampler.diagnostics
    worst = _largest_residuals(sampler, generator, budget)
    if is_json or is_csv:
        document = {
            "sampler": str(output),
            "estimate": found,
            "config": sampler.config.to_dict(),
            "history": sampler.history,
            "largest_residuals": worst,
        }
        if is_json:
            show.as_json(document)
        else:
            show.figures_csv({"sampler": str(output), **{k: _cell(v) for k, v in found.items()}})
    else:
        _summary(output, sampler, worst)


def _largest_residuals(
    sampler: Sampler, generator: torch.Generator, budget: Budget
) -> dict[str, float]:
    if isinstance(sampler.evidence, tuple):
        return {}  # they are given some values, and there are none here
    hand_back()
    try:
        found = sampler.residuals(generator=generator, budget=budget)
    except TimeLimitError:
        return {}  # they are not what was asked for
    return dict(sorted(found.items(), key=lambda item: -item[1])[:3])


def _cell(value: object) -> object:
    return "; ".join(value) if isinstance(value, list) else value


def _summary(output: Path, sampler: Sampler, worst: dict[str, float]) -> None:
    steps = sampler.history[-1]["step"] if sampler.history else 0
    seconds = sampler.history[-1]["seconds"] if sampler.history else 0.0
    found = sampler.diagnostics
    rows = [
        ("training", f"{steps} updates, {seconds:.1f} s, {sampler.orders.kind} order(s)"),
        ("log Z", f"{found['log_partition']:.4f} ± {found['stderr']:.4f}"),
        ("ELBO", f"{_number(found['elbo'], '.4f')}"),
        ("effective samples", f"{found['ess_fraction']:.1%} of {found['num_samples']}"),
        ("Pareto k-hat", _number(found["khat"], ".2f")),
        ("status", str(found["status"])),
        ("checked", show.what_was_checked(found["visible_share"])),
    ]
    if worst:
        listed = ", ".join(f"{name} {value:.2g}" for name, value in worst.items())
        rows.append(("largest residuals", listed))
    variables = show.plural(sampler.model.num_variables, "variable")
    show.figures(f"Sampler for {variables} in {output}", rows)
    show.doubts(found["doubts"])


def _number(value: float | None, form: str) -> str:
    return "none" if value is None else format(value, form)
