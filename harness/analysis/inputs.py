"""Report on single inputs: the best configuration, its speed-up, ties and finalists.

Pure functions over measurements; harness.tune calls them on what it has just measured,
harness.analyse on what a database holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from harness.core.config_diff import DEFAULT
from harness.core.records import Config, Input, Measurement, Outcome
from harness.stats.timing import TimeRatio, is_within_noise, mean_log, time_ratio

MAX_FINALISTS = 3

Measured = Mapping[Config, Measurement]


@dataclass(frozen=True)
class InputReport:
    """The result of tuning one input.

    `best` and `baseline` come from the finals, which measure finalists and default interleaved;
    without finals they come from the search, and are None where nothing worked. `speedup` needs
    finals of both. `within_noise` counts the configurations that tie with the best, once per
    machine code.

    `legal` is the number of legal configurations, None if unknown. `note` is the reason why an
    input was not measured, or not measured again. `shared` configurations have the measurement of
    another one with the same machine code.
    """

    problem: Input
    best: Measurement | None
    baseline: Measurement | None
    speedup: TimeRatio | None
    within_noise: int
    outcomes: Mapping[Outcome, int]
    legal: int | None
    note: str = ""
    shared: int = 0
    baseline_speedups: Mapping[str, TimeRatio] = field(default_factory=dict)
    """The speed-up over each named baseline that worked in the finals."""
    failed_baselines: Mapping[str, Measurement] = field(default_factory=dict)
    """The last failure of the default and of each named baseline that failed, by name."""

    @property
    def measured(self) -> int:
        """The number of configurations with a measurement, including failed and shared ones."""
        return sum(self.outcomes.values())

    @property
    def is_exhausted(self) -> bool:
        """Whether every legal configuration was measured."""
        return bool(self.legal) and self.measured >= (self.legal or 0)


def report_input(
    problem: Input,
    measured: Measured,
    finals: Iterable[Measurement],
    default: Config,
    legal: int | None,
    confidence: float = 0.95,
    baselines: Mapping[str, Config] = MappingProxyType({}),
) -> InputReport:
    """Report on an input from what the search `measured` and from its `finals`, which include the
    default and the named baselines."""
    final = {m.config: m for m in finals}
    speedup, note = None, ""
    best, baseline = _fastest_interleaved(final.values()), final.get(default)
    if best and baseline and best.timing and baseline.timing:
        speedup = time_ratio(baseline.timing, best.timing, confidence)
    elif not best and (best := fastest(measured.values())):
        # The best of a search was lucky, so its time gives no speed-up.
        baseline, note = measured.get(default), "not measured again"
    return InputReport(
        problem,
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
            if best and best.timing and (beside := final.get(config)) and beside.timing
        },
        {
            name: found
            for name, config in {DEFAULT: default, **baselines}.items()
            if (found := final.get(config) or measured.get(config)) and not found.timing
        },
    )


def _count_ties(best: Measurement | None, measured: Measured, confidence: float) -> int:
    """Count the others within noise of the best, by the times of the search."""
    if best is None or best.config not in measured:
        return 0
    own = measured[best.config]
    distinct = one_per_code(measured.values(), best.config)
    return sum(_tie(own, m, confidence) for m in distinct if m.config != best.config)


def fastest(measurements: Iterable[Measurement]) -> Measurement | None:
    """Return the measurement with the least median; None if none is ok."""
    working = [m for m in measurements if m.outcome is Outcome.OK]
    return min(working, key=lambda m: m.time_s, default=None)


def _fastest_interleaved(finals: Iterable[Measurement]) -> Measurement | None:
    """Return the measurement with the least mean logarithm.

    Speed-ups compare the same means, so the best is never reported as slower than the default.
    """
    timed = [(mean_log(m.timing.samples_s), m) for m in finals if m.timing]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def one_per_code(measurements: Iterable[Measurement], preferred: Config) -> list[Measurement]:
    """Keep one configuration per machine code: the preferred one, else the one that was
    measured."""
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
    interleaved: Iterable[Measurement] = (),
) -> list[Config]:
    """Choose the configurations to measure again, since the best of a search was lucky.

    These are the `count` fastest; by default two, and a third within noise of the fastest. The
    fastest of the `interleaved` measurements, which are more reliable than those of a search, is
    added. Each machine code counts once, as in `one_per_code`.
    """
    distinct = one_per_code(measurements, default)
    working = [m for m in distinct if m.outcome is Outcome.OK]
    leading = sorted(working, key=lambda m: m.time_s)[: count or MAX_FINALISTS]
    if count is None:
        leading = [m for rank, m in enumerate(leading) if rank < 2 or _tie(m, leading[0])]
    code_of = {m.config: _code(m) for m in measurements}
    stands_for = {_code(m): m.config for m in working}
    leader = _fastest_interleaved(m for m in interleaved if code_of.get(m.config) in stands_for)
    leaders = [stands_for[code_of[leader.config]]] if leader else []
    return list(dict.fromkeys([*(m.config for m in leading), *leaders]))


def _code(measurement: Measurement) -> str:
    """Return a key that configurations with the same machine code share."""
    return measurement.shared_with or measurement.config.digest


def _tie(one: Measurement, other: Measurement, confidence: float = 0.95) -> bool:
    if one.timing is None or other.timing is None:
        return False
    return is_within_noise(one.timing, other.timing, confidence)
