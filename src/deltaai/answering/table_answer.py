"""Answers to many rows of evidence: arrays, a row each, and the same as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Num
from torch import Tensor

from deltaai.answering.columns import columns_of
from deltaai.arguments import checked_count, checked_items
from deltaai.display import Card, Shown, listing, plural
from deltaai.errors import ConfigError, DeltaAIError, Setting
from deltaai.extras import extra
from deltaai.models import FactorGraph

IMPOSSIBLE = "impossible"
_REST = ("log_partition", "stderr", "status", "ess", "khat", "visible_share", "doubts")
_MOST_SHOWN = 5  # cases, at a prompt


@dataclass(frozen=True, eq=False, repr=False)
class TableAnswer(Shown):
    """Posterior marginals and log Z of each row, with how far to trust them.

    Parameters
    ----------
    model : the target.
    names : the variables asked for.
    probabilities : of each state of each of them, (row, pair); not a number in impossible rows. A
        real variable has its mean, deviation and the ends of 95 % of it in their place.
    errors : their standard errors, (row, pair).
    log_partition, stderr, ess, khat : one of each a row; the last two are not numbers where nothing
        was sampled.
    visible_share : a missing part of the distribution with a larger share than this would have been
        noticed; not a number where nothing was checked.
    status : of each row: as :class:`~deltaai.trust.estimate.Estimate` has it, or
        ``"impossible"`` if no state agrees with the evidence.
    doubts : why a row is not to be trusted, or an empty text.
    method : how they were found.
    seconds : time taken, training included.
    samples : states that agree with the evidence, (row, sample, variable), if asked for.
    notes : what to know about the model, one sentence each; they lower no status.
    """

    model: FactorGraph
    names: tuple[str, ...]
    probabilities: np.ndarray
    errors: np.ndarray
    log_partition: np.ndarray
    stderr: np.ndarray
    ess: np.ndarray
    khat: np.ndarray
    visible_share: np.ndarray
    status: tuple[str, ...]
    doubts: tuple[str, ...]
    method: str
    seconds: float
    samples: Num[Tensor, "row sample var"] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.status)

    def _card(self) -> Card:
        counts = Counter(self.status).most_common()
        said = ", ".join(f"{count} {status}" for status, count in counts)
        rows = [
            (
                f"case {row + 1}",
                f"log Z {self.log_partition[row]:.6g} ({self.status[row]}); "
                + listing(
                    f"{column}: {value:.4g}"
                    for column, value in zip(self.columns, self.probabilities[row], strict=True)
                ),
            )
            for row in range(min(len(self), _MOST_SHOWN))
        ]
        if len(self) > _MOST_SHOWN:
            rows.append(("...", f"and {len(self) - _MOST_SHOWN} more; see to_frame()"))
        title = f"{plural(len(self), 'case')} by {self.method} in {self.seconds:.2f} s: {said}"
        return Card(title, tuple(rows))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """``name=state`` for each column of ``probabilities``; ``name mean`` of a real variable."""
        return tuple(column for name in self.names for column in columns_of(self.model, name))

    def marginals(self, row: int) -> dict[str, np.ndarray]:
        """Probabilities of the asked variables in one row, counted from 0 as arrays are.

        Of a real variable: mean, deviation, and the ends of 95 % of it.
        """
        row = checked_count("row", row, 0, len(self) - 1)
        sizes = [len(columns_of(self.model, name)) for name in self.names]
        parts = np.split(self.probabilities[row], np.cumsum(sizes)[:-1])
        return dict(zip(self.names, parts, strict=True))

    def header(self) -> list[str]:
        """Names of the columns of :meth:`cells`."""
        return [*self.columns, *_REST]

    def cells(self) -> Iterator[list[Any]]:
        """One list a row: probabilities, log Z and its error, and what they are worth."""
        rest = [getattr(self, name) for name in _REST]
        for number, row in enumerate(self.probabilities.tolist()):
            yield [*row, *(column[number] for column in rest)]

    def to_frame(self, index: Any = None) -> Any:  # noqa: ANN401
        """The same as a pandas ``DataFrame``.

        Parameters
        ----------
        index : labels of the rows; numbers by default.
        """
        pandas = extra("pandas", "tables", "tables")
        if index is not None:
            try:
                index = pandas.Index(index)
            except Exception:  # whatever pandas stumbles over
                index = checked_items("index", index, "labels")
            if len(index) != len(self):
                raise ConfigError(
                    Setting("index"), f" has {len(index)} labels for {len(self)} rows: one a row"
                )
        return pandas.DataFrame(list(self.cells()), columns=self.header(), index=index)

    def sample_cells(self) -> Iterator[list[str]]:
        """One list a sample: the number of its row, its own, and a label for each variable."""
        if self.samples is None:
            raise DeltaAIError("no samples were kept: ask with samples=5, for example")
        variables = self.model.variables
        for row, drawn in enumerate(self.samples.tolist()):
            for number, states in enumerate(drawn):
                shown = (
                    repr(x) if v.is_real else v.states[int(x)]
                    for v, x in zip(variables, states, strict=True)
                )
                yield [str(row), str(number), *shown]
