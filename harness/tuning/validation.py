"""Starchart's validation: sample until a tree predicts what it has not seen.

Parameters and inputs are one space, whose points are pairs of an input and a legal
configuration. Pairs are drawn uniformly and without replacement: first those that are reserved,
which no tree ever sees, then those that trees are grown on, some more at a time, until the median
relative error on the reserved ones reaches the target. Draws repeat with the seed, so that a run
that is continued finds its samples in the database.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome
from harness.models.encoding.pairs import PairEncoder
from harness.models.prediction import prediction_errors
from harness.models.starchart.regression import ErrorSummary
from harness.search import MAX_FREE_IN_A_ROW, REFUSALS

RESERVED = 200
FEWEST_PAIRS = 40
_STEP = 20


class Part(str, Enum):
    """What a sample is for."""

    RESERVED = "reserved"
    TRAINING = "training"


class Sampler(Protocol):
    """What a validation needs of a campaign."""

    @property
    def columns(self) -> PairEncoder:
        """What a tree sees of a pair."""

    def begin_samples(self, title: str, samples: int) -> None:
        """Some more samples are to be measured."""

    def draw_samples(
        self, part: Part, given: Input, draws: int, held_out: frozenset[Config]
    ) -> Sequence[Measurement]:
        """The first `draws` uniform configurations of an input, in the order of their draw;
        fewer where there are no more, or where no more can be measured."""

    def is_time_up(self) -> bool:
        """Whether nothing more may be measured."""


@dataclass(frozen=True)
class Point:
    """The error of the tree that was grown on so many samples; failed ones, which count against
    the limit, have no time to learn from."""

    samples: int
    failed: int
    error: ErrorSummary


@dataclass(frozen=True)
class Validation:
    """The curve of a validation, and why it ended, in a sentence."""

    target: float
    curve: tuple[Point, ...]
    reserved: int
    may_go_on: bool  # with a larger limit, or more time
    ended: str


class PairStream:
    """Pairs of an input and a configuration, uniformly and without replacement."""

    def __init__(
        self,
        counts: Mapping[Input, float],
        draw: Callable[[Input, int], Sequence[Measurement]],
        counted: Callable[[Measurement], bool],
        rng: random.Random,
    ) -> None:
        """`counts` has the legal configurations of each input; `draw` gives the first so many
        of an input. What is not `counted` is drawn and left aside."""
        self._left = dict(counts)
        self._draw = draw
        self._counted = counted
        self._rng = rng
        self._lost_in_a_row = 0
        self.drawn: dict[Input, Sequence[Measurement]] = dict.fromkeys(counts, ())

    @property
    def is_refused(self) -> bool:
        """Whether so many draws in a row did not count that no more are made."""
        return self._lost_in_a_row >= MAX_FREE_IN_A_ROW

    def take(self, count: int) -> list[Measurement]:
        """The next samples that count; fewer where there are no more."""
        found: list[Measurement] = []
        while len(found) < count and not self.is_refused:
            chosen = Counter(self._choose(count - len(found)))
            if not chosen:
                break
            for given, more in chosen.items():
                found += self._more(given, more)
        return found

    def _choose(self, count: int) -> Iterator[Input]:
        """The inputs of the next pairs: each weighs what is left of its configurations."""
        inputs = list(self._left)
        for _ in range(count):
            weights = [max(0.0, self._left[given]) for given in inputs]
            if sum(weights) <= 0:
                return
            (given,) = self._rng.choices(inputs, weights)
            self._left[given] -= 1
            yield given

    def _more(self, given: Input, more: int) -> Iterator[Measurement]:
        before = len(self.drawn[given])
        self.drawn[given] = self._draw(given, before + more)
        if len(self.drawn[given]) < before + more:
            self._left[given] = 0
        for measurement in self.drawn[given][before:]:
            counts = self._counted(measurement)
            self._lost_in_a_row = 0 if counts else self._lost_in_a_row + 1
            if counts:
                yield measurement


@dataclass(frozen=True)
class Goal:
    """A median relative error, at most so many samples to reach it with, and the seed."""

    target: float
    limit: int
    seed: int = 0


def validate(sampler: Sampler, counts: Mapping[Input, float], goal: Goal) -> Validation:
    """Sample until the median error is at the target; `counts` has the legal configurations of
    each input.

    Raises UsageError where they are too few, or too few of them work.
    """
    pairs = sum(counts.values())
    if pairs < FEWEST_PAIRS:
        raise UsageError(
            f"--validate needs {FEWEST_PAIRS} pairs of an input and a legal configuration, and "
            f"there are {pairs:.0f}; without --validate they are all measured"
        )
    kept = PairStream(
        counts,
        lambda given, draws: sampler.draw_samples(Part.RESERVED, given, draws, frozenset()),
        lambda m: m.outcome is Outcome.OK,
        _rng(goal, Part.RESERVED),
    )
    reserved = _reserve(sampler, kept, int(pairs) // 2)
    held_out = {given: frozenset(m.config for m in drawn) for given, drawn in kept.drawn.items()}
    training = PairStream(
        {given: count - len(held_out[given]) for given, count in counts.items()},
        lambda given, draws: sampler.draw_samples(Part.TRAINING, given, draws, held_out[given]),
        lambda m: m.outcome not in REFUSALS,
        _rng(goal, Part.TRAINING),
    )
    return _grow(sampler, training, reserved, goal)


def _reserve(sampler: Sampler, stream: PairStream, most: int) -> list[Measurement]:
    """The samples to judge by; raises UsageError where too few of them work."""
    wanted = min(RESERVED, most)
    sampler.begin_samples("reserved samples", wanted)
    reserved = stream.take(wanted)
    if len(reserved) < FEWEST_PAIRS // 2 and not sampler.is_time_up():
        raise UsageError(
            f"--validate needs {FEWEST_PAIRS // 2} samples that work to judge by, and of "
            f"{sum(map(len, stream.drawn.values()))} that were drawn {len(reserved)} did; without "
            "--validate the report says why the others failed"
        )
    return reserved


def _rng(goal: Goal, part: Part) -> random.Random:
    # Were both parts drawn with the same numbers, a training sample would stand beside each
    # reserved one, and the error be flattered.
    return random.Random(f"{goal.seed}:{part.value}")


def _grow(
    sampler: Sampler, stream: PairStream, reserved: Sequence[Measurement], goal: Goal
) -> Validation:
    """Add samples until the target is reached or something else ends it."""
    samples: list[Measurement] = []
    curve: list[Point] = []
    ended, may_go_on = None, False
    while ended is None:
        wanted = min(_next_step(len(samples)), goal.limit - len(samples))
        sampler.begin_samples(f"samples {len(samples) + 1} to {len(samples) + wanted}", wanted)
        more = stream.take(wanted)
        samples += more
        working = [m for m in samples if m.outcome is Outcome.OK]
        if more and working and reserved:
            error = prediction_errors(sampler.columns, working, reserved, goal.seed)
            curve.append(Point(len(samples), len(samples) - len(working), error))
        if curve and curve[-1].error.median.value <= goal.target:
            ended = f"The target of {goal.target:g} is reached with {len(samples)} samples."
        elif len(samples) >= goal.limit:
            ended = f"The limit of {goal.limit} samples was spent before the target was reached."
            may_go_on = True
        elif len(more) < wanted:
            ended = f"{_shortage(sampler, stream)} before the target was reached."
            may_go_on = sampler.is_time_up()
    return Validation(goal.target, tuple(curve), len(reserved), may_go_on, ended)


def _next_step(samples: int) -> int:
    """20 more at first, later a quarter more, in twenties: what a few add to many is noise."""
    return _STEP * max(1, samples // (4 * _STEP))


def _shortage(sampler: Sampler, stream: PairStream) -> str:
    """Why there were not as many samples as were wanted."""
    if sampler.is_time_up():
        return "The time was up"
    if stream.is_refused:
        return f"{MAX_FREE_IN_A_ROW} draws in a row were refused by the device"
    return "Every legal pair was sampled"


def describe_validation(found: Validation) -> Iterator[str]:
    """The curve as a table, and why it ended."""
    yield (
        "How far a regression tree over parameters and inputs is off, |predicted - actual| / "
        f"actual, on {found.reserved} reserved samples (target: a median of {found.target:g}):"
    )
    if found.reserved < RESERVED:
        yield f"    ({RESERVED} are usual; fewer could be kept apart here)"
    yield f"    {'samples':>8}{'median':>10}{'95 % interval':>18}{'9 in 10 below':>16}"
    for point in found.curve:
        error = point.error
        interval = f"[{error.median.low:.3f}, {error.median.high:.3f}]"
        failed = f"   {point.failed} of them failed" if point.failed else ""
        yield (
            f"    {point.samples:>8}{error.median.value:>10.3f}{interval:>18}"
            f"{error.ninth_decile:>16.3f}{failed}"
        )
    yield found.ended
