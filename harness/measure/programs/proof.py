"""Times of programs that do not count.

A program that prints its own time may print any. So in interleaved rounds, where the default runs
beside it, its process must end sooner by at least half of the seconds that it claims to save.

A program that ends early with exit status 0 is the fastest of all. Where nothing verifies the
output (`against: nothing`), it must at least write what the default writes, numbers apart.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from harness.core.observations import UNTIMED
from harness.core.records import Measurement, Outcome
from harness.core.text import format_time
from harness.measure.programs.runner import ProgramResult
from harness.measure.trial.occasions import why_too_fast
from harness.space_file import ProgramPlan
from harness.stats.timing import time_ratio


@dataclass(frozen=True)
class Reference:
    """The default's result on an input: its output and its time, whether it writes words at all,
    and whether it wrote the same words twice."""

    output: bytes
    time_s: float
    has_words: bool
    has_same_shape: bool


def without_early_end(
    result: ProgramResult, reference: Reference, plan: ProgramPlan
) -> Measurement:
    """Return the measurement; without its time where nothing verifies the output, and the program
    seems to have ended early."""
    measured = result.measurement
    if measured.outcome is not Outcome.OK or plan.verify.against != "nothing":
        return measured
    if result.has_other_shape and reference.has_same_shape:
        return _refused(
            measured, "it does not write what the default writes, as if it had ended early"
        )
    too_fast = why_too_fast(measured.time_s, reference.time_s)
    if too_fast is None or reference.has_words:
        return measured
    reason = f"{too_fast}, and since the default writes nothing, it may have ended early"
    return _refused(measured, f"{reason}; verify an output")


def without_unshown_gain(measured: Measurement, default: Measurement) -> Measurement:
    """Return a measurement of the rounds of the default; without its time where the program reports
    a significant gain, and its process does not show half of it."""
    if measured.timing is None or default.timing is None or UNTIMED not in measured.observed:
        return measured
    claimed_s = default.time_s - measured.time_s
    # What a busy machine adds to the timed part lengthens the process alike: only the rest counts.
    saved_s = claimed_s + default.observed[UNTIMED] - measured.observed[UNTIMED]
    if saved_s >= claimed_s / 2 or not time_ratio(default.timing, measured.timing).is_faster:
        return measured
    sooner = f"{format_time(saved_s)} sooner" if saved_s > 0 else "no sooner"
    return _refused(
        measured,
        f"the program reports that it saves {format_time(claimed_s)} a run, but its process ends "
        f"{sooner} than the default's; let it report the time of all its work, or write "
        "`time: wall`; if it does, let the timed part be more of its process",
    )


def _refused(measured: Measurement, reason: str) -> Measurement:
    message = f"its time does not count: {reason}"
    return dataclasses.replace(measured, outcome=Outcome.IMPLAUSIBLE, timing=None, message=message)
