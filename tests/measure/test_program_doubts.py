"""Where exactly a program's reported time is doubted, and where it is believed, by hand."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.measure.programs.proof import (
    PairedRuns,
    Reference,
    is_proved,
    joined,
    launch_floor_s,
    was_slow,
    why_cached,
    why_doubted,
    why_implausible,
    why_unproved_paired,
)
from harness.measure.programs.runner import FirstRun, ProgramResult
from harness.measure.programs.sealed import SealedFile
from harness.space_file import ProgramPlan, load_spec

REFERENCE = Reference(SealedFile(Path()), 1.0, 1.25, has_words=True, has_same_shape=True)


def result(
    time_s: float, process_s: Sequence[float] = (), other_shape: bool = False
) -> ProgramResult:
    measured = Measurement(Config({}), Input({"n": 1}), Outcome.OK, Timing((time_s,)))
    return ProgramResult(measured, tuple(process_s), other_shape)


def paired(
    time_s: float, saved_s: Sequence[float], default_s: float = 1.0, process_s: float = 2.0
) -> PairedRuns:
    """Runs of a program beside a default, whose process saves these seconds."""
    count = len(saved_s)
    processes = tuple(process_s - each_s for each_s in saved_s)
    return PairedRuns((default_s,) * count, (time_s,) * count, (process_s,) * count, processes)


# ------------------------------------------------------------------------- what is implausible


SPACE = """\
name: claims
program: {sources: [claims.sh], run: [sh, "{source}", "{N}"], time: {pattern: '(.*) s', unit: s}}
parameters: {N: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 1}]}
"""


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> ProgramPlan:
    """A program that prints its own time."""
    folder = tmp_path_factory.mktemp("claims")
    (folder / "claims.sh").write_text("true\n")
    (folder / "claims.yaml").write_text(SPACE)
    found = load_spec(folder / "claims.yaml").program
    assert found is not None
    return found


@pytest.fixture(scope="module")
def plain(timed: ProgramPlan) -> ProgramPlan:
    """A program whose process is timed."""
    return dataclasses.replace(timed, time=None)


@pytest.mark.parametrize(
    ("time_s", "is_timed", "reason"),
    [
        (0.1, True, None),  # ten times is not more than ten times
        (0.0999, False, "it is 10 times as fast"),
        (0.15, False, "less than a program that does nothing takes (200 ms)"),
        (0.2, False, None),
        (0.15, True, None),  # its region may be shorter than its process
    ],
)
def test_times_are_implausible_beside_the_default_and_below_the_floor(
    timed: ProgramPlan, plain: ProgramPlan, time_s: float, is_timed: bool, reason: str | None
) -> None:
    plan = timed if is_timed else plain
    found = why_implausible(result(time_s), REFERENCE, plan, floor_s=0.2)
    assert found is None if reason is None else reason in str(found)


def test_no_timed_region_is_shorter_than_a_microsecond(timed: ProgramPlan) -> None:
    fast = dataclasses.replace(REFERENCE, time_s=5e-6)
    assert why_implausible(result(1e-6), fast, timed, floor_s=0.2) is None
    assert "anything that is worth timing" in str(
        why_implausible(result(0.9e-6), fast, timed, floor_s=0.2)
    )


def test_output_of_another_shape_is_implausible_where_the_default_repeats_its_own(
    plain: ProgramPlan,
) -> None:
    other = result(0.5, other_shape=True)
    assert "as if it had ended early" in str(why_implausible(other, REFERENCE, plain, 0.0))
    varying = dataclasses.replace(REFERENCE, has_same_shape=False)
    assert why_implausible(other, varying, plain, 0.0) is None
    assert why_implausible(result(0.5), REFERENCE, plain, 0.0) is None
    assert "times as fast" in str(
        why_implausible(result(0.01, other_shape=True), REFERENCE, plain, 0.0)
    )


def test_a_program_that_does_nothing_takes_some_time() -> None:
    assert 0 < launch_floor_s() < 1


# --------------------------------------------------------------------------------- first runs


@pytest.mark.parametrize(
    ("first", "slow"),
    [
        (FirstRun(2.0, 0.81), True),
        (FirstRun(1.9, 0.9), False),  # less than twice the time
        (FirstRun(3.0, 0.8), False),  # processors did not work for 10 ms more than twice as long
    ],
)
def test_a_first_run_is_slow_where_time_and_processors_say_so(first: FirstRun, slow: bool) -> None:
    assert was_slow(first, FirstRun(1.0, 0.4)) is slow


def cached(time_s: float, first: FirstRun | None, first_was_slow: bool = False) -> bool:
    observed = dataclasses.replace(result(time_s).measurement, observed={"cpu_s": time_s})
    reference = dataclasses.replace(REFERENCE, first_was_slow=first_was_slow)
    return why_cached(ProgramResult(observed, first=first), reference) is not None


def test_a_cache_is_suspected_where_the_first_run_saved_less_than_half() -> None:
    """Later runs of 0.25 s save 0.75 s, so a first run below 0.625 s did so, too."""
    assert cached(0.25, FirstRun(0.7, 0.7))
    assert cached(0.25, FirstRun(0.625, 0.625))
    assert not cached(0.25, FirstRun(0.6, 0.6))
    assert not cached(0.25, FirstRun(1.0, 0.1)), "it waited on a busy machine"
    assert not cached(0.25, None)
    assert not cached(0.25, FirstRun(1.0, 1.0), first_was_slow=True)
    assert cached(0.5, FirstRun(1.5, 1.5)), "half the time of the default"
    assert not cached(0.51, FirstRun(1.5, 1.5)), "more than half"


# -------------------------------------------------------------------------------------- clocks


def test_a_time_is_doubted_from_twice_the_speed_of_the_default_on() -> None:
    steady = (1.25,) * 5
    assert "2 times the speed" in str(why_doubted(result(0.5, steady), REFERENCE))
    assert why_doubted(result(0.51, steady), REFERENCE) is None
    assert why_doubted(result(0.5), REFERENCE) is None, "its process is what is timed"


def test_a_clock_agrees_from_nine_tenths_of_the_claimed_seconds_on() -> None:
    """The program claims to save 0.75 s of the default's 1.25 s, 0.675 s of which are enough."""
    agrees, doubted = result(0.25, (0.57,) * 3), result(0.25, (0.58,) * 3)
    assert why_doubted(agrees, REFERENCE) is None
    assert why_doubted(doubted, REFERENCE) is not None
    measured = result(0.25).measurement
    assert is_proved(agrees, measured, REFERENCE)
    assert not is_proved(doubted, measured, REFERENCE)
    assert not is_proved(result(0.6, (0.3,)), measured, REFERENCE), "more than twice as long"


def test_two_milliseconds_are_below_what_a_clock_resolves() -> None:
    short = dataclasses.replace(REFERENCE, time_s=0.003)
    assert why_doubted(result(0.001, (2.0,)), short) is None
    assert why_doubted(result(0.0009, (2.0,)), short) is not None


@pytest.mark.parametrize(("claimed_s", "is_doubted"), [(0.72, False), (0.76, True)])
def test_a_clock_that_scatters_by_twice_the_claim_says_nothing(
    claimed_s: float, is_doubted: bool
) -> None:
    """Half of 1.4826 x a median distance of 1 s is 0.74 s."""
    scattered = (1.0, 2.0, 3.0, 4.0, 2.0 + 1e-9)
    assert statistics.median(abs(each - 2.0) for each in scattered) == 1
    found = why_doubted(result(1 - claimed_s, scattered), REFERENCE)
    assert (found is not None) is is_doubted


# ----------------------------------------------------------------------- runs beside the default


def test_ten_rounds_of_one_sign_contradict_and_nine_do_not() -> None:
    """One-sided p-values of 2 / 1024 and 2 / 512; the level is 0.0025."""
    assert paired(0.5, [0.0] * 10).why_contradicted() is not None
    assert paired(0.5, [0.0] * 9).why_contradicted() is None
    assert paired(0.5, [0.4] * 10).is_settled
    assert not paired(0.5, [0.4] * 9).is_settled


@pytest.mark.parametrize(
    ("saved_s", "is_contradicted", "is_settled"),
    [
        ([0.0] * 5 + [0.6] * 5, False, False),
        ([0.0] * 26 + [3.0] * 4, True, True),  # a burden of the default
        ([0.0] * 8, False, False),  # too few
    ],
)
def test_runs_that_disagree_settle_nothing_unless_nearly_all_agree(
    saved_s: Sequence[float], is_contradicted: bool, is_settled: bool
) -> None:
    found = paired(0.4, saved_s)
    assert (found.why_contradicted() is not None) is is_contradicted
    assert found.is_settled is is_settled


def test_half_of_the_claimed_seconds_is_the_limit() -> None:
    """A claim of 0.8 s is contradicted below 0.4 s."""
    assert paired(0.2, [0.39] * 10).why_contradicted() is not None
    assert paired(0.2, [0.41] * 10).why_contradicted() is None
    assert paired(0.2, [0.41] * 10).is_settled
    assert paired(0.2, [0.39]).why_unconfirmed() is not None
    assert paired(0.2, [0.41]).why_unconfirmed() is None


def test_speed_ups_below_twice_and_claims_below_two_milliseconds_are_not_contradicted() -> None:
    assert paired(0.5, [0.0] * 10).why_contradicted() is not None
    assert paired(0.51, [0.0] * 10).why_contradicted() is None
    short = paired(0.001, [0.0] * 10, default_s=0.003)
    assert (short.why_contradicted(), short.why_unconfirmed()) == (None, None)
    assert short.is_settled
    longer = paired(0.001, [0.0] * 10, default_s=0.0035)
    assert longer.why_contradicted() is not None
    assert longer.why_unconfirmed() is not None


def test_the_shortest_run_may_take_twice_the_measured_seconds() -> None:
    measured = result(0.25).measurement
    saved = [0.9] * 10
    assert why_unproved_paired(paired(0.5, saved), measured, REFERENCE) is None
    assert "took 0.51 s or more" in str(
        why_unproved_paired(paired(0.51, saved), measured, REFERENCE)
    )


def test_only_more_than_ten_times_the_speed_needs_a_confirming_clock() -> None:
    undecided = [0.0] * 4
    reference = dataclasses.replace(REFERENCE, time_s=1.0)
    assert why_unproved_paired(paired(0.1, undecided), result(0.1).measurement, reference) is None
    assert "only 0 s sooner" in str(
        why_unproved_paired(paired(0.09, undecided), result(0.09).measurement, reference)
    )


def test_rounds_of_several_sessions_are_joined_in_order() -> None:
    one, other = paired(0.5, [0.1]), paired(0.4, [0.2, 0.3])
    both = joined([one, other])
    assert both.time_s == (0.5, 0.4, 0.4)
    assert both.saved_s == pytest.approx((0.1, 0.2, 0.3))
    assert both.claimed_s == pytest.approx(0.6)
    assert both.speedup == pytest.approx(2.5)
