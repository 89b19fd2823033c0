"""Compute the figures of a comparison of searches from the best time after each test.

A fraction of the optimum is the least recorded time over the best time so far: 1 at the optimum,
and 0 until a configuration works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats import Estimate

Array = npt.NDArray[np.float64]

MILESTONES = (25, 50, 100, 200, 400)
SCORED = (25, 50, 100, 200)
NEAR = 0.05  # within 5 % of the optimum counts as near

_RESAMPLES = 2000
_CONFIDENCE = 0.95


def padded(courses: Sequence[Sequence[float]], budget: int) -> Array:
    """Return the best seconds after each test, shape (searches, budget).

    A search that ended early keeps its best, and one without tests has infinity.
    """
    filled = np.full((len(courses), budget), np.inf)
    for row, course in enumerate(courses):
        tests = min(len(course), budget)
        if tests:
            filled[row, :tests] = course[:tests]
            filled[row, tests:] = course[tests - 1]
    return filled


def near_after(best_s: Array, optimum_s: float, share: float = NEAR) -> Array:
    """Count the tests that each search took to come near the optimum; infinity if it never did."""
    near = best_s <= (1 + share) * optimum_s
    return np.where(near.any(axis=1), near.argmax(axis=1) + 1.0, np.inf)


@dataclass(frozen=True)
class Searches:
    """All searches of one technique on one space: best seconds, shape (searches, budget)."""

    best_s: Array
    optimum_s: float

    def fractions(self, tests: int) -> Array:
        """Return each search's fraction of the optimum after a number of tests."""
        fractions: Array = self.optimum_s / self.best_s[:, tests - 1]
        return fractions

    def median(self, tests: int) -> float:
        """Return the median of those fractions."""
        return float(np.median(self.fractions(tests)))

    @property
    def tests_to_near(self) -> float:
        """Return the median number of tests to come near the optimum.

        It is infinite if half of the searches did not come near within the budget.
        """
        return float(np.median(near_after(self.best_s, self.optimum_s)))

    @property
    def score(self) -> float:
        """Return the mean fraction over all searches after 25, 50, 100 and 200 tests.

        Only milestones within the budget count; without any, the last test does.
        """
        reached = within(SCORED, self.best_s.shape[1]) or (self.best_s.shape[1],)
        return float(np.mean([self.fractions(tests).mean() for tests in reached]))


@dataclass(frozen=True)
class Overall:
    """The figures of one technique over all spaces: mean fractions by number of tests.

    `tests_to_near` is the median over the spaces of the median over the searches.
    """

    spaces: int
    at: Mapping[int, Estimate]  # tests -> mean
    tests_to_near: float
    score: float


def within(milestones: Sequence[int], budget: int) -> tuple[int, ...]:
    """Return the milestones within a budget."""
    return tuple(tests for tests in milestones if tests <= budget)


def shown_after(budget: int) -> tuple[int, ...]:
    """Return the numbers of tests whose fractions are shown: milestones and the whole budget."""
    return tuple(sorted({*within(MILESTONES, budget), budget}))


def overall(table: Mapping[str, Mapping[str, Searches]], budget: int) -> dict[str, Overall]:
    """Compute the figures of each technique over all spaces, the best score first.

    `table` holds searches by technique and space.
    """
    found = {
        technique: _overall(list(spaces.values()), budget)
        for technique, spaces in table.items()
        if spaces
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].score))


def _overall(spaces: Sequence[Searches], budget: int) -> Overall:
    at = {}
    for tests in shown_after(budget):
        fractions = np.stack([searches.fractions(tests) for searches in spaces])
        at[tests] = bootstrap(fractions)
    return Overall(
        spaces=len(spaces),
        at=at,
        tests_to_near=float(np.median([searches.tests_to_near for searches in spaces])),
        score=float(np.mean([searches.score for searches in spaces])),
    )


def bootstrap(values: Array, seed: int = 0, statistic: Callable[..., Array] = np.mean) -> Estimate:
    """Estimate a statistic of values of shape (spaces, searches), with its 95 % interval.

    Percentile bootstrap: draws spaces with replacement, then searches of each drawn space. The
    interval covers other spaces of this kind and other seeds.
    """
    rng = np.random.default_rng(seed)
    spaces, searches = values.shape[:2]
    drawn = rng.integers(spaces, size=(_RESAMPLES, spaces, 1))
    resampled = values[drawn, rng.integers(searches, size=(_RESAMPLES, spaces, searches))]
    tail = 100 * (1 - _CONFIDENCE) / 2
    least, most = np.percentile(statistic(resampled, axis=(1, 2)), [tail, 100 - tail])
    return Estimate(float(statistic(values, axis=(0, 1))), float(least), float(most))


def as_json(found: Overall) -> dict[str, float | int | None]:
    """Return a technique's figures for the JSON line, with None for infinity."""
    tests = None if math.isinf(found.tests_to_near) else found.tests_to_near
    fractions = {f"at_{tests}": round(mean.value, 4) for tests, mean in found.at.items()}
    return {**fractions, "tests_to_5pct": tests, "spaces": found.spaces}
