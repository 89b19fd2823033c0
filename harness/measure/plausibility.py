"""Times that are too short to be believed, and their proofs.

A kernel that returns early, or that finds the results of an earlier one, is the fastest of all. So
a configuration that is more than 10 times as fast as the default, or faster than an empty launch,
or whose first run takes clearly longer than all others, or longer than the first one on data that
it has seen, is built again and run on new data beside the default before it can win.

Where that does not prove its time, the outcome is `implausible`: its results are right. It is a
wrong result only where the proof's results are wrong.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Config, Input, Measurement, Outcome
from harness.core.text import format_time
from harness.core.worst_element import WorstElement

MAX_SPEEDUP = 10.0
"""A higher speed-up over the default needs a proof."""

FLOOR_S = 3e-7
"""No launch takes less on a CPU, in seconds; an empty one takes 0.9 us with PoCL on Zen 5."""

GPU_FLOOR_S = 1e-6
"""No launch takes less on a GPU, in seconds; an empty one takes some 2 us."""

LAUNCH_FLOORS = 5
"""Launches of equal work may differ by so many floors of their device, whatever they compute: an
empty launch takes two or three, and a GPU's clock ticks every half of one."""

LEAST_GAIN = 0.05
"""Smaller gains over the default are within what first runs on new data scatter."""

PROVED = "proved"
"""The observation of a measurement that was proved: 1."""

_NEXT_STEP = (
    "Its results are right, but this time does not count. Let every run do all its work; if it "
    "does, other programs may have disturbed it: tune again with --fresh while nothing else runs"
)

_SEEN_RUNS = 2
"""First runs on data that were seen, before others are compared with them."""

_ALL_SEEN_RUNS = 5
"""After so many first runs on data that it had seen, and none on data that nobody had seen, a
configuration needs a proof, as in a final where a rival had the first run on each set of data."""

TOLERATED_SLOWDOWN = 2.0
"""A proof may take this many times as long as the measurement."""


def why_too_fast(time_s: float, default_s: float) -> str | None:
    """Return why a time is implausible beside the default's; None where it is plausible."""
    ratio = default_s / time_s
    return f"it is {ratio:.3g} times as fast as the default" if ratio > MAX_SPEEDUP else None


def why_below(time_s: float, floor_s: float) -> str | None:
    """Return why a time below `floor_s`, the least that a launch takes, is implausible, or None."""
    if time_s >= floor_s:
        return None
    return f"its {format_time(time_s)} are less than any launch takes ({format_time(floor_s)})"


@dataclass(frozen=True)
class Refusal:
    """Why a time is not proved, and the outcome of a measurement that is refused for it."""

    outcome: Outcome
    reason: str
    worst: WorstElement | None = None


def failed_proof(again: Measurement) -> Refusal:
    """Return the refusal of a time whose second build did not run to its end, or is wrong.

    What may have been chance stays so, and is measured again.
    """
    is_kept = again.outcome is Outcome.WRONG_RESULT or not again.outcome.settles
    outcome = again.outcome if is_kept else Outcome.IMPLAUSIBLE
    reason = f"a second build and run ended differently: {again.outcome}: {again.message}"
    return Refusal(outcome, reason, again.worst)


def why_first_is_slow(
    first_s: float, time_s: float, cold_s: float, overhead_s: float = 0.0
) -> str | None:
    """Return why a first run on new data shows that later runs save its work; None if it does not.

    `cold_s` is what the default takes longer in such a run: caches are cold, and so are a GPU's
    clocks. A first run may take twice that, and twice the later runs' `time_s`, in seconds, and
    the `overhead_s` by which launches of equal work differ.
    """
    if first_s <= TOLERATED_SLOWDOWN * (time_s + max(0.0, cold_s)) + overhead_s:
        return None
    first, others = format_time(first_s), format_time(time_s)
    return f"its first run on new data takes {first}, but the others {others}"


@dataclass
class Proofs:
    """The configurations whose implausible times have been proved."""

    _proved: set[tuple[Input, Config]] = field(default_factory=set)

    def settle(
        self,
        measured: Measurement,
        reason: str | None,
        why_not: Callable[[], Refusal | None],
    ) -> Measurement:
        """Return the measurement; one that is implausible for a `reason` only once it is proved.

        `why_not` tries to prove it, and returns why it cannot. One proof is enough.
        """
        if reason is None:
            return measured
        key = measured.input, measured.config
        if key not in self._proved:
            refusal = why_not()
            if refusal is not None:
                return _refused(measured, reason, refusal)
            self._proved.add(key)
        message = f"{reason}; a second build and run proved it"
        observed = {**measured.observed, PROVED: 1.0}
        return dataclasses.replace(measured, message=message, observed=observed)


def _refused(measured: Measurement, reason: str, refusal: Refusal) -> Measurement:
    is_wrong = refusal.outcome is Outcome.WRONG_RESULT
    message = f"too good to be true: {reason}, and {refusal.reason}"
    return dataclasses.replace(
        measured,
        outcome=refusal.outcome,
        timing=None,
        message=message if is_wrong else f"{message}. {_NEXT_STEP}",
        worst=refusal.worst,
    )


@dataclass
class _FirstRuns:
    """The seconds of first runs on data that were just copied to the device: those on data that no
    configuration had seen, and those on data that this one had.

    Both find the caches alike. Only what is kept of data can make them differ. A first run on data
    that only others had seen is neither: it may find what they kept, as in a group's local memory.
    """

    unseen_s: list[float] = field(default_factory=list)
    seen_s: list[float] = field(default_factory=list)


@dataclass
class KernelTimes:
    """The times of kernels, which are compared with that of the default, and with `floor_s`."""

    floor_s: float = FLOOR_S
    seen_by_any: set[tuple[Input, int]] = field(default_factory=set)
    """Data on which any configuration has run, also one of a measurer in the same process."""
    _times: dict[tuple[Input, Config], float] = field(default_factory=dict)
    _cold_s: dict[tuple[Input, Config], float] = field(default_factory=dict)
    """The least that a first run on new data took longer than the others."""
    _seen: set[tuple[Input, Config, int]] = field(default_factory=set)
    _first_runs: defaultdict[tuple[Input, Config], _FirstRuns] = field(
        default_factory=lambda: defaultdict(_FirstRuns)
    )

    @property
    def overhead_s(self) -> float:
        """The seconds by which launches of equal work differ, whatever they compute."""
        return LAUNCH_FLOORS * self.floor_s

    def note(
        self, measured: Iterable[Measurement], seed: int = 0, *, is_renewed: bool = False
    ) -> None:
        """Add measurements on the data of a seed, in the order of their first runs; the default may
        be among them.

        The first run on data that the configuration has seen is no first run: a kernel may keep
        its results in memory that is not of the arguments. `is_renewed` says whether the data were
        copied to the device just before.
        """
        for each in measured:
            if each.outcome is Outcome.OK:
                self._times[each.input, each.config] = each.time_s
                if each.warmup_s:
                    self._note_first_run(each, seed, is_renewed)
            self.seen_by_any.add((each.input, seed))

    def _note_first_run(self, measured: Measurement, seed: int, is_renewed: bool) -> None:
        key, data = (measured.input, measured.config), (measured.input, measured.config, seed)
        first_s, runs = measured.warmup_s[0], self._first_runs[key]
        if is_renewed and data in self._seen:
            runs.seen_s.append(first_s)
        elif is_renewed and (measured.input, seed) not in self.seen_by_any:
            runs.unseen_s.append(first_s)
        if data not in self._seen:
            self._seen.add(data)
            cold_s = first_s - measured.time_s
            self._cold_s[key] = min(cold_s, self._cold_s.get(key, cold_s))

    def why_implausible(
        self, measured: Measurement, default: Config, best_s: float | None
    ) -> str | None:
        """Return why a time that would be the best one is implausible; None where it is not."""
        if measured.outcome is not Outcome.OK or measured.config == default:
            return None
        if best_s is not None and measured.time_s >= best_s:
            return None
        default_s = self._times.get((measured.input, default))
        reason = why_too_fast(measured.time_s, default_s) if default_s is not None else None
        if reason is not None or (default_s is not None and default_s < self.floor_s):
            return reason
        below = why_below(measured.time_s, self.floor_s)
        cold_s = self._cold_s.get((measured.input, measured.config))
        if below or cold_s is None:
            return below
        slow = self.why_first_is_slow(measured, measured.time_s + cold_s, default)
        return slow or self._why_new_data_are_slow(measured, default)

    def of(self, problem: Input, config: Config) -> float | None:
        """Return the seconds of a configuration on an input; None where it was not measured."""
        return self._times.get((problem, config))

    def _why_new_data_are_slow(self, measured: Measurement, default: Config) -> str | None:
        """Return why first runs show that work is saved on data that were seen; None if not."""
        runs = self._first_runs[measured.input, measured.config]
        if not runs.unseen_s and len(runs.seen_s) >= _ALL_SEEN_RUNS:
            if self._saved_s(measured, default) is None:
                return None
            return "other configurations ran before it on all the data that it ran on"
        if not runs.unseen_s or len(runs.seen_s) < _SEEN_RUNS:
            return None
        extra_s = min(runs.unseen_s) - statistics.median(runs.seen_s)
        return self._why_kept(measured, extra_s, default)

    def _why_kept(self, measured: Measurement, extra_s: float, default: Config) -> str | None:
        """Return why `extra_s` of a run on new data explain most of a gain; None if they do not."""
        saved_s = self._saved_s(measured, default)
        if saved_s is None or extra_s <= max(saved_s / 2, self.overhead_s):
            return None
        return (
            f"its first runs take {format_time(extra_s)} longer on new data than on data that it "
            f"has seen, of {format_time(saved_s)} that it saves"
        )

    def _saved_s(self, measured: Measurement, default: Config) -> float | None:
        """Return the seconds that a configuration saves; None where these are next to nothing."""
        default_s = self._times.get((measured.input, default))
        if default_s is None or measured.time_s > (1 - LEAST_GAIN) * default_s:
            return None
        return default_s - measured.time_s

    def why_first_is_slow(
        self, measured: Measurement, first_s: float, default: Config
    ) -> str | None:
        """Return why a first run on new data is too slow for the time of a measurement; None where
        it is not, or where the default's is not known."""
        cold_s = self._cold_s.get((measured.input, default))
        if cold_s is None:
            return None
        return why_first_is_slow(first_s, measured.time_s, cold_s, self.overhead_s)
