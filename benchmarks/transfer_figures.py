"""Compute the figures of transfer between inputs from the courses of searches.

Times are slowdowns over the optimum of their input, so that inputs can be combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.search_figures import NEAR, bootstrap, near_after, within
from harness.stats import Estimate

Array = npt.NDArray[np.float64]

MILESTONES = (1, 3, 5, 10, 25)
ESTABLISHED = 10
"""The first input of the single figure for the gain."""

ALONE, TAUGHT = "alone", "taught"
"""The two kinds of searches, as in the files: independent, and with transfer learning."""

_STARTS = (1, 2, 3, 4, 6, 11, 21, 51, 101, 201, 501)


@dataclass(frozen=True)
class Group:
    """Consecutive inputs of an order, from `first` to `last` inclusive; the first input is 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def groups(inputs: int) -> list[Group]:
    """Divide inputs into groups, small ones first, where most is learnt."""
    starts = [start for start in _STARTS if start <= inputs]
    ends = [start - 1 for start in starts[1:]] + [inputs]
    return [Group(start, end) for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class Tuned:
    """Best slowdowns after each test, shape (orders, inputs, budget).

    Index n of the second axis is the n-th input of each order. Values are infinite until a
    configuration works.
    """

    slowdowns: Array

    def of(self, group: Group) -> Tuned:
        """Select the searches of a group of inputs."""
        return Tuned(self.slowdowns[:, group.first - 1 : group.last])

    @property
    def inputs(self) -> int:
        """Return the number of inputs of an order."""
        return int(self.slowdowns.shape[1])

    @property
    def budget(self) -> int:
        """Return the number of tests of a search."""
        return int(self.slowdowns.shape[2])

    @property
    def milestones(self) -> tuple[int, ...]:
        """Return the numbers of tests whose fractions are shown."""
        return within(MILESTONES, self.budget)

    @property
    def tests_to_near(self) -> Array:
        """Return the tests to come near the optimum, shape (orders, inputs)."""
        return self.tests_within(NEAR)

    def tests_within(self, share: float) -> Array:
        """Return the tests to come within a share of the optimum, shape (orders, inputs).

        A search that never did counts as one more than the budget.
        """
        flat = near_after(self.slowdowns.reshape(-1, self.budget), 1.0, share)
        return np.minimum(flat, self.budget + 1).reshape(self.slowdowns.shape[:2])

    def fractions(self, tests: int) -> Array:
        """Return the fraction of the optimum after a number of tests, shape (orders, inputs)."""
        fractions: Array = 1 / self.slowdowns[:, :, tests - 1]
        return fractions


def mean(values: Array) -> Estimate:
    """Estimate the mean of values of shape (orders, inputs)."""
    return bootstrap(values)


def median(values: Array) -> Estimate:
    """Estimate the median of values of shape (orders, inputs)."""
    return bootstrap(values, statistic=np.median)


def ratio(one: Array, other: Array) -> Estimate:
    """Estimate the ratio of two means over the same inputs, each of shape (orders, inputs)."""
    pairs = np.stack([one, other], axis=2)
    return bootstrap(pairs, statistic=_ratio)


def _ratio(pairs: Array, axis: tuple[int, int]) -> Array:
    means = pairs.mean(axis=axis)
    found: Array = means[..., 0] / means[..., 1]
    return found


def since(compared: Mapping[str, Tuned], ordinal: int) -> Estimate | None:
    """Estimate the tests to near, taught over alone, from an input on; None with fewer inputs."""
    alone, taught = compared[ALONE], compared[TAUGHT]
    if taught.inputs < ordinal:
        return None
    later = Group(ordinal, taught.inputs)
    return ratio(taught.of(later).tests_to_near, alone.of(later).tests_to_near)


def as_json(tuned: Tuned, parts: Sequence[Group]) -> dict[str, Any]:
    """Return the figures of each group of inputs for the JSON line."""
    return {str(part): _figures(tuned.of(part)) for part in parts}


def _figures(tuned: Tuned) -> dict[str, float]:
    near = tuned.tests_to_near
    fractions = {f"at_{n}": round(float(tuned.fractions(n).mean()), 4) for n in tuned.milestones}
    return {
        "median_tests_to_5pct": float(np.median(near)),
        "mean_tests_to_5pct": round(float(near.mean()), 3),
        "mean_tests_to_10pct": round(float(tuned.tests_within(0.1).mean()), 3),
        **fractions,
    }
