"""Score searches by the protocol of autotuning_methodology 1.1 (Willemsen et al., A Methodology for
Comparing Auto-Tuning Optimization Algorithms, 2024).

A search is compared with the calculated trajectory of random search, over the time until that one
is within 5 % of the way from the median to the optimum. 0 is as good as random search, 1 is the
optimum from the beginning. Times are those of the recording (compilation, runs, verification), and
the tuner's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from sklearn.ensemble import BaggingRegressor
from sklearn.isotonic import IsotonicRegression

Array = npt.NDArray[np.float64]

POINTS = 1000
REPEATS = 25
MARGIN = 0.1  # of the budget, which a search goes on beyond it
_DRAWS = 8
_FROM, _TO = 0.01, 0.95  # of the way from the median to the optimum


@dataclass(frozen=True)
class Budget:
    """Evaluations and seconds between which a search is scored."""

    first: int
    last: int
    first_s: float
    last_s: float


@dataclass(frozen=True)
class RecordedCosts:
    """A recorded space, shape (configurations,): the objective, NaN where it failed, and the
    seconds that testing the configuration took."""

    objective: Array
    cost_s: Array

    @cached_property
    def ascending(self) -> Array:
        """The objective of all that worked, the best first."""
        return np.sort(self.objective[~np.isnan(self.objective)])

    @cached_property
    def budget(self) -> Budget:
        """From where to where random search gets on the way from the median to the optimum."""
        first, last = self._evaluations(_FROM), self._evaluations(_TO)
        if last - first < 2:
            first, last = (first, last + 2) if first == 0 else (first - 1, last + 1)
        median_s = float(np.nanmedian(self.cost_s))
        return Budget(first, last, first * median_s, last * median_s)

    def _evaluations(self, share: float) -> int:
        optimum, median = self.ascending[0], float(np.median(self.ascending))
        target = optimum + (median - optimum) * (1 - share)
        descending = self.ascending[::-1]
        index = int((descending <= target).argmax())
        if descending[index] == optimum:
            index -= 1
        return math.ceil(index / (len(descending) + 1 - index))

    @cached_property
    def mean_s(self) -> float:
        """The mean seconds until a configuration that works was tested, as the package has it."""
        failed = np.isnan(self.objective)
        if not failed.any():
            return float(np.nanmean(self.cost_s))
        return float(self.cost_s[~failed].mean() + failed.mean() * self.cost_s[failed].mean())

    @property
    def points_s(self) -> Array:
        """The seconds at which searches are scored."""
        return np.linspace(self.budget.first_s, self.budget.last_s, POINTS)

    def random_search(self) -> Array:
        """Compute the expected best objective of random search at these seconds."""
        tests = np.round(np.maximum(self.points_s / self.mean_s, 1)).astype(int)
        count = len(self.ascending)
        known = np.unique(tests)
        expected = np.minimum(count - 1, np.round(known * (count + 1) / (known + 1)).astype(int))
        drawn = self.ascending[::-1][expected]
        if len(known) < 2:
            return np.full(len(tests), drawn[0])
        smooth: Array = PchipInterpolator(known, drawn)(np.linspace(tests[0], tests[-1], POINTS))
        return smooth


@dataclass(frozen=True)
class TimedCourse:
    """One search: the index of each tested configuration, and the tuner's own seconds until it was
    tested, as running totals."""

    tested: Sequence[int]
    own_s: Sequence[float]


def score(space: RecordedCosts, courses: Sequence[TimedCourse]) -> float:
    """Compute the score of repeated searches.

    The package draws searches at random, which moves its score by up to 0.02 on small spaces; this
    is the mean of several draws.
    """
    points, baseline = space.points_s, space.random_search()
    drawn = [_objective(space, courses, points, seed) for seed in range(_DRAWS)]
    return float(((np.mean(drawn, axis=0) - baseline) / (space.ascending[0] - baseline)).mean())


def _objective(
    space: RecordedCosts, courses: Sequence[TimedCourse], points: Array, seed: int
) -> Array:
    """Estimate the best objective at each point by an isotonic regression over all searches."""
    found = [_elapsed(space, course) for course in courses]
    rows = max(len(elapsed) for elapsed, _ in found)
    margin = MARGIN + 0.25 / rows
    kept_s, kept = [], []
    for elapsed, best in found:
        near = (points[0] * (1 - margin) <= elapsed) & (elapsed <= points[-1] * (1 + margin))
        kept_s.append(elapsed[near & ~np.isnan(best)])
        kept.append(best[near & ~np.isnan(best)])
    times_s = np.concatenate(kept_s)[:, None]
    ranks = np.searchsorted(space.ascending, np.concatenate(kept)).astype(np.float64)
    estimators = max(len(courses), 3)
    regression = BaggingRegressor(
        IsotonicRegression(
            increasing=False, y_min=ranks.min(), y_max=ranks.max(), out_of_bounds="clip"
        ),
        n_estimators=estimators,
        max_samples=1 / math.sqrt(estimators),
        random_state=seed,
    )
    predicted = regression.fit(times_s, ranks).predict(points[:, None])
    indices = np.clip(np.round(predicted).astype(int), 0, len(space.ascending) - 1)
    curve: Array = space.ascending[indices]
    ends = np.sort([np.nanmax(np.where(np.isnan(best), np.nan, e)) for e, best in found])
    later = ends[ends > np.median(ends)]
    if len(later) and later[0] < points[-1]:  # most have ended: what follows is unknown
        stopped = int(np.argmax(points > later[0]))
        curve[stopped:] = curve[stopped]
    return curve


def _elapsed(space: RecordedCosts, course: TimedCourse) -> tuple[Array, Array]:
    """Return the seconds after each test, and the best objective, NaN until something worked."""
    tested = np.array(course.tested, dtype=int)
    elapsed = np.nancumsum(space.cost_s[tested]) + np.array(course.own_s)
    objective = space.objective[tested]
    best = np.fmin.accumulate(objective) if len(objective) else objective
    return elapsed, best
