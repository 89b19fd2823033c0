"""Bayesian optimisation, with a Gaussian process as the model of the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from opentuner.search.technique import SearchTechnique
from threadpoolctl import ThreadpoolController

from harness.models.gaussian_process import Prediction, Surrogate, logs_of, standardised
from harness.search.manipulator import Cfg
from harness.search.techniques.memory import MOST_POINTS, Memory, Sample
from harness.space import PointArray

Array = npt.NDArray[np.float64]

FIRST = 7
"""The number of configurations measured before there is a model."""

FAVOURITES = 3
"""The number of the prior's favourites that are measured first, if there is a prior."""

ALTERNATE_FROM = 25
"""From so many results on, the model with the prior as its mean alternates with the other."""

LITTLE = 0.01
"""An expected improvement below this, in standard deviations of the times' logarithms, is little;
then half of the proposals are local."""

_LOCAL_CENTRES = 8
_DRAWN = 1000
_DRAWN_LATER = 400  # once there are more results than a model is fitted to
_DRAWN_FIRST = 50
_CENTRES = 3
_STARTS = 2  # of second steps from each centre
_LEADERS = 200  # candidates from the prior's fastest
_RELEARN = 1.1  # growth of the number of results after which hyper-parameters are fitted anew


@dataclass
class _Batch:
    """The proposals between two results, which share what a model predicts of many positions.

    These are first the candidates, then those `near` the fastest, and at the end pending ones.
    """

    results: int
    positions: PointArray
    near: slice
    prediction: Prediction
    shifts: Array
    best: float
    _believed: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._is_free = np.ones(len(self.positions), dtype=np.bool_)

    def believe(self, waiting: PointArray) -> bool:
        """Take pending proposals as measured; say whether all are among the positions."""
        for position in waiting:
            if position.tobytes() in self._believed:
                continue
            rows = np.flatnonzero((self.positions == position).all(axis=1))
            if not len(rows):
                return False
            self.prediction.believe(int(rows[0]))
            self._is_free[rows] = False
            self._believed.add(position.tobytes())
        return True

    def proposal(self, rng: np.random.Generator) -> PointArray:
        """Return the candidate of the greatest expected improvement or, where that is little,
        perhaps the neighbour of the least predicted time; none where all are pending."""
        gains = self.prediction.improvements(self.shifts, self.best)
        gains[~self._is_free] = -np.inf
        row = int(gains[: self.near.start].argmax())
        if gains[row] < LITTLE and rng.random() < 0.5:
            means = self.prediction.means + self.shifts
            means[~self._is_free] = np.inf
            if self._is_free[self.near].any():
                row = self.near.start + int(means[self.near].argmin())
        return self.positions[[row]][self._is_free[[row]]]


class GaussianProcess(SearchTechnique):  # type: ignore[misc]
    """Proposes the legal configuration of the greatest expected improvement.

    Jones, Schonlau, Welch, "Efficient Global Optimization of Expensive Black-Box Functions",
    1998. The first few configurations are far from each other. Later candidates are uniform draws
    and the neighbours, one and two parameters away, of the three fastest. Pending proposals of a
    generation count as if measured with the predicted time (Ginsbourger, Le Riche, Carraro,
    "Kriging is well-suited to parallelize optimization", 2010). A failure counts as the slowest
    configuration that worked.

    When little improvement is expected, half of the proposals are the neighbour of one of the eight
    fastest that is predicted to be the fastest. A smooth model is too sure that a lone optimum,
    unlike its neighbours, is not there; the most uncertain points are then slow ones far away.

    With a prior (harness.models.transfer_prior), its favourites are measured first and stay
    candidates, and a second model learns the differences between the results and the prior. The
    model with more evidence is used, so a misleading prior does little harm. Later, if the second
    has more evidence, the two alternate: results near the prior's favourites cannot show that it is
    wrong elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()
        self._likelier = 0  # the model with more evidence; the second has the prior as its mean
        self._used = 0  # the model that was used last
        self._relearn_at = 0.0
        self._drew = False  # the last proposal was a uniform draw
        self._batch: _Batch | None = None

    @cached_property
    def _memory(self) -> Memory:
        rng = np.random.default_rng(self.manipulator.rng.getrandbits(64))
        return Memory(self.manipulator.space, rng, self.manipulator.transfer)

    @cached_property
    def _models(self) -> list[Surrogate]:
        encoder = self._memory.encoder
        count = 1 if self._memory.prior is None else 2
        return [Surrogate(encoder.groups, encoder.relative_lengths) for _ in range(count)]

    def on_result(self, result: Any) -> None:
        """Note a result, whichever technique asked for it."""
        self._memory.add(result.configuration.config, result.time)

    def desired_result(self) -> Any:
        """Return OpenTuner's request for the next proposal; mark a uniform draw."""
        desired = super().desired_result()
        if desired is not None and self._drew:
            desired.requestor = f"{self.name} (uniform)"
        return desired

    def desired_configuration(self) -> Cfg | None:
        """Return the next proposal; None when all are measured."""
        memory = self._memory
        pending = [request.configuration.config for request in self.driver.pending]
        waiting = memory.space.encode_all(pending)
        memory.await_results(waiting)
        if memory.is_enough(FIRST if memory.prior is None else FAVOURITES):
            with _blas().limit(limits=1):
                proposals = self._promising(waiting)
        elif memory.prior is not None:
            proposals = memory.favourites(1)
        else:
            proposals = memory.remote(memory.space.sample_points(memory.rng, _DRAWN_FIRST))
        self._drew = not len(proposals)
        if len(proposals):
            return dict(memory.space.decode(proposals[0].tolist()))
        drawn: Cfg | None = self.manipulator.draw_unmeasured(self.driver.taken)
        return drawn

    def _promising(self, waiting: PointArray) -> PointArray:
        """Return the candidate of the greatest expected improvement, if there are candidates."""
        memory = self._memory
        batch = self._batch
        if batch is None or batch.results < memory.count or not batch.believe(waiting):
            candidates = memory.unseen(self._candidates())
            if not len(candidates):
                return candidates
            batch = self._batch = self._begin_batch(candidates, waiting)
            batch.believe(waiting)
        return batch.proposal(memory.rng)

    def _begin_batch(self, candidates: PointArray, waiting: PointArray) -> _Batch:
        """Fit a model to the results, and predict the candidates' times."""
        memory = self._memory
        sample = memory.sample()
        outputs = standardised(sample.times_s)
        self._learn(sample, outputs)
        self._used = self._next_model()
        model = self._models[self._used]
        mean = _mean_of(self._used, sample, outputs)
        model.fit(sample.points, outputs - mean(sample.expected), learn=False)
        near = memory.unseen(map(memory.neighbours, memory.fastest(_LOCAL_CENTRES)))
        positions = np.concatenate([candidates, near, waiting])
        return _Batch(
            results=memory.count,
            positions=positions,
            near=slice(len(candidates), len(candidates) + len(near)),
            prediction=model.predict(memory.encoder.points(positions)),
            shifts=mean(memory.expect(positions)),
            best=float(outputs.min()),
        )

    def _learn(self, sample: Sample, outputs: Array) -> None:
        """Fit hyper-parameters and compare the evidence, once per tenth more results."""
        if self._memory.count < self._relearn_at:
            return
        self._relearn_at = self._memory.count * _RELEARN
        for which, model in enumerate(self._models):
            mean = _mean_of(which, sample, outputs)
            model.fit(sample.points, outputs - mean(sample.expected), learn=True)
        evidence = [model.evidence for model in self._models]
        self._likelier = evidence.index(max(evidence))

    def _next_model(self) -> int:
        """Choose the model with more evidence; later, if it has the prior, alternate."""
        if self._memory.count < ALTERNATE_FROM or self._likelier == 0:
            return self._likelier
        return (self._used + 1) % len(self._models)

    def _candidates(self) -> Iterator[PointArray]:
        """Yield uniform draws, the prior's favourites, and neighbours of the fastest."""
        memory = self._memory
        drawn = _DRAWN if memory.count <= MOST_POINTS else _DRAWN_LATER
        yield memory.space.sample_points(memory.rng, drawn)
        yield memory.favourites(_LEADERS)
        for centre in memory.fastest(_CENTRES):
            near = memory.neighbours(centre)
            yield near
            for start in memory.rng.permutation(len(near))[:_STARTS]:
                yield memory.neighbours(near[start])


@cache
def _blas() -> ThreadpoolController:
    """Return the controller of BLAS threads: small matrices take longer on many threads."""
    return ThreadpoolController().select(user_api="blas")


def _mean_of(which: int, sample: Sample, outputs: Array) -> Callable[[Array], Array]:
    """Return the mean of a model's outputs where the prior expects a value: a constant, plus the
    scaled prior for the second model."""
    spread = float(logs_of(sample.times_s).std())  # the unit of the outputs
    scale = which / spread if spread > 0 else 0.0
    shift = float((outputs - scale * sample.expected).mean())
    return lambda expected: shift + scale * expected
