"""Judge all ways to choose on the same held-out inputs, and decide which dispatcher to ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from harness.core.kept import Kept, content_key
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.learners import Default, Learner, Nearest, Static
from harness.dispatch.learnt import LearntSelector
from harness.dispatch.matrix import Matrix
from harness.dispatch.published import Starchart
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import (
    Judged,
    PairedComparison,
    compare,
    in_hindsight,
    judge,
    least_gain,
    with_selection,
)
from harness.models.folds import ENOUGH_INPUTS, FEWEST_INPUTS, fold_count
from harness.stats import Estimate

STATIC = Static()
TREE = TreeLearner().name
GADAPT = GAdapt().name
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

SPLIT_S = 2e-7
"""Seconds of a split in the Python module that `harness.dispatch` writes, by which dispatchers are
compared: benchmarks/selection.py measures 0.1 to 0.3 us for ensembles. In C it is some
nanoseconds."""


def learners(names: Sequence[str] = AUTOMATIC) -> list[Learner]:
    """Return all learners of the verdict's table, with the named dispatchers."""
    published = (DISPATCHERS[GADAPT], Starchart())
    named = (DISPATCHERS[name] for name in names if name != GADAPT)
    return [Default(), STATIC, Nearest(), *published, *named]


QUICK: Sequence[Learner] = (Default(), STATIC, *(DISPATCHERS[name] for name in AUTOMATIC))
"""The learners without the published models: enough to see whether choosing by input is worth
it."""


@dataclass(frozen=True)
class Study:
    """The slowdowns of each way to choose on held-out inputs, and the matrix behind them."""

    matrix: Matrix
    judged: Mapping[str, Judged]
    seed: int
    kept: Kept = field(default_factory=Kept, repr=False)

    @property
    def dispatchers(self) -> list[str]:
        """The names of the judged dispatchers to choose among; G-ADAPT's model only if no other
        was judged."""
        return [name for name in AUTOMATIC if name in self.judged] or [GADAPT]

    @cached_property
    def best(self) -> str:
        """The dispatcher to ship, chosen by `to_ship` with the time of its selection."""
        return to_ship(self._with_selection, self.dispatchers, self._statics)

    def selection_s(self, name: str) -> float:
        """Return the seconds that a dispatcher takes to choose for a new input, in Python."""
        return SPLIT_S * self.learnt(name).splits_passed(self.matrix.features)

    @cached_property
    def _with_selection(self) -> Mapping[str, Judged]:
        return {
            name: with_selection(self.judged[name], self.matrix.best_s, self.selection_s(name))
            for name in self.dispatchers
        }

    @cached_property
    def _statics(self) -> Sequence[Judged]:
        """The best static choice as held-out inputs see it, and as all inputs do.

        Where several candidates are about as fast, holding an input out takes its vote away from
        the candidate that is fast on it. The held-out choice changes to another one just there, and
        whatever does not change seems to gain: of 84 simulated databases without any difference, 6
        had a dispatcher that was significantly faster. The static choice of all inputs knows the
        inputs that it is judged on, so it is a little too fast.
        """
        return self.judged[STATIC.name], in_hindsight(self.matrix, STATIC, self.seed)

    @property
    def notes(self) -> list[str]:
        """What a reader of the slowdowns must also know."""
        own = self.matrix.note.splitlines()
        notes = (self._of_default, self._of_static, *own)
        return [note for note in notes if note]

    @property
    def _of_static(self) -> str:
        default, static = (self.judged.get(learner.name) for learner in (Default(), STATIC))
        if default is None or static is None:
            return ""
        ratio = compare(static, default).ratio
        if ratio.value <= 1:
            return ""
        return (
            "On held-out inputs the best static configuration of the other inputs took "
            f"{ratio.text('.3g', 'x')} the time of the default. Tune more inputs to find one that "
            "serves all."
        )

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
        return least_gain(self.judged[name], self._statics)

    @property
    def has_choice(self) -> bool:
        """Whether the best dispatcher does not choose the same on every input."""
        chosen = self.learnt(self.best).indices(self.matrix.features, self.matrix.applies)
        return len(set(chosen.tolist())) > 1

    def is_in_hindsight(self, name: str) -> bool:
        """Whether `gain` compares with the static choice of all inputs, which has no row."""
        held_out, _ = self._statics
        return self.gain(name) != compare(self.judged[name], held_out)

    def pays_beside(self, other: str, name: str) -> bool:
        """Whether a dispatcher is significantly faster than another, with the time of both
        selections."""
        return compare(self._with_selection[other], self._with_selection[name]).is_better

    def learnt(self, name: str) -> LearntSelector:
        """Fit a dispatcher to all inputs, once."""
        if name not in self._fitted:
            learner = DISPATCHERS[name]
            key = content_key("learnt", self.matrix.key, repr(learner), self.seed)
            make = partial(learner.fit, self.matrix, self.seed)
            self._fitted[name] = self.kept.recall(key, make)
        return self._fitted[name]

    @cached_property
    def _fitted(self) -> dict[str, LearntSelector]:
        return {}


def to_ship(
    judged: Mapping[str, Judged], dispatchers: Sequence[str], statics: Sequence[Judged]
) -> str:
    """Choose among dispatchers, cheapest to run first: of those significantly better than each of
    the static choices, or of all if none is, the first that no other is significantly better than.

    Their slowdowns contain the time of a selection, see `with_selection`.
    """
    worth = [name for name in dispatchers if least_gain(judged[name], statics).is_better]
    left = worth or dispatchers
    return next(
        (
            name
            for name in left
            if not any(compare(judged[other], judged[name]).is_better for other in left)
        ),
        left[-1],
    )


def study(
    matrix: Matrix,
    wanted: Sequence[Learner],
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
    kept: Kept | None = None,
) -> Study:
    """Judge the learners; what was judged before is `kept`. Raises ValueError if there are too few
    inputs to hold some out."""
    matrix = matrix.judgeable()
    if len(matrix.features) < FEWEST_INPUTS:
        raise ValueError(
            f"it needs {FEWEST_INPUTS} inputs on which the same configurations were measured, and "
            f"there are {len(matrix.features)}"
        )
    kept = kept or Kept()
    found = judge(matrix, _judgeable(matrix, wanted), seed, step, kept)
    return Study(matrix, found, seed, kept)


def fits(matrix: Matrix, wanted: Sequence[Learner]) -> int:
    """Return how often `study` calls `step`."""
    matrix = matrix.judgeable()
    return len(_judgeable(matrix, wanted)) * fold_count(matrix.groups)


def _judgeable(matrix: Matrix, wanted: Sequence[Learner]) -> list[Learner]:
    """Leave the default out if it was not measured on every input."""
    index = matrix.default
    has_default = index is not None and bool(matrix.applies[:, index].any())
    return [learner for learner in wanted if has_default or not isinstance(learner, Default)]


# ------------------------------------------------------------------------------ the sentence


def sentence(study: Study, name: str) -> str:
    """Say whether a dispatcher is worth having and, if it is, how the other dispatchers compare
    with it."""
    is_better = study.gain(name).is_better
    others = [other for other in study.dispatchers if other != name and is_better]
    return " ".join([_worth(study, name), *(_beside(study, other, name) for other in others)])


def _worth(study: Study, name: str) -> str:
    """Say how a dispatcher compares with one configuration, and with which where that is in no row
    of the table."""
    known = (
        f" That configuration was chosen with all inputs, the row `{STATIC.name}` without those "
        "that it is judged on."
    )
    return _beside_one(study, name) + (known if study.is_in_hindsight(name) else "")


def _beside_one(study: Study, name: str) -> str:
    gain = study.gain(name)
    speed_up = gain.ratio.inverse
    count = len(study.matrix.features)
    choosing = f"Choosing by input ({name})"
    if not gain.wins + gain.losses:
        return (
            f"{choosing} takes the same time as one configuration for all on each of {count} "
            "held-out inputs."
        )
    figures = (
        f"{ratio_text(speed_up)} on {count} held-out inputs, faster on {gain.wins}, slower on "
        f"{gain.losses}"
    )
    if gain.is_better:
        return f"{choosing} is faster than one configuration for all: {figures}."
    more = f" Tune some {ENOUGH_INPUTS} inputs to know more." if count < ENOUGH_INPUTS else ""
    if gain.ratio.low > 1:
        return f"{choosing} is slower than one configuration for all: {figures}. Use that one."
    return f"{choosing} is no faster than one configuration for all: {figures}, within noise.{more}"


def _beside(study: Study, other: str, name: str) -> str:
    """Compare another dispatcher with this one."""
    found = compare(study.judged[name], study.judged[other])
    subject = f"{'An' if other[0] in 'aeiou' else 'A'} {other}"
    if not found.wins + found.losses:
        return f"{subject} takes the same time as the {name}."
    figures = ratio_text(found.ratio)
    if not found.ratio.excludes(1):
        return f"{subject} is no faster than the {name} ({figures}, within noise)."
    if found.ratio.high < 1:
        return f"{subject} is slower than the {name} ({figures})."
    if study.pays_beside(other, name):
        return f"{subject} is faster than the {name} ({figures})."
    return (
        f"{subject} is faster than the {name} ({figures}), but not by more than its selection "
        f"costs: about {1e6 * study.selection_s(other):,.0f} us in Python for each new input."
    )


def ratio_text(ratio: Estimate) -> str:
    """Render a speed-up with its interval."""
    return f"{ratio.value:.3f}x [{bound_text(ratio.low)}, {bound_text(ratio.high)}]"


def bound_text(ratio: float) -> str:
    """Render with three digits, or as many as show on which side of 1 it lies."""
    texts = (f"{ratio:.{digits}f}" for digits in range(3, 17))
    return next((text for text in texts if float(text) != 1), "1.000")
