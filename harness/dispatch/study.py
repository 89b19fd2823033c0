"""Compare all ways to choose on the same held-out inputs, and decide which dispatcher to ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array
from harness.core.cache import Cache, content_key
from harness.core.records import Input
from harness.dispatch.choice import LearntSelector
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.learners import Default, Learner, Nearest, Starchart, Static
from harness.dispatch.matrix import Matrix
from harness.dispatch.most import AtMost, Portfolio, limited, portfolios
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import PairedComparison, Slowdowns, held_out_slowdowns
from harness.models.folds import ENOUGH_INPUTS, FEWEST_INPUTS, fold_count

if TYPE_CHECKING:
    from harness.results.view import Results

STATIC = Static()
HINDSIGHT = f"{STATIC.name}, in hindsight"
TREE = TreeLearner().name
_GADAPT = GAdapt().name
DISPATCHERS: Mapping[str, TreeLearner | EnsembleLearner | GAdapt] = {
    learner.name: learner for learner in (TreeLearner(), EnsembleLearner(), GAdapt())
}
"""What can be written as code."""

AUTOMATIC = (TREE, EnsembleLearner().name)
"""The dispatchers that are chosen among, cheapest to run first. G-ADAPT's model is not: each more
would need a stricter test, so that one that gains nothing is written as rarely."""

AUTO = "auto"
"""The choice among the automatic dispatchers, which `Study.best` makes."""

CHOICES = (AUTO, *DISPATCHERS)
"""What a user may ask for."""

_WORTH_MORE = 0.99  # of the time: what an ensemble must gain over a tree, which is faster to run


def learners(names: Sequence[str] = AUTOMATIC) -> list[Learner]:
    """Return all learners of the verdict's table, with the named dispatchers."""
    published = (DISPATCHERS[_GADAPT], Starchart())
    named = (DISPATCHERS[name] for name in names if name != _GADAPT)
    return [Default(), STATIC, Nearest(), *published, *named]


QUICK: Sequence[Learner] = (Default(), STATIC, *(DISPATCHERS[name] for name in AUTOMATIC))
"""The learners without the published models: enough to see whether choosing by input is worth
it."""


@dataclass(frozen=True)
class Study:
    """The slowdowns of each way to choose on held-out inputs, by name, and the matrix behind them;
    `most` limits the configurations of a dispatcher.

    `slowdowns` also has the best static choice of all inputs, in hindsight. Where several
    candidates are about as fast, holding an input out takes its vote away from the candidate that
    is fast on it. The held-out choice changes to another one just there, and whatever does not
    change seems to gain: of 84 simulated databases without any difference, 6 had a dispatcher that
    was significantly faster. The choice in hindsight knows the inputs that it is judged on, so it
    is a little too fast.
    """

    matrix: Matrix
    slowdowns: Mapping[str, Slowdowns]
    seed: int
    cache: Cache = field(default_factory=Cache, repr=False)
    most: int | None = None

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        wanted: Sequence[Learner],
        seed: int = 0,
        step: Callable[[str], None] = lambda name: None,
        cache: Cache | None = None,
        most: int | None = None,
    ) -> Study:
        """Compare the learners; what was compared before is in the `cache`. Dispatchers choose
        among at most so many configurations. Raises ValueError if there are too few inputs to hold
        some out."""
        matrix, cache = matrix.comparable(), cache or Cache()
        if len(matrix.features) < FEWEST_INPUTS:
            raise ValueError(
                f"it needs {FEWEST_INPUTS} inputs on which the same configurations were measured, "
                f"and there are {len(matrix.features)}"
            )
        chosen = _known(matrix, wanted)
        if most is not None:
            chosen = [limited(learner, most) for learner in chosen]
        judged = held_out_slowdowns(matrix, chosen, seed, step, cache)
        slowdowns = {}
        for name, one in judged.items():
            slowdowns[name] = one
            if name == STATIC.name:
                indices = STATIC.fit(matrix, seed).indices(matrix.features, matrix.applies)
                slowdowns[HINDSIGHT] = Slowdowns.of(HINDSIGHT, matrix, indices)
        return cls(matrix, slowdowns, seed, cache, most)

    @property
    def dispatchers(self) -> list[str]:
        """The names of the dispatchers to choose among; G-ADAPT's model only if there is no
        other."""
        return [name for name in AUTOMATIC if name in self.slowdowns] or [_GADAPT]

    @cached_property
    def best(self) -> str:
        """The dispatcher to ship."""
        return to_ship(self.slowdowns, self.dispatchers, self._statics)

    @property
    def _statics(self) -> Sequence[Slowdowns]:
        return self.slowdowns[STATIC.name], self.slowdowns[HINDSIGHT]

    @property
    def notes(self) -> list[str]:
        """What a reader of the slowdowns must also know."""
        return [note for note in (self._of_default, *self.matrix.note.splitlines()) if note]

    @property
    def _of_default(self) -> str:
        index, count = self.matrix.default, len(self.matrix.features)
        applies = 0 if index is None else int(self.matrix.applies[:, index].sum())
        if index is None or applies == count:
            return ""
        if not applies:
            return "The default has no row: it was not measured on every input."
        return (
            f"The default does not apply to {count - applies} of {count} inputs; there its row "
            "counts the best static configuration."
        )

    def gain(self, name: str) -> PairedComparison:
        """Compare a dispatcher with the best static configuration: the one of the other inputs or
        that of all inputs, whichever it gains less over."""
        return self.slowdowns[name].least_gain(self._statics)

    def sentence(self, name: str) -> str:
        """Say whether a dispatcher is worth having."""
        gain, count = self.gain(name), len(self.matrix.features)
        ratio = gain.ratio.inverse.text(".3f", "x")
        inputs = f"{count} held-out inputs, faster on {gain.wins}, slower on {gain.losses}"
        figures = f"{ratio} on {inputs}"
        subject = f"Choosing by input ({name}) is"
        if gain.is_better:
            return f"{subject} faster than one configuration for all: {figures}."
        if gain.ratio.low > 1:
            return f"{subject} slower than one configuration for all: {figures}. Use that one."
        more = f" Tune some {ENOUGH_INPUTS} inputs to know more." if count < ENOUGH_INPUTS else ""
        return f"{subject} no faster than one configuration for all: {figures}, within noise.{more}"

    @property
    def has_choice(self) -> bool:
        """Whether the best dispatcher does not choose the same on every input."""
        indices = self.learnt(self.best).indices(self.matrix.features, self.matrix.applies)
        return len(set(indices.tolist()) - {-1}) > 1

    def learnt(self, name: str) -> LearntSelector:
        """Fit a dispatcher to all inputs, once."""
        if name not in self._fitted:
            own = DISPATCHERS[name]
            learner = own if self.most is None else AtMost(own, self.most)
            key = content_key("learnt", self.matrix.key, repr(learner), self.seed)
            make = partial(learner.fit, self.matrix, self.seed)
            self._fitted[name] = self.cache.recall(key, make)
        return self._fitted[name]

    @cached_property
    def portfolios(self) -> list[Portfolio]:
        """What few configurations reach if the best of them is chosen."""
        return list(portfolios(self.matrix, self.seed))

    @cached_property
    def _fitted(self) -> dict[str, LearntSelector]:
        return {}


def to_ship(
    slowdowns: Mapping[str, Slowdowns], names: Sequence[str], statics: Sequence[Slowdowns]
) -> str:
    """Choose among dispatchers, cheapest to run first: of those significantly better than each of
    the static choices, or of all if none is, the first; a later one if it is significantly better,
    by 1 % or more."""
    worth = [name for name in names if slowdowns[name].least_gain(statics).is_better] or names
    best = worth[0]
    for name in worth[1:]:
        gain = slowdowns[name].over(slowdowns[best])
        if gain.is_better and gain.ratio.value <= _WORTH_MORE:
            best = name
    return best


def fits(matrix: Matrix, wanted: Sequence[Learner]) -> int:
    """Return how often `Study.of` calls `step`."""
    matrix = matrix.comparable()
    return len(_known(matrix, wanted)) * fold_count(matrix.groups)


def _known(matrix: Matrix, wanted: Sequence[Learner]) -> list[Learner]:
    """Leave the default out if it was not measured on every input."""
    index = matrix.default
    has_default = index is not None and bool(matrix.applies[:, index].any())
    return [learner for learner in wanted if has_default or not isinstance(learner, Default)]


# ------------------------------------------------------------------------- each input


@dataclass(frozen=True)
class InputSlowdowns:
    """Times of an input over its best known time: of the worst configuration that worked,
    of the default, and of the one that a dispatcher predicts without this input. Figures 3, 4 and 6
    of G-ADAPT's paper (Liu, Zhang, Shen, IPDPS 2009) compare these.

    Infinity for a failure; NaN for a default that does not apply to the input or has no time.
    """

    problem: Input
    worst: float
    default: float
    predicted: float


def slowdowns_by_input(results: Results, study: Study, choice: str = AUTO) -> list[InputSlowdowns]:
    """Compare the configurations of each input of a study; `choice` names one of its rows."""
    matrix = study.matrix
    names = list(map(str, matrix.features.columns))
    problems = {tuple(problem[name] for name in names): problem for problem in results.measured}
    inputs = [problems[row] for row in matrix.features.itertuples(index=False, name=None)]
    default = np.full(len(inputs), np.nan)
    if matrix.default is not None and Default().name in study.slowdowns:
        applies = matrix.applies[:, matrix.default]
        default[applies] = _of(study.slowdowns[Default().name])[applies]
    predicted = _of(study.slowdowns[study.best if choice == AUTO else choice])
    known = np.where(matrix.applies & np.isfinite(matrix.time_s), matrix.slowdown, 1.0)
    return [
        InputSlowdowns(
            problem,
            max(results.measured[problem].worst or 1.0, float(most)),
            float(of_default),
            float(chosen),
        )
        for problem, most, of_default, chosen in zip(
            inputs, known.max(axis=1), default, predicted, strict=True
        )
    ]


def _of(judged: Slowdowns) -> Array:
    return np.where(judged.failed, np.inf, judged.slowdown)


def geometric_means(rows: Sequence[InputSlowdowns]) -> tuple[float, float, float]:
    """Return the geometric means of the worst, the default's and the predicted slowdowns; NaN where
    one is not finite on some input."""
    logs = np.log([(row.worst, row.default, row.predicted) for row in rows])
    means = np.where(np.isfinite(logs).all(axis=0), np.exp(logs.mean(axis=0)), np.nan)
    worst, default, predicted = means.tolist()
    return worst, default, predicted
