"""Times that are too good to be believed at once, and what proves them.

A program that ends early with exit status 0 is the fastest of all: one of the published results of
2015 is a "271 x" of that kind. What is more than 10 times as fast as the baseline, faster than a
program that does nothing, or writes something else than the baseline where nothing verifies what
it writes, is built anew and run again, and must then write what the baseline writes. Where the
program tells its own time, the clock of the process must agree that time was saved.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.core.records import Measurement
from harness.measure import plausibility
from harness.measure.programs.sandbox import Bounds, CannotStart, run_command
from harness.space_file import ProgramPlan

_FLOOR_RUNS = 5
_RESOLVED_S = 2e-3
"""What a process's own time can tell: less may be the machine's."""


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
    told = plausibility.why_too_fast(measured.time_s, reference.time_s)
    if plan.time is None:
        what = "a program that does nothing"
        told = told or plausibility.why_below(measured.time_s, floor_s, what)
    else:
        what = "anything that is worth timing"
        told = told or plausibility.why_below(measured.time_s, plausibility.FLOOR_S, what)
    if told is None and has_other_shape and reference.has_same_shape:
        return "it does not write what the default writes, as if it had left early"
    return told


def why_unproved(again: Measurement, measured: Measurement, reference: Reference) -> str | None:
    """What speaks against a time after the second build and its runs, which also had to write
    what the baseline writes; None where nothing does."""
    told = plausibility.why_unproved(again, measured)
    if told is not None:
        return told
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
