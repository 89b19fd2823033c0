"""What was measured elsewhere, on other devices or inputs, as a guess for where we are.

A forest of extremely randomised trees (Geurts, Ernst, Wehenkel, "Extremely Randomized Trees",
Machine Learning 63, 2006) learns the slowdown of configurations from all of it. Grown to single
measurements and without bootstrap, it repeats what it was taught and guesses between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.records import Input
from harness.models.config_points import Encoder
from harness.models.input_features import feature_rows
from harness.space import Places, Space

Array = npt.NDArray[np.float64]

MOST_ROWS = 10_000
"""That the forest learns from; of more, the fastest and uniform others."""

_TREES = 30
_FASTEST_ROWS = 2_000
_LEADERS = 1_000


@dataclass(frozen=True)
class Lesson:
    """The measurements of one other input, or on one other device.

    `places` are configurations as the places of their values in the space that is taught, shape
    (configurations, parameters); `times_s` infinite where they failed. `given` is the input, None
    where it is that of the space, or nothing is known of it.
    """

    places: Places
    times_s: Array
    given: Input | None = None

    @property
    def slowdowns(self) -> Array:
        """Logarithms of times over the best; of failures, the slowest that worked."""
        works = np.isfinite(self.times_s)
        if not works.any():
            return np.zeros(len(self.times_s))
        known = self.times_s[works]
        slowdowns: Array = np.log(np.where(works, self.times_s, known.max()) / known.min())
        return slowdowns


@dataclass(frozen=True)
class Taught:
    """What is known before a search on an input begins; at least one lesson."""

    given: Input
    lessons: tuple[Lesson, ...]


class Prior:
    """The logarithm of the slowdown that configurations are expected to have on an input."""

    def __init__(
        self, space: Space, encoder: Encoder, taught: Taught, rng: np.random.Generator
    ) -> None:
        """`encoder` is that of the space."""
        from sklearn.ensemble import ExtraTreesRegressor  # here: it takes a second to load

        self._encoder = encoder
        # Products and ratios are most of the axes, and trees guess as well without them.
        self._axes = np.flatnonzero(encoder.relative_lengths[encoder.groups] <= 1)
        self._given, *others = _inputs_as_rows(taught)
        places, slowdowns, features = _gathered(taught.lessons, others)
        rows = _some_rows(slowdowns, rng)
        columns = np.hstack([self._columns(places[rows]), features[rows]])
        forest = ExtraTreesRegressor(_TREES, random_state=int(rng.integers(2**32)))
        self._trees = [tree.tree_ for tree in forest.fit(columns, slowdowns[rows]).estimators_]
        self.leaders = self._ranked(space, places[rows])

    def expect(self, places: Places) -> Array:
        """The expected slowdowns' logarithms, shape (configurations,)."""
        points = self._columns(places)
        given = np.broadcast_to(self._given, (len(points), len(self._given)))
        columns = np.hstack([points, given]).astype(np.float32)
        # scikit-learn's own loop over the trees takes ten times as long for a few hundred rows.
        total: Array = sum(tree.predict(columns)[:, 0] for tree in self._trees)
        return total / len(self._trees)

    def _columns(self, places: Places) -> Array:
        """What the forest sees of configurations: the parameters' own axes."""
        columns: Array = self._encoder.points(places)[:, self._axes]
        return columns

    def _ranked(self, space: Space, places: Places) -> Places:
        """The legal configurations that are expected to be the fastest, in that order."""
        distinct = np.unique(places, axis=0)
        ranked = distinct[np.argsort(self.expect(distinct), kind="stable")]
        leaders: Places = ranked[space.are_legal(ranked)][:_LEADERS]
        return leaders


def _inputs_as_rows(taught: Taught) -> Array:
    """What the forest sees of inputs, shape (1 + lessons, columns), the one that is taught first;
    nothing where a lesson tells nothing of its own."""
    told = [lesson.given for lesson in taught.lessons if lesson.given is not None]
    if len(told) < len(taught.lessons):
        return np.empty((1 + len(taught.lessons), 0))
    return feature_rows([taught.given, *told])


def _gathered(lessons: Sequence[Lesson], inputs: Sequence[Array]) -> tuple[Places, Array, Array]:
    """Configurations, slowdowns and columns of features; those that differ in nothing that the
    forest sees, such as the same configuration on two devices, are averaged."""
    places = np.concatenate([lesson.places for lesson in lessons])
    slowdowns = np.concatenate([lesson.slowdowns for lesson in lessons])
    features = np.repeat(inputs, [len(lesson.places) for lesson in lessons], axis=0)
    keys = np.hstack([places, features])
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    counts = np.bincount(which.ravel())
    return places[first], np.bincount(which.ravel(), slowdowns) / counts, features[first]


def _some_rows(slowdowns: Array, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    rows: npt.NDArray[np.intp] = np.argsort(slowdowns, kind="stable")
    if len(rows) <= MOST_ROWS:
        return rows
    others = rng.choice(rows[_FASTEST_ROWS:], MOST_ROWS - _FASTEST_ROWS, replace=False)
    return np.concatenate([rows[:_FASTEST_ROWS], others])
