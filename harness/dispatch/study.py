"""All ways to choose, judged on the same held-out inputs; and which of ours is worth shipping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.dispatch.baselines import Default, Nearest, Static
from harness.dispatch.distill import DistilledLearner
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.learners import Learner
from harness.dispatch.learnt import LearntSelector
from harness.dispatch.matrix import Matrix
from harness.dispatch.published import GAdapt, Starchart
from harness.dispatch.tree import TreeLearner
from harness.dispatch.verdict import ORACLE, Judged, PairedComparison, compare, judge
from harness.models.folds import FEWEST_INPUTS, fold_count

STATIC = Static()
_TREE, _DISTILLED, _ENSEMBLE = TreeLearner(), DistilledLearner(), EnsembleLearner()
DISPATCHERS: Mapping[str, TreeLearner | DistilledLearner | EnsembleLearner] = {
    learner.name: learner for learner in (_TREE, _DISTILLED, _ENSEMBLE)
}
"""Ours, those that are cheaper to run first."""


def learners(names: Sequence[str] = tuple(DISPATCHERS)) -> list[Learner]:
    """Whom the verdict's table is about, with these dispatchers."""
    return [Default(), STATIC, Nearest(), GAdapt(), Starchart(), *(DISPATCHERS[n] for n in names)]


QUICK: Sequence[Learner] = (Default(), STATIC, *DISPATCHERS.values())
"""What tells whether choosing by input is worth it, without the published models."""


@dataclass(frozen=True)
class Study:
    """Slowdowns of each way to choose on inputs that it has not seen, and what was learnt from."""

    matrix: Matrix
    judged: Mapping[str, Judged]
    seed: int

    @property
    def dispatchers(self) -> list[str]:
        """Those of ours that were judged."""
        return [name for name in DISPATCHERS if name in self.judged]

    @cached_property
    def best(self) -> str:
        """The dispatcher to ship, as `to_ship` has it."""
        return to_ship(self.judged, self.dispatchers)

    @property
    def notes(self) -> list[str]:
        """What a reader of the slowdowns must know beside them."""
        return [note for note in (self._of_default, self._of_static, self.matrix.note) if note]

    @property
    def _of_static(self) -> str:
        default, static = (self.judged.get(learner.name) for learner in (Default(), STATIC))
        if default is None or static is None:
            return ""
        ratio = compare(static, default).ratio
        if ratio.value <= 1:
            return ""
        return (
            f"The best static configuration of the other inputs took {ratio.value:.3g}x "
            f"[{ratio.low:.3g}, {ratio.high:.3g}] the time of the default on those held out: tune "
            "more inputs to tell which one serves all."
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
            f"The default does not apply to {count - applies} of {count} inputs: there its row has "
            "the best static one."
        )

    def gain(self, name: str) -> PairedComparison:
        """A dispatcher beside the best static configuration."""
        return compare(self.judged[name], self.judged[STATIC.name])

    def learnt(self, name: str) -> LearntSelector:
        """A dispatcher that has learnt from all inputs."""
        return DISPATCHERS[name].fit(self.matrix, self.seed)


def to_ship(judged: Mapping[str, Judged], dispatchers: Sequence[str]) -> str:
    """Of dispatchers, those that are cheaper to run first: of those that surely beat the best
    static configuration, or of all where none does, the first that no other one clearly beats.

    Each is judged by itself: that one of three which are no better passes for better happens in
    some 6 of 100 databases (simulated).
    """
    static = judged[STATIC.name]
    worth = [name for name in dispatchers if compare(judged[name], static).is_better]
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
) -> Study:
    """Judge; raises ValueError where there are too few inputs to hold some out.

    Of a tree, an ensemble and a tree that is distilled from it, the last is only judged where the
    ensemble is better than the tree.
    """
    matrix = matrix.judgeable()
    if len(matrix.features) < FEWEST_INPUTS:
        raise ValueError(
            f"it needs {FEWEST_INPUTS} inputs on which the same configurations were measured, and "
            f"there are {len(matrix.features)}"
        )
    wanted = _judged_of(matrix, wanted)
    first, late = _in_turn(wanted)
    found = judge(matrix, first, seed, step)
    if late and _is_ensemble_better(found):
        found |= judge(matrix, late, seed, step)
    names = [learner.name for learner in wanted if learner.name in found]
    return Study(matrix, {name: found[name] for name in (*names, ORACLE)}, seed)


def fits(matrix: Matrix, wanted: Sequence[Learner]) -> int:
    """How many times `step` of `study` is called at most."""
    matrix = matrix.judgeable()
    return len(_judged_of(matrix, wanted)) * fold_count(matrix.groups)


def _judged_of(matrix: Matrix, wanted: Sequence[Learner]) -> list[Learner]:
    """Without the default where it was not measured on every input."""
    index = matrix.default
    has_default = index is not None and bool(matrix.applies[:, index].any())
    return [learner for learner in wanted if has_default or not isinstance(learner, Default)]


def _is_ensemble_better(found: Mapping[str, Judged]) -> bool:
    return compare(found[_ENSEMBLE.name], found[_TREE.name]).ratio.value < 1


def _in_turn(wanted: Sequence[Learner]) -> tuple[list[Learner], list[Learner]]:
    """What is judged first, and what only if the ensemble is better than the tree."""
    names = {learner.name for learner in wanted}
    waits = {_DISTILLED.name} if {_TREE.name, _ENSEMBLE.name} <= names else set()
    first = [learner for learner in wanted if learner.name not in waits]
    return first, [learner for learner in wanted if learner.name in waits]


def sentence(study: Study, name: str) -> str:
    """Whether a dispatcher is worth having, and how the others of ours come beside it."""
    others = [other for other in study.dispatchers if other != name]
    return " ".join([_worth(study, name), *(_beside(study, other, name) for other in others)])


def _worth(study: Study, name: str) -> str:
    gain = study.gain(name)
    ratio = gain.ratio
    count = len(study.matrix.features)
    if not gain.wins + gain.losses:
        return (
            f"Choosing by input ({name}) is no faster and no slower than one configuration for all "
            f"on any of {count} unseen inputs."
        )
    low, high = bound_text(1 / ratio.high), bound_text(1 / ratio.low)
    told = (
        f"{1 / ratio.value:.3f}x [{low}, {high}] over {count} unseen inputs, "
        f"faster on {gain.wins}, slower on {gain.losses}"
    )
    if gain.is_better:
        return f"Choosing by input ({name}) beats one configuration for all: {told}."
    if ratio.low > 1:
        return f"Choosing by input ({name}) loses to one configuration for all: {told}; use that."
    return (
        f"Choosing by input ({name}) against one configuration for all: {told}: within noise. "
        "More inputs would tell them apart."
    )


def bound_text(ratio: float) -> str:
    """Three digits, or as many as tell on which side of 1 it lies."""
    texts = (f"{ratio:.{digits}f}" for digits in range(3, 17))
    return next((text for text in texts if float(text) != 1), "1.000")


def _beside(study: Study, other: str, name: str) -> str:
    """Another dispatcher of ours beside this one."""
    found = compare(study.judged[name], study.judged[other])
    if not found.wins + found.losses:
        return f"The {other} comes to the same."
    ratio = found.ratio
    noise = ", within noise" if not ratio.excludes(1) else ""
    told = f"{ratio.value:.3f}x [{bound_text(ratio.low)}, {bound_text(ratio.high)}]"
    return f"The {other} is {told} as fast as the {name}{noise}."
