"""Times that are too short to be believed, and their proofs.

A kernel that returns early, or that finds the results of an earlier one, is the fastest of all. So
a configuration that is more than 10 times as fast as the default, or faster than an empty launch,
or whose first run takes clearly longer than all others, is built again and measured on other data
before it can win.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Config, Input, Measurement, Outcome, Timing

MAX_SPEEDUP = 10.0
"""A higher speed-up over the default needs a proof."""

FLOOR_S = 3e-7
"""No launch takes less on a CPU, in seconds; an empty one takes 0.9 us with PoCL on Zen 5."""

GPU_FLOOR_S = 1e-6
"""No launch takes less on a GPU, in seconds; an empty one takes some 2 us."""

PROOF_RUNS = 5
"""Timed runs of a proof."""

PROVED = "proved"
"""The observation of a measurement that was proved: 1."""

_TOLERATED_SLOWDOWN = 2.0
"""A proof may take this many times as long as the measurement."""


def why_too_fast(time_s: float, default_s: float) -> str | None:
    """Return why a time is implausible beside the default's; None where it is plausible."""
    ratio = default_s / time_s
    return f"it is {ratio:.3g} times as fast as the default" if ratio > MAX_SPEEDUP else None


def why_below(time_s: float, floor_s: float, what: str) -> str | None:
    """Return why a time below `floor_s`, the least that `what` takes, is implausible, or None."""
    if time_s >= floor_s:
        return None
    return f"its {time_s:.3g} s are less than {what} takes ({floor_s:.3g} s)"


def why_unproved(again: Measurement, measured: Measurement) -> str | None:
    """Return why a second build and its runs do not prove a time; None where they do."""
    if again.outcome is not Outcome.OK:
        return f"a second build and run ended differently: {again.outcome}: {again.message}"
    if again.time_s > _TOLERATED_SLOWDOWN * measured.time_s:
        return f"a second build and run took {again.time_s:.3g} s"
    return None


def why_first_is_slow(first_s: float, time_s: float, cold_s: float) -> str | None:
    """Return why a first run on new data shows that later runs save its work; None if it does not.

    `cold_s` is what the default takes longer in such a run: caches are cold, and so are a GPU's
    clocks. A first run may take twice that, and twice the later runs' `time_s`, in seconds.
    """
    if first_s <= _TOLERATED_SLOWDOWN * (time_s + max(0.0, cold_s)):
        return None
    return f"its first run on new data takes {first_s:.3g} s, but the others {time_s:.3g} s"


@dataclass
class Proofs:
    """The configurations whose implausible times have been proved."""

    _proved: set[tuple[Input, Config]] = field(default_factory=set)

    def settle(
        self,
        measured: Measurement,
        reason: str | None,
        why_not: Callable[[], str | None],
        *,
        always: bool = False,
    ) -> Measurement:
        """Return the measurement; one that is implausible for a `reason` only once it is proved.

        `why_not` tries to prove it, and returns why it cannot. One proof is enough, unless
        `always`. Without a proof the outcome is a wrong result.
        """
        if reason is None:
            return measured
        key = measured.input, measured.config
        if always or key not in self._proved:
            unproved = why_not()
            if unproved is not None:
                return _refused(measured, reason, unproved)
            self._proved.add(key)
        message = f"{reason}; a second build and run proved it"
        observed = {**measured.observed, PROVED: 1.0}
        return dataclasses.replace(measured, message=message, observed=observed)


def _refused(measured: Measurement, reason: str, unproved: str) -> Measurement:
    return dataclasses.replace(
        measured,
        outcome=Outcome.WRONG_RESULT,
        timing=None,
        message=f"too good to be true: {reason}, and {unproved}",
    )


@dataclass
class KernelTimes:
    """The times of kernels, which are compared with that of the default, and with `floor_s`."""

    floor_s: float = FLOOR_S
    _times: dict[tuple[Input, Config], float] = field(default_factory=dict)
    _cold_s: dict[tuple[Input, Config], float] = field(default_factory=dict)
    """The least that a first run on new data took longer than the others."""
    _seen: set[tuple[Input, Config, int]] = field(default_factory=set)

    def note(self, measured: Iterable[Measurement], seed: int = 0) -> None:
        """Add measurements on the data of a seed; the default may be among them.

        The first run on data that the configuration has seen is no first run: a kernel may keep
        its results in memory that is not of the arguments.
        """
        for each in measured:
            if each.outcome is Outcome.OK:
                self._times[each.input, each.config] = each.time_s
                data = each.input, each.config, seed
                if each.warmup_s and data not in self._seen:
                    self._seen.add(data)
                    key, cold_s = (each.input, each.config), each.warmup_s[0] - each.time_s
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
        below = why_below(measured.time_s, self.floor_s, "any launch")
        cold_s = self._cold_s.get((measured.input, measured.config))
        if below or cold_s is None:
            return below
        return self.why_first_is_slow(measured, measured.time_s + cold_s, default)

    def why_first_is_slow(
        self, measured: Measurement, first_s: float, default: Config
    ) -> str | None:
        """Return why a first run on new data is too slow for the time of a measurement; None where
        it is not, or where the default's is not known."""
        cold_s = self._cold_s.get((measured.input, default))
        return None if cold_s is None else why_first_is_slow(first_s, measured.time_s, cold_s)

    def why_unproved(
        self, again: Measurement, measured: Measurement, default: Config
    ) -> str | None:
        """Return why runs of a second build on new data do not prove a time; None where they do.

        The fastest of them count: a busy machine slows some, and what runs cannot do, none does.
        """
        if again.timing is None:
            return why_unproved(again, measured)
        fastest = Timing((min(again.timing.samples_s),))
        unproved = why_unproved(dataclasses.replace(again, timing=fastest), measured)
        return unproved or self.why_first_is_slow(measured, min(again.warmup_s), default)
