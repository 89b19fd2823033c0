"""Bayesian optimisation, with a Gaussian process as the model of the times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from opentuner.search.technique import SearchTechnique
from threadpoolctl import ThreadpoolController

from harness.models.gaussian_process import Surrogate, standardised
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
        self._memory: Memory | None = None
        self._models: list[Surrogate] = []
        self._likelier = 0  # the model with more evidence; the second has the prior as its mean
        self._used = 0  # the model that was used last
        self._relearn_at = 0.0
        self._drew = False  # the last proposal was a uniform draw

    @property
    def _known(self) -> Memory:
        if self._memory is None:
            rng = np.random.default_rng(self.manipulator.rng.getrandbits(64))
            memory = Memory(self.manipulator.space, rng, self.manipulator.transfer)
            count = 1 if memory.prior is None else 2
            encoder = memory.encoder
            self._models = [
                Surrogate(encoder.groups, encoder.relative_lengths) for _ in range(count)
            ]
            self._memory = memory
        return self._memory

    def on_result(self, result: Any) -> None:
        """Note a result, whichever technique asked for it."""
        self._known.add(result.configuration.config, result.time)

    def desired_result(self) -> Any:
        """Return OpenTuner's request for the next proposal; mark a uniform draw."""
        desired = super().desired_result()
        if desired is not None and self._drew:
            desired.requestor = f"{self.name} (uniform)"
        return desired

    def desired_configuration(self) -> Cfg | None:
        """Return the next proposal; None when all are measured."""
        known = self._known
        pending = [request.configuration.config for request in self.driver.pending]
        waiting = known.space.encode_all(pending)
        known.await_results(waiting)
        if known.is_enough(FIRST if known.prior is None else FAVOURITES):
            with _blas().limit(limits=1):
                proposals = self._promising(waiting)
        elif known.prior is not None:
            proposals = known.favourites(1)
        else:
            proposals = known.remote(known.space.sample_points(known.rng, _DRAWN_FIRST))
        self._drew = not len(proposals)
        if len(proposals):
            return dict(known.space.decode(proposals[0].tolist()))
        drawn: Cfg | None = self.manipulator.draw_unmeasured(self.driver.taken)
        return drawn

    def _promising(self, waiting: PointArray) -> PointArray:
        """Return the candidate of the greatest expected improvement, if there are candidates."""
        known = self._known
        candidates = known.unseen(self._candidates())
        if not len(candidates):
            return candidates
        sample = known.sample()
        outputs = standardised(sample.times_s)
        self._learn(sample, outputs)
        self._used = self._next_model()
        model, mean = self._models[self._used], _Mean(self._used, sample, outputs)
        rests = outputs - mean.of(sample.expected)
        model.fit(sample.points, rests, learn=False)
        if len(waiting):
            model.believe(known.encoder.points(waiting))
        points, shifts = known.encoder.points(candidates), mean.of(known.expect(candidates))
        index, gain = model.most_promising(points, shifts, float(outputs.min()))
        if gain < LITTLE and known.rng.random() < 0.5:
            near = known.unseen(map(known.neighbours, known.fastest(_LOCAL_CENTRES)))
            if len(near):
                means = model.means(known.encoder.points(near)) + mean.of(known.expect(near))
                return near[[means.argmin()]]
        return candidates[[index]]

    def _learn(self, sample: Sample, outputs: Array) -> None:
        """Fit hyper-parameters and compare the evidence, once per tenth more results."""
        if self._known.count < self._relearn_at:
            return
        self._relearn_at = self._known.count * _RELEARN
        for which, model in enumerate(self._models):
            mean = _Mean(which, sample, outputs).of(sample.expected)
            model.fit(sample.points, outputs - mean, learn=True)
        evidence = [model.evidence for model in self._models]
        self._likelier = evidence.index(max(evidence))

    def _next_model(self) -> int:
        """Choose the model with more evidence; later, if it has the prior, alternate."""
        if self._known.count < ALTERNATE_FROM or self._likelier == 0:
            return self._likelier
        return (self._used + 1) % len(self._models)

    def _candidates(self) -> Iterator[PointArray]:
        """Yield uniform draws, the prior's favourites, and neighbours of the fastest."""
        known = self._known
        drawn = _DRAWN if known.count <= MOST_POINTS else _DRAWN_LATER
        yield known.space.sample_points(known.rng, drawn)
        yield known.favourites(_LEADERS)
        for centre in known.fastest(_CENTRES):
            near = known.neighbours(centre)
            yield near
            for start in known.rng.permutation(len(near))[:_STARTS]:
                yield known.neighbours(near[start])


@cache
def _blas() -> ThreadpoolController:
    """Return the controller of BLAS threads: small matrices take longer on many threads."""
    return ThreadpoolController().select(user_api="blas")


class _Mean:
    """The mean of a model's outputs: a constant, plus the scaled prior for the second model."""

    def __init__(self, which: int, sample: Sample, outputs: Array) -> None:
        self._scale = which / sample.spread if sample.spread > 0 else 0.0
        self._shift = float((outputs - self._scale * sample.expected).mean())

    def of(self, expected: Array) -> Array:
        """Return the mean where the prior expects `expected`."""
        mean: Array = self._shift + self._scale * expected
        return mean
