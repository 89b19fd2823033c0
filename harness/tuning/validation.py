"""Starchart's validation: sample until a tree (harness.models.starchart) predicts unseen times.

A sample is a pair of an input and a legal configuration. Pairs are drawn uniformly, without
replacement: first the reserved samples, which no tree sees, then training samples, some more at a
time, until the 95 % interval of the median relative error on the reserved samples lies below the
target: a single tree of a noisy curve may dip below it by chance. The tree is grown on the
logarithm of the time, because the times of inputs differ by orders of magnitude, and by the
published rule. Draws repeat with the seed, so a continued run finds its samples in the database.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole
from harness.models.folds import ErrorSummary, relative_errors
from harness.models.starchart import Axis, Growth, TreeTarget, grow
from harness.search import InputInterface, InputSearch, Progress, search_input
from harness.search.driver import MAX_FREE_IN_A_ROW
from harness.search.techniques import REFUSALS
from harness.tuning.state import State

RESERVED = 200
FEWEST_PAIRS = 40
_STEP = 20
_TIME = "the time"  # a column; no parameter has such a name
_NOT_WORKING = frozenset(Outcome) - {Outcome.OK}
_THRESHOLD = 0.0  # the published rule; a least gain of 1e-4 stops before the noise does


@dataclass(frozen=True)
class CurvePoint:
    """The error of a tree grown on so many samples, of which some failed: these count against the
    limit, but have no time to learn from."""

    samples: int
    failed: int
    error: ErrorSummary


@dataclass(frozen=True)
class Validation:
    """The learning curve of a validation, and a sentence on why it ended."""

    target: float
    curve: tuple[CurvePoint, ...]
    reserved: int
    may_go_on: bool  # with a larger limit, or more time
    ended: str


class UniformSampling:
    """Draws the samples of a validation (harness.tuning.validation)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._drawn: dict[tuple[SampleRole, Input], int] = {}

    def run(self, target: float) -> Validation:
        """Sample until a tree predicts times with this median relative error."""
        state, counts = self._state, {}
        for problem in state.spec.inputs:
            space = state.space(problem)
            if not state.is_empty(problem):
                estimated, _ = space.estimate_count(random.Random(state.options.seed))
                counts[problem] = estimated if space.count is None else float(space.count)
        limit = state.options.test_limit * len(state.spec.inputs)
        return validate(self, counts, target, limit, state.options.seed)

    def is_time_up(self) -> bool:
        """Whether the time is up."""
        return self._state.is_time_up()

    def begin_samples(self, title: str, samples: int) -> None:
        """Show that some more samples are drawn."""
        self._state.display.begin_stage(title, samples)

    def draw_samples(
        self, role: SampleRole, problem: Input, draws: int, held_out: frozenset[Config]
    ) -> Sequence[Measurement]:
        """Return the first `draws` configurations that UniformRandom proposes, in order.

        Each role has its own run, which each call continues.
        """
        state = self._state
        samples: list[Measurement] = []
        earlier = self._drawn.get((role, problem), 0)

        def note(progress: Progress) -> None:
            samples.append(progress.measurement)
            if len(samples) > earlier:
                state.replayed += progress.replayed
                state.display.step(str(problem))

        options = dataclasses.replace(
            state.options,
            test_limit=draws,
            counts_all=True,
            salt=f":{role.value}",
            held_out=held_out,
            peak_fraction=None,
        )
        plan = state.run_plan(problem)
        technique = f"{plan.technique} ({role.value})"
        plan = dataclasses.replace(plan, technique=technique, test_limit=draws)
        with state.leaving_out(problem):
            space, measurer = state.space(problem), state.measurer_for(problem)
            interface = InputInterface(state.spec, problem, space, measurer)
            search = InputSearch(plan, options, interface, state.store, state.ledger, note)
            state.runs[problem] = search_input(search).run_id
        self._drawn[role, problem] = len(samples)
        return samples


class _PairStream:
    """Draws the samples of a role: pairs of an input and a configuration, uniformly and without
    replacement. Reserved samples must work, and training samples must not be refused."""

    def __init__(
        self,
        sampler: UniformSampling,
        role: SampleRole,
        counts: Mapping[Input, float],
        seed: int,
        held_out: Mapping[Input, frozenset[Config]] = MappingProxyType({}),
    ) -> None:
        """`counts` is the number of legal configurations of each input, with those held out."""
        self._draw = partial(sampler.draw_samples, role)
        self._held_out = {problem: held_out.get(problem, frozenset()) for problem in counts}
        self._left = {p: count - len(self._held_out[p]) for p, count in counts.items()}
        self._no_samples = REFUSALS if role is SampleRole.TRAINING else _NOT_WORKING
        # With the same random numbers for both roles, each reserved sample would have a training
        # sample near it, and the error would look too small.
        self._rng = random.Random(f"{seed}:{role.value}")
        self._lost_in_a_row = 0
        self.drawn: dict[Input, Sequence[Measurement]] = dict.fromkeys(counts, ())

    @property
    def is_refused(self) -> bool:
        """Whether too many draws in a row were no samples, so that no more are made."""
        return self._lost_in_a_row >= MAX_FREE_IN_A_ROW

    def take(self, count: int) -> list[Measurement]:
        """Return the next samples; fewer where there are no more."""
        taken: list[Measurement] = []
        while len(taken) < count and not self.is_refused:
            chosen = Counter(self._choose(count - len(taken)))
            if not chosen:
                break
            for problem, more in chosen.items():
                taken += self._more(problem, more)
        return taken

    def _choose(self, count: int) -> Iterator[Input]:
        """Draw the inputs of the next pairs, weighted by the configurations that each has left."""
        inputs = list(self._left)
        for _ in range(count):
            weights = [max(0.0, self._left[problem]) for problem in inputs]
            if sum(weights) <= 0:
                return
            (problem,) = self._rng.choices(inputs, weights)
            self._left[problem] -= 1
            yield problem

    def _more(self, problem: Input, more: int) -> Iterator[Measurement]:
        before = len(self.drawn[problem])
        self.drawn[problem] = self._draw(problem, before + more, self._held_out[problem])
        if len(self.drawn[problem]) < before + more:
            self._left[problem] = 0
        for measurement in self.drawn[problem][before:]:
            counts = measurement.outcome not in self._no_samples
            self._lost_in_a_row = 0 if counts else self._lost_in_a_row + 1
            if counts:
                yield measurement


def validate(
    sampler: UniformSampling,
    counts: Mapping[Input, float],
    target: float,
    limit: int,
    seed: int = 0,
) -> Validation:
    """Sample until the median relative error is below the target, with its interval, or there are
    `limit` training samples.

    `counts` is the number of legal configurations of each input. Raises UsageError where there
    are too few, or too few of them work.
    """
    pairs = sum(counts.values())
    if pairs < FEWEST_PAIRS:
        raise UsageError(
            f"--validate needs {FEWEST_PAIRS} pairs of an input and a legal configuration, found "
            f"{pairs:.0f}; leave out --validate to measure them all"
        )
    stream = _PairStream(sampler, SampleRole.RESERVED, counts, seed)
    reserved = _reserve(sampler, stream, int(pairs) // 2)
    held_out = {p: frozenset(m.config for m in drawn) for p, drawn in stream.drawn.items()}
    training = _PairStream(sampler, SampleRole.TRAINING, counts, seed, held_out)
    samples: list[Measurement] = []
    curve: list[CurvePoint] = []
    ended, may_go_on = None, False
    while ended is None:
        # Few samples added to many change nothing but noise: later, a quarter is added.
        step = _STEP * max(1, len(samples) // (4 * _STEP))
        wanted = min(step, limit - len(samples))
        sampler.begin_samples(f"samples {len(samples) + 1} to {len(samples) + wanted}", wanted)
        more = training.take(wanted)
        samples += more
        working = [m for m in samples if m.outcome is Outcome.OK]
        if more and len(working) > 1 and reserved:
            error = _prediction_errors(working, reserved, seed)
            curve.append(CurvePoint(len(samples), len(samples) - len(working), error))
        if curve and curve[-1].error.median.high <= target:
            ended = f"The target of {target:g} is reached with {len(samples)} samples."
        elif len(samples) >= limit:
            ended = f"The limit of {limit} samples was spent before the target was reached."
            may_go_on = True
        elif len(more) < wanted:
            ended = f"{_shortage(sampler, training)} before the target was reached."
            may_go_on = sampler.is_time_up()
    return Validation(target, tuple(curve), len(reserved), may_go_on, ended)


def _reserve(sampler: UniformSampling, stream: _PairStream, most: int) -> list[Measurement]:
    """Draw the reserved samples. Raises UsageError where too few of them work."""
    wanted = min(RESERVED, most)
    sampler.begin_samples("reserved samples", wanted)
    reserved = stream.take(wanted)
    if len(reserved) < FEWEST_PAIRS // 2 and not sampler.is_time_up():
        raise UsageError(
            f"--validate needs {FEWEST_PAIRS // 2} reserved samples that work, found "
            f"{len(reserved)} among {sum(map(len, stream.drawn.values()))} drawn; leave out "
            "--validate to see why the others failed"
        )
    return reserved


def _prediction_errors(
    training: Sequence[Measurement], reserved: Sequence[Measurement], seed: int = 0
) -> ErrorSummary:
    """Grow a tree on the training measurements, at least two, and summarize its errors on the
    reserved ones; all of them must be ok."""
    import pandas as pd  # here: it takes half a second to load

    pairs = [*training, *reserved]
    # A parameter may have the name of a feature. As objects, integers stay so beside None.
    rows = [{f"input.{k}": v for k, v in m.input.items()} | dict(m.config) for m in pairs]
    table = pd.DataFrame(rows, dtype=object)
    axes = [Axis.of(table, str(name)) for name in table.columns]
    table[_TIME] = np.array([m.time_s for m in pairs])
    learnt, unseen = table.iloc[: len(training)], table.iloc[len(training) :]
    tree = grow(learnt, TreeTarget(_TIME, log=True), axes, Growth(_THRESHOLD, seed=seed))
    return relative_errors(tree.predict(unseen).to_numpy(), unseen[_TIME].to_numpy())


def _shortage(sampler: UniformSampling, stream: _PairStream) -> str:
    """Say why there were fewer samples than wanted."""
    if sampler.is_time_up():
        return "The time was up"
    if stream.is_refused:
        return f"{MAX_FREE_IN_A_ROW} draws in a row were refused by the device"
    return "Every legal pair was sampled"


def describe_validation(validation: Validation) -> Iterator[str]:
    """Describe the learning curve as a table, and why it ended."""
    yield (
        "Relative error of a regression tree over parameters and inputs, |predicted - actual| / "
        f"actual, on {validation.reserved} reserved samples (target: an interval of the median "
        f"below {validation.target:g}):"
    )
    if validation.reserved < RESERVED:
        yield f"    (usually {RESERVED}; fewer could be reserved here)"
    yield f"    {'samples':>8}{'median':>10}{'95 % interval':>18}{'9 in 10 below':>16}"
    for point in validation.curve:
        error = point.error
        interval = f"[{error.median.low:.3f}, {error.median.high:.3f}]"
        failed = f"   {point.failed} of them failed" if point.failed else ""
        yield (
            f"    {point.samples:>8}{error.median.value:>10.3f}{interval:>18}"
            f"{error.ninth_decile:>16.3f}{failed}"
        )
    yield validation.ended
