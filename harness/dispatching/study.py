"""All ways to choose, judged on the same held-out inputs; and which of ours is worth shipping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.dispatching.baselines import Default, Nearest, Static
from harness.dispatching.choosers import Chooser
from harness.dispatching.ensemble import EnsembleChooser
from harness.dispatching.folds import fold_count
from harness.dispatching.learnt import Learnt
from harness.dispatching.matrix import FEWEST_INPUTS, Matrix
from harness.dispatching.published import GAdapt, Starchart
from harness.dispatching.tree import TreeChooser
from harness.dispatching.verdict import Comparison, Judged, compare, judge

STATIC = Static()
DISPATCHERS: Mapping[str, TreeChooser | EnsembleChooser] = {
    chooser.name: chooser for chooser in (TreeChooser(), EnsembleChooser())
}
"""Ours, the one that is cheaper to run first."""


def choosers(names: Sequence[str] = tuple(DISPATCHERS)) -> list[Chooser]:
    """Whom the verdict's table is about, with these dispatchers."""
    return [Default(), STATIC, Nearest(), GAdapt(), Starchart(), *(DISPATCHERS[n] for n in names)]


QUICK: Sequence[Chooser] = (Default(), STATIC, TreeChooser())
"""The least that tells whether choosing by input is worth it."""


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
        """The dispatcher to ship: the cheapest to run that no other one clearly beats."""
        chosen, *others = self.dispatchers
        for other in others:
            if compare(self.judged[other], self.judged[chosen]).is_better:
                chosen = other
        return chosen

    def gain(self, name: str) -> Comparison:
        """A dispatcher beside the best static configuration."""
        return compare(self.judged[name], self.judged[STATIC.name])

    def learnt(self, name: str) -> Learnt:
        """A dispatcher that has learnt from all inputs."""
        return DISPATCHERS[name].fit(self.matrix, self.seed)


def study(
    matrix: Matrix,
    wanted: Sequence[Chooser],
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
) -> Study:
    """Judge; raises ValueError where there are too few inputs to hold some out."""
    matrix = judgeable(matrix)
    if len(matrix.features) < FEWEST_INPUTS:
        raise ValueError(
            f"it needs {FEWEST_INPUTS} inputs on which the same configurations were measured, and "
            f"there are {len(matrix.features)}"
        )
    return Study(matrix, judge(matrix, wanted, seed, step), seed)


def fits(matrix: Matrix, wanted: Sequence[Chooser]) -> int:
    """How many times `step` of `study` is called."""
    return len(wanted) * fold_count(judgeable(matrix).groups)


def judgeable(matrix: Matrix) -> Matrix:
    """The candidates that were measured wherever they apply, and the inputs that have one."""
    matrix = matrix.complete()
    return matrix.rows(np.flatnonzero(matrix.applies.any(axis=1)))


def sentence(study: Study, name: str) -> str:
    """Whether a dispatcher is worth having, in a sentence."""
    gain = study.gain(name)
    ratio = gain.ratio
    count = len(study.matrix.features)
    told = (
        f"{1 / ratio.value:.3f}x [{1 / ratio.high:.3f}, {1 / ratio.low:.3f}] over {count} unseen "
        f"inputs, faster on {gain.wins}, slower on {gain.losses}"
    )
    if gain.is_better:
        return f"Choosing by input ({name}) beats one configuration for all: {told}."
    if ratio.low > 1:
        return f"Choosing by input ({name}) loses to one configuration for all: {told}; use that."
    return (
        f"Choosing by input ({name}) against one configuration for all: {told}: within noise. "
        "More inputs would tell them apart."
    )
