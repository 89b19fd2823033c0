"""Times that are too good to be believed at once, and what proves them.

A program that ends early with exit status 0 is the fastest of all: one of the published results of
2015 is a "271 x" of that kind. What is more than 10 times as fast as the baseline, faster than a
program that does nothing, or writes something else than the baseline where nothing verifies what
it writes, is built anew and run again, and must then write what the baseline writes. Where the
program tells its own time, the clock of the process must agree that time was saved.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.backends.command.sandbox import Bounds, CannotStart, run_command
from harness.records import Measurement, Outcome
from harness.spec import ProgramPlan

TOO_GOOD = 10.0
"""More times as fast as the baseline than is believed at once."""

TOLD_FLOOR_S = 1e-6
"""A time that a program tells of itself; no kernel is launched and no region entered in less."""

_FLOOR_RUNS = 5
_RESOLVED_S = 2e-3
"""What a process's own time can tell: less may be the machine's."""

PROVED = "proved"
"""The observation of a measurement that was proved: 1."""


@dataclass(frozen=True)
class Reference:
    """What came of the baseline on an input: its output, its time, that of its process, whether
    it writes words at all, and whether those were the same twice."""

    output: Path
    time_s: float
    process_s: float
    has_words: bool
    has_same_shape: bool


def launch_floor_s() -> float:
    """The seconds that a program takes that does nothing, at least; 0 where there is none."""
    with tempfile.TemporaryDirectory(prefix="harness-floor-") as folder:
        place = Path(folder)
        try:
            bounds = Bounds(1 << 30, 1 << 20, 10.0)
            ends = [run_command(["true"], place, place, bounds) for _ in range(_FLOOR_RUNS)]
        except CannotStart:
            return 0.0
    return min(ended.wall_s for ended in ends)


def why_doubtful(
    measured: Measurement,
    has_other_shape: bool,
    reference: Reference,
    plan: ProgramPlan,
    floor_s: float,
) -> str | None:
    """Why a time is not believed at once; None where it is."""
    ratio = reference.time_s / measured.time_s
    if ratio > TOO_GOOD:
        return f"it is {ratio:.3g} times as fast as the default"
    floor_s, what = (
        (floor_s, "a program that does nothing")
        if plan.time is None
        else (TOLD_FLOOR_S, "anything that is worth timing")
    )
    if measured.time_s < floor_s:
        return f"its {measured.time_s:.3g} s are less than {what} takes ({floor_s:.3g} s)"
    if has_other_shape and reference.has_same_shape:
        return "it does not write what the default writes, as if it had left early"
    return None


def why_unproved(again: Measurement, measured: Measurement, reference: Reference) -> str | None:
    """What speaks against a time after the second build and its runs, which also had to write
    what the baseline writes; None where nothing does."""
    if again.outcome is not Outcome.OK:
        return f"a second build and run ended otherwise: {again.outcome}: {again.message}"
    if again.time_s > 2 * measured.time_s:
        return f"a second build and run took {again.time_s:.3g} s"
    saved_s = reference.time_s - again.time_s
    process_s = again.observed.get("process_s")
    if process_s is not None and saved_s > _RESOLVED_S:
        saved_by_clock_s = reference.process_s - process_s
        if saved_by_clock_s < saved_s / 2:
            return (
                f"the program says that it saves {saved_s:.3g} s, but its process ends only "
                f"{saved_by_clock_s:.3g} s sooner than the default's"
            )
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
    return dataclasses.replace(measured, message=told, observed=dict(_with_proof(measured)))


def _with_proof(measured: Measurement) -> Iterator[tuple[str, float]]:
    yield from measured.observed.items()
    yield PROVED, 1.0
