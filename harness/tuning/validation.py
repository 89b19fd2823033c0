"""Starchart's validation: sample until a tree (harness.models.starchart) predicts unseen times.

A sample is a pair of an input and a legal configuration. Pairs are drawn uniformly, without
replacement: first the reserved samples, which no tree sees, then training samples, some more at a
time, until the 95 % interval of the median relative error on the reserved samples lies below the
target: a single tree of a noisy curve may dip below it by chance. The tree is grown on the
logarithm of the time, because the times of inputs differ by orders of magnitude, and by the
published rule. Draws repeat with the seed, so a continued run finds its samples in the database.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole, Value
from harness.measure.sensors.energy import POWER
from harness.models.folds import ErrorSummary, relative_errors
from harness.models.starchart import Axis, Growth, TreeTarget, grow
from harness.search import InputInterface, InputSearch, Progress, search_input
from harness.search.driver import MAX_FREE_IN_A_ROW
from harness.search.techniques import REFUSALS
from harness.tuning.state import State

RESERVED = 200
FEWEST_PAIRS = 40
_STEP = 20
_TARGET = "the target"  # a column; no parameter has such a name
_THRESHOLD = 0.0  # the published rule; a least gain of 1e-4 stops before the noise does


@dataclass(frozen=True)
class CurvePoint:
    """The error of a tree grown on so many samples, of which some failed: these count against the
    limit, but have no time to learn from. `power` is the error of a tree of the power; None where
    too few samples have it."""

    samples: int
    failed: int
    error: ErrorSummary
    power: ErrorSummary | None = None


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
        state = self._state
        options = self._state.options
        counts: dict[Input, float] = {}
        for problem in state.spec.inputs:
            if state.is_empty(problem):
                continue
            space = state.space(problem)
            if space.count is None:
                counts[problem], _ = space.estimate_count(random.Random(options.seed))
            else:
                counts[problem] = space.count
        limit = options.test_limit * len(state.spec.inputs)
        return validate(self, counts, target, limit, options.seed)

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

        options = replace(
            state.options,
            test_limit=draws,
            counts_all=True,
            salt=f":{role.value}",
            held_out=held_out,
            peak_fraction=None,
        )
        plan = state.run_plan(problem)
        space = state.space(problem)
        technique = f"{plan.technique} ({role.value})"
        plan = replace(plan, technique=technique, test_limit=draws)
        with state.leaving_out(problem):
            interface = InputInterface(state.spec, problem, space, state.measurer_for(problem))
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
        held_out: Mapping[Input, frozenset[Config]],
    ) -> None:
        """`counts` is the number of legal configurations of each input, with those held out."""
        self._sampler = sampler
        self._role = role
        self._held_out = held_out
        self._left = {p: count - len(held_out[p]) for p, count in counts.items()}
        self._no_samples = frozenset(Outcome) - {Outcome.OK}
        if role is SampleRole.TRAINING:
            self._no_samples = REFUSALS
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
        held_out = self._held_out[problem]
        draws = before + more
        drawn = self._sampler.draw_samples(self._role, problem, draws, held_out)
        self.drawn[problem] = drawn
        if len(drawn) < draws:
            self._left[problem] = 0
        for measurement in drawn[before:]:
            if measurement.outcome in self._no_samples:
                self._lost_in_a_row += 1
            else:
                self._lost_in_a_row = 0
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
    none: frozenset[Config] = frozenset()
    stream = _PairStream(sampler, SampleRole.RESERVED, counts, seed, dict.fromkeys(counts, none))
    reserved = _reserve(sampler, stream, int(pairs) // 2)
    held_out = {p: frozenset(m.config for m in drawn) for p, drawn in stream.drawn.items()}
    training = _PairStream(sampler, SampleRole.TRAINING, counts, seed, held_out)
    samples: list[Measurement] = []
    curve: list[CurvePoint] = []
    ended = ""
    while not ended:
        # Few samples added to many change nothing but noise: later, a quarter is added.
        step = _STEP * max(1, len(samples) // (4 * _STEP))
        wanted = min(step, limit - len(samples))
        sampler.begin_samples(f"samples {len(samples) + 1} to {len(samples) + wanted}", wanted)
        more = training.take(wanted)
        samples += more
        may_go_on = sampler.is_time_up()
        working = [m for m in samples if m.outcome is Outcome.OK]
        if more and len(working) > 1 and reserved:
            error = _prediction_errors(working, reserved, seed)
            power = _power_errors(working, reserved, seed)
            curve.append(CurvePoint(len(samples), len(samples) - len(working), error, power))
        if curve and curve[-1].error.median.high <= target:
            may_go_on = False
            ended = f"The target of {target:g} is reached with {len(samples)} samples."
        elif len(samples) >= limit:
            ended = f"The limit of {limit} samples was spent before the target was reached."
            may_go_on = True
        elif len(more) < wanted:
            why = "Every legal pair was sampled"
            if may_go_on:
                why = "The time was up"
            elif training.is_refused:
                why = f"{MAX_FREE_IN_A_ROW} draws in a row were refused by the device"
            ended = f"{why} before the target was reached."
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


def _power_errors(
    training: Sequence[Measurement], reserved: Sequence[Measurement], seed: int
) -> ErrorSummary | None:
    """Do the same for the power, with the measurements that have it; None where these are too
    few."""
    training = [m for m in training if POWER in m.observed]
    reserved = [m for m in reserved if POWER in m.observed]
    if len(training) < 2 or not reserved:
        return None
    return _prediction_errors(training, reserved, seed, lambda m: m.observed[POWER])


def _prediction_errors(
    training: Sequence[Measurement],
    reserved: Sequence[Measurement],
    seed: int,
    target: Callable[[Measurement], float] = attrgetter("time_s"),
) -> ErrorSummary:
    """Grow a tree on the training measurements, at least two, and summarize its errors on the
    reserved ones; all of them must be ok."""
    import pandas as pd  # here: it takes half a second to load

    rows: list[dict[str, Value]] = []
    values: list[float] = []
    for m in (*training, *reserved):
        # A parameter may have the name of a feature.
        rows.append({f"input.{name}": value for name, value in m.input.items()} | dict(m.config))
        values.append(target(m))
    table = pd.DataFrame(rows, dtype=object)  # as objects, integers stay so beside None
    axes = [Axis.of(table, str(name)) for name in table.columns]
    table[_TARGET] = values
    learnt = table.iloc[: len(training)]
    unseen = table.iloc[len(training) :]
    tree = grow(learnt, TreeTarget(_TARGET, log=True), axes, Growth(_THRESHOLD, seed=seed))
    return relative_errors(tree.predict(unseen).to_numpy(), unseen[_TARGET].to_numpy())


def describe_validation(validation: Validation) -> Iterator[str]:
    """Describe the learning curve as a table, and why it ended."""
    yield (
        "Relative error of a regression tree over parameters and inputs, |predicted - actual| / "
        f"actual, on {validation.reserved} reserved samples (target: an interval of the median "
        f"below {validation.target:g}):"
    )
    if validation.reserved < RESERVED:
        yield f"    (usually {RESERVED}; fewer could be reserved here)"
    head = f"    {'samples':>8}{'median':>10}{'95 % interval':>18}{'9 in 10 below':>16}"
    if any(point.power for point in validation.curve):
        head += f"{'median of power':>18}"
    yield head
    for point in validation.curve:
        error = point.error
        interval = f"[{error.median.low:.3f}, {error.median.high:.3f}]"
        line = f"    {point.samples:>8}{error.median.value:>10.3f}{interval:>18}"
        line += f"{error.ninth_decile:>16.3f}"
        if point.power:
            line += f"{point.power.median.value:>18.3f}"
        if point.failed:
            line += f"   {point.failed} of them failed"
        yield line
    yield validation.ended
