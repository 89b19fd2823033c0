"""Times of programs that are too short to be believed, and their proofs.

A program that ends early with exit status 0 is the fastest of all: one of the published results of
2015, "271 x", was of that kind. So a program is built and run again, and must then write what the
baseline writes, where it is more than 10 times as fast as the baseline, or faster than a program
that does nothing, or where its output has other words and nothing else verifies it. Where the
program measures its own time, the clock of its process must agree that time was saved.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.core.records import Measurement
from harness.measure import plausibility
from harness.measure.plausibility import why_below, why_too_fast
from harness.measure.programs.runner import ProgramResult
from harness.measure.programs.sandbox import Bounds, CannotStart, run_command
from harness.space_file import ProgramPlan

_FLOOR_RUNS = 5
_RESOLVED_S = 2e-3
"""Smaller differences between the times of processes may come from the machine."""

_REGION_FLOOR_S = 1e-6  # no timed region of a program is shorter


@dataclass(frozen=True)
class Reference:
    """The baseline's result on an input: its output, its time and that of its process, whether it
    writes words at all, and whether it wrote the same words twice."""

    output: Path
    time_s: float
    process_s: float
    has_words: bool
    has_same_shape: bool


def launch_floor_s() -> float:
    """Return the least seconds of a program that does nothing; 0 where `true` cannot run."""
    with tempfile.TemporaryDirectory(prefix="harness-floor-") as name:
        folder = Path(name)
        try:
            bounds = Bounds(1 << 30, 1 << 20, 10.0)
            results = [run_command(["true"], folder, folder, bounds) for _ in range(_FLOOR_RUNS)]
        except CannotStart:
            return 0.0
    return min(result.wall_s for result in results)


def why_implausible(
    result: ProgramResult, reference: Reference, plan: ProgramPlan, floor_s: float
) -> str | None:
    """Return why a time is implausible; None where it is plausible."""
    time_s = result.measurement.time_s
    reason = why_too_fast(time_s, reference.time_s)
    if reason is None and plan.time is None:
        reason = why_below(time_s, floor_s, "a program that does nothing")
    elif reason is None:
        reason = why_below(time_s, _REGION_FLOOR_S, "anything that is worth timing")
    if reason is None and result.has_other_shape and reference.has_same_shape:
        return "it does not write what the default writes, as if it had ended early"
    return reason


def why_unproved(again: Measurement, measured: Measurement, reference: Reference) -> str | None:
    """Return why a second build and its runs do not prove a time; None where they do.

    Those runs also had to write what the baseline writes.
    """
    reason = plausibility.why_unproved(again, measured)
    if reason is not None:
        return reason
    saved_s = reference.time_s - again.time_s
    process_s = again.observed.get("process_s")
    if process_s is not None and saved_s > _RESOLVED_S:
        saved_by_clock_s = reference.process_s - process_s
        if saved_by_clock_s < saved_s / 2:
            return (
                f"the program reports that it saves {saved_s:.3g} s, but its process ends only "
                f"{saved_by_clock_s:.3g} s sooner than the default's"
            )
    return None
