"""Pure functions over measurements: what each input came to, and which configuration suits which.

They need no device and no database; `harness.tune` calls them on what it has just measured,
`harness.analyse` on what a database holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from harness.core.config_diff import DEFAULT
from harness.core.records import Config, Input, Measurement, Outcome
from harness.stats.timing import (
    TimeRatio,
    count_within_noise,
    is_within_noise,
    mean_log,
    time_ratio,
)

MAX_FINALISTS = 3

Measured = Mapping[Config, Measurement]


@dataclass(frozen=True)
class InputReport:
    """What tuning an input came to; `best` and `baseline` are those of the interleaved
    re-measurement, or else the search's own, None where nothing worked; `speedup` needs both
    to be re-measured.

    `legal` is the number of legal configurations, None where it is not known. `note` says
    what kept an input from being measured, or measured again. `shared` configurations have the
    measurement of another, whose machine code they share; among ties each code counts once.
    """

    given: Input
    best: Measurement | None
    baseline: Measurement | None
    speedup: TimeRatio | None
    within_noise: int
    outcomes: Mapping[Outcome, int]
    legal: int | None
    note: str = ""
    shared: int = 0
    over: Mapping[str, TimeRatio] = field(default_factory=dict)
    """The speed-up over each named baseline that worked, as re-measured beside the best."""
    refused: Mapping[str, Measurement] = field(default_factory=dict)
    """The default and the named baselines that failed by their names, as they last failed."""

    @property
    def measured(self) -> int:
        """How many configurations have a measurement, failed and shared ones included."""
        return sum(self.outcomes.values())

    @property
    def is_exhausted(self) -> bool:
        """Whether every legal configuration was measured."""
        return bool(self.legal) and self.measured >= (self.legal or 0)


def report_input(
    given: Input,
    measured: Measured,
    finals: Iterable[Measurement],
    default: Config,
    legal: int | None,
    confidence: float = 0.95,
    baselines: Mapping[str, Config] = MappingProxyType({}),
) -> InputReport:
    """Sum up an input: `measured` by the search, `finals` re-measured in turn, among them the
    default and the named baselines."""
    in_turn = {m.config: m for m in finals}
    speedup, note = None, ""
    best, baseline = _fastest_in_turn(in_turn.values()), in_turn.get(default)
    if best and baseline and best.timing and baseline.timing:
        speedup = time_ratio(baseline.timing, best.timing, confidence)
    elif not best and (best := fastest(measured.values())):
        # The search's own times are flattered, and no speed-up is claimed from them.
        baseline, note = measured.get(default), "not measured again"
    return InputReport(
        given,
        best,
        baseline,
        speedup,
        _count_ties(best, measured, confidence),
        Counter(m.outcome for m in measured.values()),
        legal,
        note,
        sum(m.shared_with is not None for m in measured.values()),
        {
            name: time_ratio(beside.timing, best.timing, confidence)
            for name, config in baselines.items()
            if best and best.timing and (beside := in_turn.get(config)) and beside.timing
        },
        {
            name: found
            for name, config in {DEFAULT: default, **baselines}.items()
            if (found := in_turn.get(config) or measured.get(config)) and not found.timing
        },
    )


def _count_ties(best: Measurement | None, measured: Measured, confidence: float) -> int:
    """How many others do not differ from the best for certain, all as the search timed them."""
    if best is None or best.config not in measured:
        return 0
    own = measured[best.config].timing
    distinct = one_of_each_code(measured.values(), best.config)
    others = [m.timing for m in distinct if m.timing and m.config != best.config]
    return count_within_noise(own, others, confidence) if own else 0


def fastest(measurements: Iterable[Measurement]) -> Measurement | None:
    """The measurement with the least median; None where none is ok."""
    working = [m for m in measurements if m.outcome is Outcome.OK]
    return min(working, key=lambda m: m.time_s, default=None)


def _fastest_in_turn(finals: Iterable[Measurement]) -> Measurement | None:
    """The one with the least mean logarithm of its samples, which is what speed-ups compare: the
    best is then never told as slower than the default."""
    timed = [(mean_log(m.timing.samples_s), m) for m in finals if m.timing]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def one_of_each_code(measurements: Iterable[Measurement], preferred: Config) -> list[Measurement]:
    """Of configurations that share a measurement only one: the preferred one if it is among
    them, else the one that was measured."""
    chosen: dict[str, Measurement] = {}
    for m in measurements:
        origin = _code(m)
        there = chosen.get(origin)
        is_better = there and m.shared_with is None and there.config != preferred
        if there is None or is_better or m.config == preferred:
            chosen[origin] = m
    return list(chosen.values())


def choose_finalists(
    measurements: Collection[Measurement],
    default: Config,
    count: int | None = None,
    in_turn: Iterable[Measurement] = (),
) -> list[Config]:
    """So many of the fastest; by default two, and a third within the noise of the fastest: the
    winner of a noisy search is flattered, so that its rivals are measured again beside it. And the
    fastest of what was measured `in_turn`, which tells more than times of a search.

    Of configurations of equal machine code one, as `one_of_each_code` has it.
    """
    distinct = one_of_each_code(measurements, default)
    working = [m for m in distinct if m.outcome is Outcome.OK]
    leading = sorted(working, key=lambda m: m.time_s)[: count or MAX_FINALISTS]
    if count is None:
        leading = [m for place, m in enumerate(leading) if place < 2 or _tie(m, leading[0])]
    code_of = {m.config: _code(m) for m in measurements}
    stands_for = {_code(m): m.config for m in working}
    leader = _fastest_in_turn(m for m in in_turn if code_of.get(m.config) in stands_for)
    leaders = [stands_for[code_of[leader.config]]] if leader else []
    return list(dict.fromkeys([*(m.config for m in leading), *leaders]))


def _code(measurement: Measurement) -> str:
    """What configurations of equal machine code have in common."""
    return measurement.shared_with or measurement.config.digest


def _tie(one: Measurement, other: Measurement) -> bool:
    return bool(one.timing and other.timing and is_within_noise(one.timing, other.timing))
