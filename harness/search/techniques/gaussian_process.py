"""Bayesian optimisation: a Gaussian process proposes where improvement is expected."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from opentuner.search.technique import SearchTechnique

from harness.records import Config
from harness.search.manipulator import Cfg
from harness.space import Space
from harness.surrogate import Encoder, Surrogate, expected_improvement, standardised

FIRST = 10
"""Configurations that work, drawn uniformly, before there is a model."""

_MOST_POINTS = 256  # of the model: fitting grows with their cube
_BEST_POINTS = 96  # of those, the fastest; the others are drawn uniformly
_DRAWN = 300
_CENTRES = 3
_STARTS = 2  # of second steps, a centre
_NEAR = 40  # neighbours of a centre or a start, at most
_RELEARN = 1.1  # growth of the number of results after which hyper-parameters are fitted anew


class GaussianProcess(SearchTechnique):  # type: ignore[misc]
    """Proposes the legal configuration of the greatest expected improvement.

    Jones, Schonlau, Welch, "Efficient Global Optimization of Expensive Black-Box Functions",
    1998, with the model of `harness.surrogate`. Candidates are drawn uniformly from what is not
    measured, and are neighbours, one and two parameters away, of the three fastest. Proposals
    of one generation that wait for their results count as if they had turned out as predicted
    (Ginsbourger, Le Riche, Carraro, "Kriging is well-suited to parallelize optimization", 2010).
    Failures are learnt from as the slowest that worked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._encoder: Encoder | None = None
        self._model: Surrogate | None = None
        self._relearn_at = 0.0

    def desired_configuration(self) -> Cfg | None:
        """The next proposal; None when all are measured."""
        results = [(Config(r.configuration.data), r.time) for r in self.driver.results_query()]
        if sum(np.isfinite(time_s) for _, time_s in results) < FIRST:
            return self._drawn()
        space: Space = self.manipulator.space
        candidates = list(dict.fromkeys(self._candidates(space, results)))
        if not candidates:
            return self._drawn()
        gains = self._gains(space, results, candidates)
        return dict(candidates[int(gains.argmax())])

    def _drawn(self) -> Cfg | None:
        drawn: Cfg | None = self.manipulator.draw_unmeasured(self.driver.taken)
        return drawn

    def _candidates(self, space: Space, results: list[tuple[Config, float]]) -> Iterator[Config]:
        """Unmeasured configurations, far and near."""
        taken = self.driver.taken
        yield from space.sample(self.manipulator.rng, _DRAWN, taken)
        for centre, _ in sorted(results, key=lambda known: known[1])[:_CENTRES]:
            near = _some(space.neighbours(centre, reach=None), _NEAR)
            second = (space.neighbours(start, reach=None) for start in near[:_STARTS])
            for config in itertools.chain(near, *(_some(steps, _NEAR) for steps in second)):
                if config not in taken:
                    yield config

    def _gains(
        self, space: Space, results: list[tuple[Config, float]], candidates: list[Config]
    ) -> npt.NDArray[np.float64]:
        """The expected improvement of each candidate."""
        if self._encoder is None or self._model is None:
            self._encoder = Encoder(space.parameters)
            self._model = Surrogate(self._encoder.is_category)
        chosen = _chosen(results)
        points = self._encoder.points([config for config, _ in chosen])
        outputs = standardised(np.array([time_s for _, time_s in chosen]))
        learn = len(results) >= self._relearn_at
        if learn:
            self._relearn_at = len(results) * _RELEARN
        self._model.fit(points, outputs, learn)
        pending = [Config(asked.configuration.data) for asked in self.driver.pending]
        if pending:
            waiting = self._encoder.points(pending)
            believed, _ = self._model.predict(waiting)
            self._model.fit(np.vstack([points, waiting]), np.append(outputs, believed), False)
        mean, deviation = self._model.predict(self._encoder.points(candidates))
        return expected_improvement(mean, deviation, float(outputs.min()))


def _some(configs: Iterable[Config], count: int) -> list[Config]:
    """So many of them at most, in random order."""
    listed = list(configs)
    return random.sample(listed, min(len(listed), count))


def _chosen(results: list[tuple[Config, float]]) -> list[tuple[Config, float]]:
    """What the model is fitted to: all results while they are few, fast and others mixed."""
    if len(results) <= _MOST_POINTS:
        return random.sample(results, len(results))
    ordered = sorted(results, key=lambda known: known[1])
    others = random.sample(ordered[_BEST_POINTS:], _MOST_POINTS - _BEST_POINTS)
    return random.sample([*ordered[:_BEST_POINTS], *others], _MOST_POINTS)
