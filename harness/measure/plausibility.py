"""Times that are too good to be believed at once, and what proves them.

What is more than 10 times as fast as the default, or takes less than any launch, is built anew and
measured again before it wins, on other data: a kernel that leaves early, or that finds the results
of an earlier one, is the fastest of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from harness.core.records import Config, Input, Measurement, Outcome

TOO_GOOD = 10.0
"""More times as fast as the default than is believed at once."""

FLOOR_S = 3e-7
"""No launch of a kernel, and no timed region of a program, takes less than this, in seconds.

An empty launch takes 0.9 us with PoCL on a Zen 5 processor, and some 2 us on a GPU.
"""

PROOF_RUNS = 5
"""Timed runs of a proof."""

PROVED = "proved"
"""The observation of a measurement that was proved: 1."""


def why_too_fast(time_s: float, default_s: float) -> str | None:
    """Why a time is doubted beside the default's; None where it is not."""
    ratio = default_s / time_s
    return f"it is {ratio:.3g} times as fast as the default" if ratio > TOO_GOOD else None


def why_below(time_s: float, floor_s: float, what: str) -> str | None:
    """Why a time is doubted that is below what `what` takes; None where it is not."""
    if time_s >= floor_s:
        return None
    return f"its {time_s:.3g} s are less than {what} takes ({floor_s:.3g} s)"


def why_unproved(again: Measurement, measured: Measurement) -> str | None:
    """What speaks against a time after a second build and its runs; None where nothing does."""
    if again.outcome is not Outcome.OK:
        return f"a second build and run ended otherwise: {again.outcome}: {again.message}"
    if again.time_s > 2 * measured.time_s:
        return f"a second build and run took {again.time_s:.3g} s"
    return None


def refused(measured: Measurement, doubt: str, why: str) -> Measurement:
    """The measurement of what was not proved: no result."""
    return dataclasses.replace(
        measured,
        outcome=Outcome.WRONG_RESULT,
        timing=None,
        message=f"too good to be true: {doubt}, and {why}",
    )


def proved(measured: Measurement, doubt: str) -> Measurement:
    """The measurement of what was proved."""
    told = f"{doubt}; a second build and run proved it"
    return dataclasses.replace(measured, message=told, observed={**measured.observed, PROVED: 1.0})


Again = Callable[[], Measurement | str]
"""Builds a configuration anew and measures it on other data; or says why that failed."""


@dataclass
class Doubts:
    """The measurements of kernels that were held against their defaults."""

    _times: dict[tuple[Input, Config], float] = field(default_factory=dict)
    _proved: dict[tuple[Input, Config], str] = field(default_factory=dict)

    def note(self, measured: Iterable[Measurement]) -> None:
        """What was measured, the default perhaps among it."""
        for found in measured:
            if found.outcome is Outcome.OK:
                self._times[found.input, found.config] = found.time_s

    def settled(
        self, measured: Measurement, default: Config, best_s: float | None, again: Again
    ) -> Measurement:
        """The measurement; of what is too good to be true, and would be the best, only where it
        is proved."""
        key = measured.input, measured.config
        beaten = best_s is not None and measured.time_s >= best_s
        if measured.outcome is not Outcome.OK or measured.config == default or beaten:
            return measured
        doubt = self._why(measured, self._times.get((measured.input, default)))
        if doubt is None:
            return measured
        if key not in self._proved:
            found = again()
            why = found if isinstance(found, str) else why_unproved(found, measured)
            if why is not None:
                return refused(measured, doubt, why)
            self._proved[key] = doubt
        return proved(measured, self._proved[key])

    def _why(self, measured: Measurement, default_s: float | None) -> str | None:
        doubt = why_too_fast(measured.time_s, default_s) if default_s is not None else None
        if doubt is not None or (default_s is not None and default_s < FLOOR_S):
            return doubt
        return why_below(measured.time_s, FLOOR_S, "any launch")
