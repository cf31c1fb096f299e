"""``deltaai query``: posterior probabilities on the screen, or as JSON or CSV, for one case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deltaai.answering import BestState, Question, answer_case, best_state_given
from deltaai.cli import show
from deltaai.cli.progress import bars
from deltaai.errors import DeltaAIError
from deltaai.fitting import Sampler
from deltaai.progress import Reports
from deltaai.trust import Answer


def run_query(
    question: Question,
    observed: Mapping[str, str | int],
    *,
    most_likely: bool,
    output: Path | None,
    is_json: bool,
    is_csv: bool,
) -> None:
    """Ask, and show the answer, with the evidence as it was typed."""
    if is_csv and most_likely:
        raise DeltaAIError("--csv prints marginals only: use --json with --map")
    if most_likely and isinstance(question.source, Sampler):
        raise DeltaAIError("--map is a matter of the model: give the model instead of the sampler")
    model = question.model
    with bars() as shown, nothing_kept():
        answer = answer_case(question, shown)
        best = _most_likely(question, answer, shown) if most_likely else None
    if answer.plan is not None:
        show.detail(f"plan: {answer.plan.method}, because {answer.plan.reason}")
    show.notes(answer.notes)
    show.detail(f"answered by {answer.method} in {answer.seconds:.3f} s")
    if is_json:
        document = show.answer_document(model, answer)
        if best is not None:
            document["map"] = {
                "log_score": best.log_score,
                "upper": best.upper,
                "status": best.status,
                "states": best.labels,
            }
        show.emit(show.json_text(document), output)
    elif is_csv:
        show.emit(show.marginals_csv(model, answer), output)
    else:
        _print(question, answer, observed, best)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Say what becomes of a question that is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        show.note(
            "stopped; a question keeps nothing. To train a sampler that can be resumed and asked "
            "again: deltaai fit FILE -o SAMPLER.dai"
        )
        raise


def _most_likely(question: Question, answer: Answer, shown: Reports) -> BestState:
    """The most likely state by the plan of the answer, or by search."""
    return best_state_given(
        question.model,
        question.observed,
        question.budget,
        shown,
        seed=question.seed,
        planned=answer.plan,
    )


def _print(
    question: Question,
    answer: Answer,
    observed: Mapping[str, str | int],
    best: BestState | None,
) -> None:
    found = answer.partition
    is_sampled = found.ess is not None
    spread = f" ± {found.stderr:.2g}" if is_sampled else ""
    worth = f" ({found.status})" if found.status != answer.status else ""
    rows = [("log Z", f"{answer.log_partition:.9g}{spread}{worth}")]
    if found.bracket is not None:
        rows.append(("between", f"{found.bracket[0]:.6g} and {found.bracket[1]:.6g}"))
    rows.append(("status", answer.status))
    if is_sampled:
        rows += [("effective samples", f"{found.ess:.0f}"), ("k-hat", f"{found.khat:.2f}")]
    if answer.status != "exact":
        rows += [
            ("checked", show.what_was_checked(answer.visible_share)),
            ("method", answer.method),
        ]
    rows.append(("time", f"{answer.seconds:.3f} s"))
    if best is not None:
        listed = ", ".join(f"{name}={_short(best.labels[name])}" for name in question.names)
        at_most = "" if best.status == "exact" else f", at most {best.upper:.9g}"
        rows += [
            ("best log score", f"{best.log_score:.9g}{at_most} ({best.status})"),
            ("most likely", listed),
        ]
    given = ", ".join(f"{name}={state}" for name, state in observed.items())
    title = f"P(. | {given})" if given and len(given) < 80 else "Marginals"
    show.marginal_table(question.model, answer.marginals, title)
    show.figures("", rows)
    show.doubts(answer.doubts)


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
