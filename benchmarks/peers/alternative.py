"""Alternatives to `auto` on the drivers of this project, for comparison only.

ExtraTrees and GradientBoosting work like GaussianProcess with other models. Climb is a local search
with restarts. Bandit lets OpenTuner's AUC bandit distribute tests between the Gaussian process and
OpenTuner's own techniques.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from opentuner.search.bandittechniques import AUCBanditMetaTechnique
from opentuner.search.differentialevolution import DifferentialEvolutionAlt
from opentuner.search.evolutionarytechniques import NormalGreedyMutation, UniformGreedyMutation
from opentuner.search.technique import SequentialSearchTechnique, register
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor

from benchmarks.peers.ours import Ours
from harness.core.records import Config
from harness.models.encoding.configs import ConfigEncoder
from harness.models.gaussian_process import expected_improvement
from harness.search.techniques.gaussian_process import GaussianProcess, SurrogateModel

Array = npt.NDArray[np.float64]

_Member = Callable[[npt.NDArray[np.float32]], Array]
_LEAST_DEVIATION = 1e-3


class _Ensemble(ABC):
    """Several models; their disagreement is the deviation."""

    def __init__(self) -> None:
        self.evidence = 0.0
        self._members: list[_Member] = []

    def fit(self, points: Array, outputs: Array, learn: bool) -> None:
        """Fit the members anew."""
        self._points, self._outputs = points, outputs
        self._members = self._fitted(points, outputs)

    @abstractmethod
    def _fitted(self, points: Array, outputs: Array) -> list[_Member]:
        """Return fitted members."""

    def believe(self, points: Array) -> None:
        """Fit anew, with the predicted means as outputs of the points."""
        means, _ = self._predict(points)
        known, outputs = self._points, np.append(self._outputs, means)
        self.fit(np.vstack([known, points]), outputs, learn=False)

    def means(self, points: Array) -> Array:
        """Return the mean over the members."""
        return self._predict(points)[0]

    def most_promising(self, points: Array, shifts: Array, best: float) -> tuple[int, float]:
        """Return the index of the point of the greatest expected improvement, and that."""
        means, deviations = self._predict(points)
        gains = expected_improvement(means + shifts, deviations, best)
        return int(gains.argmax()), float(gains.max())

    def _predict(self, points: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation over the members."""
        singles = points.astype(np.float32)
        each = np.array([member(singles).ravel() for member in self._members])
        return each.mean(axis=0), np.maximum(each.std(axis=0), _LEAST_DEVIATION)


class _Forest(_Ensemble):
    """Extremely randomised trees (Geurts, Ernst, Wehenkel, 2006)."""

    def _fitted(self, points: Array, outputs: Array) -> list[_Member]:
        """Fit 40 new trees."""
        forest = ExtraTreesRegressor(40, random_state=len(outputs))
        return [tree.tree_.predict for tree in forest.fit(points, outputs).estimators_]


class _Boosted(_Ensemble):
    """Stochastic gradient boosting (Friedman, 2002) on three bootstrap samples."""

    def _fitted(self, points: Array, outputs: Array) -> list[_Member]:
        """Fit 25 new boosted trees with at most 8 leaves."""
        rng = np.random.default_rng(len(outputs))
        members: list[_Member] = []
        for seed in range(3):
            rows = rng.integers(len(outputs), size=len(outputs))
            boosted = GradientBoostingRegressor(
                n_estimators=25, learning_rate=0.2, max_depth=3, random_state=seed
            )
            members.append(boosted.fit(points[rows], outputs[rows]).predict)
        return members


class ExtraTrees(GaussianProcess):
    """GaussianProcess with a forest as its model."""

    def make_model(self, encoder: ConfigEncoder) -> SurrogateModel:
        """Make an untrained forest."""
        return _Forest()


class GradientBoosting(GaussianProcess):
    """GaussianProcess with boosted trees as its model."""

    def make_model(self, encoder: ConfigEncoder) -> SurrogateModel:
        """Make untrained boosted trees."""
        return _Boosted()


class Climb(SequentialSearchTechnique):  # type: ignore[misc]
    """A hill climber: from a uniform draw to faster neighbours, then from another draw.

    Neighbours differ in one parameter.
    """

    def main_generator(self) -> Iterator[Any]:
        """Yield configurations to test, one at a time."""
        while (drawn := self.manipulator.draw_unmeasured(self.driver.taken)) is not None:
            here = self.driver.get_configuration(drawn)
            yield here
            faster = True
            while faster:
                faster = False
                near = list(self.manipulator.space.neighbours(Config(here.data), reach=None))
                for config in random.sample(near, len(near)):
                    there = self.driver.get_configuration(dict(config))
                    yield there
                    if self._time_s(there) < self._time_s(here):
                        here, faster = there, True
                        break

    def _time_s(self, configuration: Any) -> float:
        time_s: float = self.driver.results_query(config=configuration).one().time
        return time_s


register(ExtraTrees())
register(GradientBoosting())
register(Climb())
register(
    AUCBanditMetaTechnique(
        [
            GaussianProcess(),
            DifferentialEvolutionAlt(),
            UniformGreedyMutation(),
            NormalGreedyMutation(mutation_rate=0.3),
        ],
        name="Bandit",
    )
)


class Alternatives(Ours):
    """The techniques of this module over one landscape."""

    def names(self, technique: str) -> tuple[str, ...]:
        """Return the technique itself, since these are registered but not listed."""
        return (technique,)


PEER = Alternatives
