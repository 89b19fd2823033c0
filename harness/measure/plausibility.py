"""Times that are too short to be believed, and their proofs.

A kernel that returns early, or that finds the results of an earlier one, is the fastest of all. So
a configuration that is more than 10 times as fast as the default, or faster than an empty launch,
is built again and measured on other data before it can win.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Config, Input, Measurement, Outcome

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

    def note(self, measured: Iterable[Measurement]) -> None:
        """Add measurements; the default may be among them."""
        for each in measured:
            if each.outcome is Outcome.OK:
                self._times[each.input, each.config] = each.time_s

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
        return why_below(measured.time_s, self.floor_s, "any launch")
