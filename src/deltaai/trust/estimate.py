"""A number with how far it can be trusted, and posterior marginals with the same.

Every answer of this library is one of two: an :class:`Estimate` (log Z, or one variable's
probabilities), or :class:`Marginals` (by name: probabilities of a variable's states, or a
:class:`~deltaai.real_marginals.RealMarginal`; each can be taken out as an Estimate). Their
``status`` says in one word what they are worth:

- ``"exact"``: computed by elimination, up to rounding;
- ``"bounded"``: inside a narrow bracket that holds however good or bad the sampler is;
- ``"estimated"``: with an error bar, and nothing speaks against it, though something could have
  (``visible_share`` says how large a missing part would have been noticed);
- ``"unchecked"``: nothing speaks against it, and nothing for it; it promises nothing;
- ``"untrusted"``: something does, and ``doubts`` says what, with the remedy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy  # its parts come when they are needed

from deltaai.arguments import checked_count, checked_items
from deltaai.display import Card, Shown, listing
from deltaai.errors import EvidenceError, did_you_mean, shown
from deltaai.real_marginals import RealMarginal
from deltaai.trust.verdicts import BLIND, Status

CONFIDENCE = 0.95
MOST_ROWS = 10  # variables that are shown
_MOST_STATES = 8
Asked = str | tuple[str, ...]  # a variable, or some whose joint marginal is wanted


def probabilities(
    values: np.ndarray, errors: float | int | np.ndarray = 0.0, labels: Sequence[str] | None = None
) -> str:
    """Write probabilities for people, with labels and errors if there are any.

    >>> probabilities(np.array([0.25, 0.75]), 0.01, ["no", "yes"])
    'no: 0.25 ± 0.01, yes: 0.75 ± 0.01'
    >>> probabilities(np.array([0.2000001, 0.8]))
    '0.2, 0.8'
    """
    written = []
    names = [""] * values.size if labels is None else [f"{label}: " for label in labels]
    spread = np.broadcast_to(errors, values.shape)
    for name, value, error in zip(names, values.flat, spread.flat, strict=True):
        end = f" ± {error:.1g}" if error > 0 else ""
        written.append(f"{name}{value:.4g}{end}")
        if len(written) == _MOST_STATES and values.size > _MOST_STATES:
            return f"{', '.join(written)}, ..."
    return ", ".join(written)


def what_was_checked(visible_share: float | None) -> str:
    """What a second opinion could see, in words.

    >>> what_was_checked(0.012), what_was_checked(0.8), what_was_checked(None)
    ('no missing part above 1.2 %', 'could not be checked', 'not checked')
    """
    if visible_share is None:
        return "not checked"
    if visible_share >= BLIND:
        return "could not be checked"
    return f"no missing part above {100 * visible_share:.2g} %"


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How something was found and what it is worth.

    Parameters
    ----------
    status : ``"exact"``, ``"bounded"``, ``"estimated"``, ``"unchecked"`` or ``"untrusted"``.
    method : how it was found.
    seconds : how long that took.
    ess : effective number of samples, ``khat`` the shape of the weights' tail, and ``num_samples``
        how many there are, if it was sampled.
    degrees : independent parts that a standard error rests on, less one.
    doubts : why it is not to be trusted, one sentence each, with the remedy.
    visible_share : a missing part of the distribution with a larger share than this would have been
        noticed in 95 % of cases, if it was checked.
    """

    status: Status = "exact"
    method: str = "elimination"
    seconds: float = 0.0
    ess: float | None = None
    khat: float | None = None
    num_samples: int | None = None
    degrees: float | int = math.inf
    doubts: tuple[str, ...] = ()
    visible_share: float | None = None

    @property
    def quality(self) -> Quality:
        """The quality alone, if there is more."""
        return Quality(**{field.name: getattr(self, field.name) for field in fields(Quality)})

    @property
    def ess_fraction(self) -> float | None:
        """Effective samples as a share of all."""
        return None if self.ess is None or not self.num_samples else self.ess / self.num_samples


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Quality):
    """A value, its error, and what they are worth.

    Parameters
    ----------
    value : the number, or one for each state of a variable.
    stderr : standard error, of the same shape; zero if nothing is random.
    elbo : mean of the log weights, for a sampled log Z.
    bracket : bounds on log Z: the lower one holds with 97.5 % confidence, the upper always.
    """

    value: float | np.ndarray
    stderr: float | np.ndarray = 0.0
    elbo: float | None = None
    bracket: tuple[float, float] | None = None

    @property
    def interval(self) -> tuple[float | np.ndarray, float | np.ndarray]:
        """Where the value lies with 95 % confidence, unless the status is ``"untrusted"``.

        >>> low, high = Estimate(1.0, stderr=0.1, status="estimated").interval
        >>> round(low, 3), round(high, 3)
        (0.804, 1.196)
        """
        reach = scipy.special.stdtrit(self.degrees, (1 + CONFIDENCE) / 2) * np.asarray(self.stderr)
        if isinstance(self.value, np.ndarray):
            low, high = self.value - reach, self.value + reach
            return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        ends = self.value - float(reach), self.value + float(reach)
        if self.bracket is None:
            return ends
        return max(ends[0], self.bracket[0]), min(ends[1], self.bracket[1])

    def __float__(self) -> float:
        """The value itself, so that it can stand where a number is wanted."""
        return float(self.value)

    def __str__(self) -> str:
        """Value, error and status in one line.

        >>> print(Estimate(12.25, stderr=0.01, status="estimated", ess=900.0))
        12.25 ± 0.01 (estimated)
        """
        if isinstance(self.value, np.ndarray):
            return f"{probabilities(self.value, self.stderr)} ({self.status})"
        error = f" ± {self.stderr:.2g}" if self.ess is not None else ""
        return f"{self.value:.9g}{error} ({self.status})"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return Card(str(self), (), self.doubts).html()


class Marginals(Shown, dict[Any, Any]):
    """Marginals of variables by name, with how far they can be trusted.

    A variable with states has an array of probabilities; a real one has a
    :class:`~deltaai.real_marginals.RealMarginal`, and the name of a vector stands for a list of
    those of its coordinates. The key of a joint marginal is a tuple of names,
    ``marginals["rain", "wet"]``, and its value has an axis for each.

    Parameters
    ----------
    values : probabilities of each variable, in the order of its states; real marginals.
    quality : what all of them share.
    stderr : standard errors by name; none if they are exact. Real marginals have their own.
    states : labels of each variable's states, to show them with; numbers if there are none.
    """

    def __init__(
        self,
        values: Mapping[Any, Any],
        quality: Quality,
        stderr: Mapping[Any, np.ndarray] | None = None,
        states: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(values)
        self.quality = quality
        self.stderr = dict(stderr or {})
        self.states = dict(states or {})

    @property
    def status(self) -> Status:
        """What they are worth."""
        return self.quality.status

    @property
    def ess(self) -> float | None:
        """Effective number of samples."""
        return self.quality.ess

    @property
    def khat(self) -> float | None:
        """Shape of the weights' tail."""
        return self.quality.khat

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why they are not to be trusted."""
        return self.quality.doubts

    def __missing__(self, name: Any) -> list[RealMarginal]:  # noqa: ANN401
        """Those of the coordinates of a vector, where its name is asked for."""
        found = [self[each] for each in self._coordinates(name)]
        if not found:
            raise KeyError(name)
        return found

    def _coordinates(self, name: object) -> list[str]:
        """Names of the coordinates of a vector, as far as they are here; none of others."""
        numbered = (f"{name}[{number}]" for number in itertools.count())
        return list(itertools.takewhile(self.__contains__, numbered))

    def _checked(self, name: Asked) -> Asked:
        """A name that was asked for, or the error that says which were."""
        if isinstance(name, str | tuple) and name in self:
            return name
        known = [key for key in self if isinstance(key, str)]
        raise EvidenceError(
            f"there is no marginal of {shown(name)}{did_you_mean(name, known)}; asked for were "
            f"{listing(map(str, self))}"
        )

    def labels(self, name: Asked) -> list[str]:
        """Labels of a variable's states, or of joint ones, in the order of ``self[name].flat``."""
        name = self._checked(name)
        if isinstance(self[name], RealMarginal):
            raise EvidenceError(f"{shown(name)} is real and has no states: look at its quantiles")
        names = (name,) if isinstance(name, str) else name
        known = [
            self.states.get(one, [str(state) for state in range(size)])
            for one, size in zip(names, self[name].shape, strict=True)
        ]
        joint = (", ".join(some) for some in itertools.product(*known))
        return list(joint) if isinstance(name, str) else [f"({label})" for label in joint]

    def rows(self, most: int = MOST_ROWS) -> list[tuple[str, str]]:
        """Names and probabilities, or mean ± deviation and 95 % interval, to show."""
        most = checked_count("most", most)
        rows = [
            (str(name), str(value))
            if isinstance(value, RealMarginal)
            else (
                f"P({name if isinstance(name, str) else ', '.join(name)})",
                probabilities(value, self.stderr.get(name, 0.0), self.labels(name)),
            )
            for name, value in itertools.islice(self.items(), most)
        ]
        return rows + [("...", f"and {len(self) - most} more")] * (len(self) > most)

    def _card(self) -> Card:
        return Card(f"Marginals ({self.status})", tuple(self.rows()), self.doubts)

    def estimate(self, name: Asked) -> Estimate:
        """One variable's probabilities, or some variables' joint ones, with errors and interval.

        Of a real variable it is the mean.
        """
        name = self._checked(name)
        if isinstance(found := self[name], RealMarginal):
            return Estimate(found.mean, found.stderr, **vars(self.quality))
        errors = self.stderr.get(name, np.zeros(self[name].shape))
        return Estimate(self[name], errors, **vars(self.quality))

    def of(self, names: Sequence[Asked]) -> Marginals:
        """Those of some variables."""
        listed = checked_items("names", names, "names", EvidenceError)
        spelled = ((self._coordinates(n) if isinstance(n, str) else []) or [n] for n in listed)
        names = [self._checked(name) for some in spelled for name in some]
        errors = {name: self.stderr[name] for name in names if name in self.stderr}
        values = {name: self[name] for name in names}
        return Marginals(values, self.quality, errors, self.states)


def joined(
    marginals: Marginals, values: Mapping[Any, np.ndarray], stderr: Mapping[Any, np.ndarray]
) -> Marginals:
    """These and further ones, of the same quality."""
    errors = {**marginals.stderr, **stderr}
    return Marginals({**marginals, **values}, marginals.quality, errors, marginals.states)


def labelled(marginals: Marginals, states: Mapping[str, Sequence[str]]) -> Marginals:
    """The same with labels of states to show them with."""
    return Marginals(marginals, marginals.quality, marginals.stderr, states)
