"""Times of programs that are too short to be believed, and their proofs.

A program that ends early with exit status 0 is the fastest of all: one of the published results of
2015, "271 x", was of that kind. So a program is built and run again, and must then write what the
baseline writes, where it is more than 10 times as fast as the baseline, or faster than a program
that does nothing, or where its output has other words and nothing else verifies it.

A program that prints its own time may print any. From 2 times the baseline's speed on, the clock
of its process must show the seconds that it claims to save. Where it does not, the baseline runs
beside it, alternately, so that a busy machine slows both.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.records import Measurement
from harness.measure import plausibility
from harness.measure.plausibility import MAX_SPEEDUP, why_below, why_too_fast
from harness.measure.programs.runner import FirstRun, ProgramResult
from harness.measure.programs.sandbox import Bounds, CannotStart, run_command
from harness.measure.programs.sealed import SealedFile
from harness.space_file import ProgramPlan
from harness.stats.signed_rank import p_below

DOUBTED_FROM = 2.0
"""From this speed-up on, the clock of the process must agree with the time that is reported."""

_AGREES = 0.9
"""A clock that shows this share of the claimed seconds agrees, whatever the machine did between
the runs of the baseline and those of the program."""

ROUNDS = (10, 20, 30)
"""Rounds beside the baseline, and how many more while those do not settle the matter."""

_LEVEL = 2.5e-3
"""The p-value at which the clock contradicts the reported time, or agrees with it."""

_HOPELESS = 0.5
"""Claimed seconds below this share of the clock's scatter cannot be checked."""

_LEAST_GAIN = 0.1
"""Smaller gains over the baseline, which ran at another moment, say nothing of caches."""

_FIRST_SLOWDOWN = 2.0
_RESOLVED_CPU_S = 0.01

_FLOOR_RUNS = 5
_RESOLVED_S = 2e-3
"""Smaller differences between the times of processes may come from the machine."""

_TOLERATED_SLOWDOWN = 2.0
"""The shortest run of a proof beside the baseline may take this many times the measured seconds."""

_REGION_FLOOR_S = 1e-6  # no timed region of a program is shorter


@dataclass(frozen=True)
class Reference:
    """The baseline's result on an input: its output, its time and that of its process, whether it
    writes words at all, whether it wrote the same words twice, whether its first run was much
    slower than its second, and whether it wrote more outside of its folder."""

    output: SealedFile
    time_s: float
    process_s: float
    has_words: bool
    has_same_shape: bool
    first_was_slow: bool = False
    first_wrote: bool = False


@dataclass(frozen=True)
class PairedRuns:
    """The baseline and a program, run alternately: the reported seconds of every run, and
    those of its process, round by round."""

    default_s: tuple[float, ...]
    time_s: tuple[float, ...]
    default_process_s: tuple[float, ...]
    process_s: tuple[float, ...]

    @classmethod
    def of(cls, default: ProgramResult, program: ProgramResult) -> PairedRuns:
        """Pair two results of the same rounds; both must be ok."""
        return cls(_samples(default), _samples(program), default.process_s, program.process_s)

    @property
    def speedup(self) -> float:
        """How many times as fast as the baseline the program claims to be."""
        return statistics.median(self.default_s) / statistics.median(self.time_s)

    @property
    def claimed_s(self) -> float:
        """The seconds per run that the program claims to save."""
        return statistics.median(self.default_s) - statistics.median(self.time_s)

    @property
    def saved_s(self) -> tuple[float, ...]:
        """The seconds that the process ended sooner, round by round."""
        pairs = zip(self.default_process_s, self.process_s, strict=True)
        return tuple(default_s - process_s for default_s, process_s in pairs)

    def why_contradicted(self) -> str | None:
        """Return why the processes' clock contradicts the claim; None where it does not.

        It does where significantly less than half of the claimed seconds were saved.
        """
        if self.speedup < DOUBTED_FROM or self.claimed_s <= _RESOLVED_S:
            return None
        if p_below([saved_s - self.claimed_s / 2 for saved_s in self.saved_s]) > _LEVEL:
            return None
        return self._contradiction()

    @property
    def is_settled(self) -> bool:
        """Whether nearly every run shows at least half of the claimed seconds, or nearly none."""
        if self.why_contradicted() is not None or self.claimed_s <= _RESOLVED_S:
            return True
        return p_below([self.claimed_s / 2 - saved_s for saved_s in self.saved_s]) <= _LEVEL

    def why_unconfirmed(self) -> str | None:
        """Return why the clock does not show half of the claimed seconds; None where it does."""
        if self.claimed_s <= _RESOLVED_S or self._median_saved_s >= self.claimed_s / 2:
            return None
        return self._contradiction()

    @property
    def _median_saved_s(self) -> float:
        return statistics.median(self.saved_s)

    def _contradiction(self) -> str:
        return (
            f"the program reports that it saves {self.claimed_s:.3g} s, but its process ends only "
            f"{self._median_saved_s:.3g} s sooner than the default's in {len(self.saved_s)} runs "
            "beside it"
        )


def _samples(result: ProgramResult) -> tuple[float, ...]:
    timing = result.measurement.timing
    return () if timing is None else timing.samples_s


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


def was_slow(first: FirstRun, later: FirstRun) -> bool:
    """Say whether a first run took twice as long as later ones, also on processors.

    A busy machine makes a run wait, which takes no processor time.
    """
    is_late = first.time_s >= _FIRST_SLOWDOWN * later.time_s
    return is_late and first.cpu_s >= _FIRST_SLOWDOWN * later.cpu_s + _RESOLVED_CPU_S


def why_cached(result: ProgramResult, reference: Reference) -> str | None:
    """Return why runs seem to use what an earlier one left; None where they do not seem to.

    They do where they are faster than the baseline, the first one gained less than half of that,
    and either it was much slower than they are, or some run wrote more outside of its folder than
    they do. A program whose baseline has such a first run keeps caches by its nature, as for code
    that it compiles.
    """
    measured, first = result.measurement, result.first
    saved_s = reference.time_s - measured.time_s
    if first is None or reference.first_was_slow or saved_s < _LEAST_GAIN * reference.time_s:
        return None
    if reference.time_s - first.time_s > saved_s / 2:
        return None
    later = FirstRun(measured.time_s, measured.observed.get("cpu_s", 0.0))
    is_much_faster = saved_s >= measured.time_s and was_slow(first, later)
    wrote = first.elsewhere_bytes > result.elsewhere_bytes and not reference.first_wrote
    if not is_much_faster and not wrote:
        return None
    return (
        f"its first run took {first.time_s:.3g} s and later ones {later.time_s:.3g} s, as if they "
        "used results that it left outside of its folder; let each run do all its work, or "
        "leave the compilation of code out of program.time"
    )


def why_doubted(result: ProgramResult, reference: Reference) -> str | None:
    """Return why the clock of the process may contradict a reported time; None where it agrees.

    The baseline ran at another moment, so only a clock that agrees well is believed. A clock that
    scatters by more than twice the seconds claimed says nothing after any number of runs.
    """
    time_s = result.measurement.time_s
    if reference.time_s < DOUBTED_FROM * time_s or _clock_agrees(result, reference):
        return None
    if reference.time_s - time_s < _HOPELESS * _scatter_s(result.process_s):
        return None
    return (
        f"it reports {reference.time_s / time_s:.3g} times the speed of the default, which the "
        "time of its process does not show"
    )


def _clock_agrees(result: ProgramResult, reference: Reference) -> bool:
    """Say whether the process ended as much sooner as claimed; always where it is what is timed."""
    claimed_s = reference.time_s - result.measurement.time_s
    if claimed_s <= _RESOLVED_S or not result.process_s:
        return True
    return reference.process_s - statistics.median(result.process_s) >= _AGREES * claimed_s


def _scatter_s(seconds: Sequence[float]) -> float:
    """Return a standard deviation, estimated from the median distance to the median."""
    middle = statistics.median(seconds)
    return 1.4826 * statistics.median(abs(each_s - middle) for each_s in seconds)


def is_proved(again: ProgramResult, measured: Measurement, reference: Reference) -> bool:
    """Say whether the runs of a second build prove a time by themselves.

    Those runs also had to write what the baseline writes.
    """
    reason = plausibility.why_unproved(again.measurement, measured)
    return reason is None and _clock_agrees(again, reference)


def why_unproved_paired(
    paired: PairedRuns, measured: Measurement, reference: Reference
) -> str | None:
    """Return why runs beside the baseline do not prove a time; None where they do.

    Where the clock cannot decide, a speed-up that needs a proof is not proved unless the clock
    shows half of the seconds; a lower one stays.
    """
    contradicted = paired.why_contradicted()
    if contradicted is not None:
        return contradicted
    time_s = min(paired.time_s)  # a busy machine lengthens most runs, and shortens none
    if time_s > _TOLERATED_SLOWDOWN * measured.time_s:
        return f"the runs of a second build took {time_s:.3g} s or more"
    return paired.why_unconfirmed() if reference.time_s > MAX_SPEEDUP * measured.time_s else None


def joined(parts: Sequence[PairedRuns]) -> PairedRuns:
    """Join the rounds of several sessions, in order."""
    return PairedRuns(
        default_s=sum((part.default_s for part in parts), ()),
        time_s=sum((part.time_s for part in parts), ()),
        default_process_s=sum((part.default_process_s for part in parts), ()),
        process_s=sum((part.process_s for part in parts), ()),
    )
