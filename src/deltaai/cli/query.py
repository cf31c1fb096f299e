"""``deltaai query``: posterior probabilities on the screen, as JSON or as CSV."""

from __future__ import annotations

from collections.abc import Mapping

from rich.markup import escape

from deltaai.cli import show
from deltaai.cli.training import training_bar
from deltaai.errors import DeltaAIError
from deltaai.exact import ExactInference, MostLikely
from deltaai.inference.query import Answer
from deltaai.inference.query import query as ask
from deltaai.models import FactorGraph


def run_query(
    model: FactorGraph,
    observed: Mapping[str, str | int],
    names: list[str] | None,
    *,
    method: str,
    memory_limit: int | None,
    time_limit: float | None,
    seed: int,
    most_likely: bool,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Ask, and show the answer."""
    if is_csv and most_likely:
        raise DeltaAIError("--csv prints marginals only: use --json with --map")
    if most_likely and method != "exact":
        raise DeltaAIError("--map is found exactly: leave --method out")
    best = None
    if method == "exact":
        with show.progress_bar("eliminating") as progress:
            answer = ask(model, observed, names, memory_limit=memory_limit, progress=progress)
            if most_likely:
                best = ExactInference(
                    model,
                    observed,
                    memory_limit=answer.plan.memory_limit,
                    elimination=answer.plan.elimination,
                    progress=progress,
                ).map()
    else:
        with training_bar() as watch:
            answer = ask(
                model,
                observed,
                names,
                method=method,
                memory_limit=memory_limit,
                time_limit=time_limit,
                seed=seed,
                watch=watch,
            )
    if is_json:
        document = show.answer_document(model, answer)
        if best is not None:
            document["map"] = {"log_score": best.log_score, "states": best.labels}
        show.as_json(document)
    elif is_csv:
        show.marginals_csv(model, answer)
    else:
        _print(model, answer, observed, names, best)


def _print(
    model: FactorGraph,
    answer: Answer,
    observed: Mapping[str, str | int],
    names: list[str] | None,
    best: MostLikely | None,
) -> None:
    sampled = answer.ess is not None
    spread = f" ± {answer.stderr:.2g}" if sampled else ""
    rows = [("log Z", f"{answer.log_partition:.9g}{spread}"), ("status", answer.status)]
    if sampled:
        rows += [("effective samples", f"{answer.ess:.0f}"), ("k-hat", f"{answer.khat:.2f}")]
    rows.append(("time", f"{answer.seconds:.3f} s"))
    if best is not None:
        wanted = names or list(best.labels)
        listed = ", ".join(f"{name}={best.labels[name]}" for name in wanted)
        rows += [("best log score", f"{best.log_score:.9g}"), ("most likely", listed)]
    given = ", ".join(f"{name}={state}" for name, state in observed.items())
    title = f"P(. | {given})" if given and len(given) < 80 else "Marginals"
    show.marginal_table(model, answer.marginals, escape(title))
    show.figures("", rows)
    for doubt in answer.doubts:
        show.out.print(f"[red]not to be trusted[/] {escape(doubt)}", soft_wrap=True)
