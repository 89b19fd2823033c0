"""Pure functions over measurements: sums, ties, finalists and the report across inputs."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis.inputs import choose_finalists, report_input
from harness.constraints.expression import Expression
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.results.measured import MeasuredConfigs

GIVEN = Input({"m": 64, "n": 64})
A, B, C, D = (Config({"BLOCK": size}) for size in (16, 64, 256, 1024))


def ok(config, time_s, stopped=StopReason.REPEATS):
    samples_s = tuple(time_s * factor for factor in (0.99, 0.995, 1, 1.005, 1.01))
    return Measurement(config, GIVEN, Outcome.OK, Timing(samples_s, stopped))


def in_turn(config, time_s):
    return ok(config, time_s, StopReason.INTERLEAVED)


def shared(config, origin):
    """A configuration with the machine code of another."""
    return dataclasses.replace(origin, config=config, shared_with=origin.config.digest)


def failed(config, outcome=Outcome.TIMEOUT):
    return Measurement(config, GIVEN, outcome, message="as it is")


def by_config(*measurements):
    return {m.config: m for m in measurements}


# --------------------------------------------------------------------------- one input


def test_outcomes_are_counted():
    measured = by_config(ok(A, 1.0), ok(B, 2.0), failed(C), failed(D, Outcome.CRASHED))
    for legal, is_exhausted in ((9, False), (4, True), (None, False)):
        report = report_input(GIVEN, measured, [], A, legal)
        assert report.outcomes == {Outcome.OK: 2, Outcome.TIMEOUT: 1, Outcome.CRASHED: 1}
        assert (report.measured, report.is_exhausted) == (4, is_exhausted)


def test_the_best_and_the_baseline_are_those_measured_interleaved():
    measured = by_config(ok(A, 0.9), ok(B, 1.0), ok(C, 4.0))
    finals = [in_turn(B, 1.1), in_turn(A, 1.2), in_turn(C, 4.4)]
    report = report_input(GIVEN, measured, finals, C, legal=None)
    assert report.best is finals[0]
    assert report.baseline is finals[2]
    assert report.speedup.value == pytest.approx(4.0)
    assert report.speedup.is_significant


def test_disturbed_rounds_of_the_default_are_no_speed_up():
    quiet, disturbed = (1.01, 1.03) * 10, (1.0, 1.02, 20.0) * 6 + (1.0, 1.02)
    for stretch, is_faster in ((1, False), (1.2, True)):
        slower = [stretch * sample_s for sample_s in disturbed]
        finals = [sampled(A, *quiet), sampled(C, *slower)]
        speedup = report_input(GIVEN, by_config(*finals), finals, C, legal=None).speedup
        assert speedup.is_clear
        assert speedup.is_faster == is_faster, "the median round is slower too"


def sampled(config, *samples_s):
    timing = Timing(samples_s, StopReason.INTERLEAVED)
    return Measurement(config, GIVEN, Outcome.OK, timing)


def test_the_last_of_two_finals_counts():
    finals = [ok(A, 1.0), ok(A, 2.0)]
    report = report_input(GIVEN, by_config(ok(A, 1.0)), finals, A, legal=None)
    assert report.best is finals[1]


def test_a_speed_up_needs_the_best_and_the_baseline():
    for finals in ([], [ok(A, 1.0)], [failed(C), ok(A, 1.0)], [failed(C), failed(A)]):
        report = report_input(GIVEN, by_config(ok(A, 1.0), ok(C, 2.0)), finals, C, legal=None)
        assert report.speedup is None
        # Where nothing was measured again, the search's best is reported, and marked.
        working = [measured for measured in finals if measured.timing]
        searched = not working
        assert report.best == (ok(A, 1.0) if searched else working[0])
        assert bool(report.note) is searched


def test_ties_are_those_that_the_search_could_not_tell_from_the_best():
    measured = by_config(ok(A, 1.0), ok(B, 1.001), ok(C, 1.002), ok(D, 1.5), failed(Config({})))
    report = report_input(GIVEN, measured, [in_turn(A, 1.0)], D, legal=None)
    assert report.within_noise == 2


def test_a_tie_of_equal_machine_code_counts_once_and_the_best_is_no_tie_of_its_own():
    one, other = ok(A, 1.0), ok(C, 1.001)
    measured = by_config(one, shared(B, one), other, shared(D, other))
    report = report_input(GIVEN, measured, [in_turn(B, 1.0)], D, legal=None)
    assert (report.within_noise, report.measured, report.shared) == (1, 4, 2)


def test_without_a_best_there_are_no_ties():
    assert report_input(GIVEN, by_config(failed(A)), [], A, legal=None).within_noise == 0
    alone = report_input(GIVEN, {}, [ok(A, 1.0)], A, legal=None)
    assert (alone.within_noise, alone.measured) == (0, 0)


def test_the_fastest_has_the_least_median_and_worked():
    measured = MeasuredConfigs.of(by_config(ok(B, 2.0), failed(C), ok(A, 1.0)))
    assert measured.fastest == ok(A, 1.0)
    assert MeasuredConfigs.of(by_config(failed(C))).fastest is None


def test_a_baseline_that_failed_is_kept_with_how_it_failed_last():
    measured = by_config(ok(A, 1.0), ok(C, 2.0), failed(D, Outcome.BUILD_FAILED))
    wrong = failed(C, Outcome.WRONG_RESULT)
    finals = [in_turn(A, 1.0), wrong]
    named = {"-O1": A, "-O2": D, "-O3": B}
    report = report_input(GIVEN, measured, finals, C, legal=None, baselines=named)
    assert report.failed_baselines == {"default": wrong, "-O2": measured[D]}
    assert set(report.baseline_speedups) == {"-O1"}


# ----------------------------------------------------------------------------- finalists


NONE = Config({"BLOCK": 0})  # a default that was not measured


def finalists(
    measured,
    default,
    count=None,
    interleaved=(),
):
    return choose_finalists({m.config: m for m in measured}, default, count, interleaved)


def test_finalists_are_the_two_fastest():
    measured = [ok(D, 4.0), ok(B, 2.0), failed(C), ok(A, 1.0)]
    assert finalists(measured, NONE) == [A, B]
    assert finalists(measured, NONE, 3) == [A, B, D]
    assert finalists(measured, NONE, 9) == [A, B, D]


def test_a_third_is_a_finalist_where_it_may_be_the_fastest():
    """Of those within noise of the fastest, the one with the fewest changes from the default and
    then the smallest values."""
    close = [ok(D, 1.0), ok(C, 1.002), ok(B, 1.003), ok(A, 1.004)]
    assert finalists(close, NONE) == [D, C, A]
    assert finalists(close, A) == [D, C, B], "the default is measured in any case"
    assert finalists([ok(A, 1.0), ok(B, 1.001), ok(C, 1.5)], NONE) == [A, B]


def test_of_equal_machine_code_the_default_is_the_finalist_or_else_what_was_measured():
    one, other = ok(A, 1.0), ok(C, 2.0)
    measured = [shared(B, one), other, one, shared(D, other)]
    assert finalists(measured, D) == [A, D]
    assert finalists(measured, B) == [B, C]
    # Where the origin is not there any more, one of those that share it stands for it.
    assert finalists([shared(B, one), shared(C, one)], D) == [B]


def test_what_won_interleaved_is_a_finalist_though_the_search_thought_little_of_it():
    measured = [ok(A, 1.0), ok(B, 2.0), ok(C, 3.0), ok(D, 4.0)]
    interleaved = [ok(B, 1.2), ok(D, 1.1), ok(C, 1.3), failed(A)]
    assert finalists(measured, NONE, None, interleaved) == [A, B, D]
    assert finalists(measured, NONE, 1, interleaved[:1]) == [A, B]
    assert finalists(measured[:3], NONE, None, interleaved) == [A, B], "no longer known"
    one = ok(C, 3.0)
    twins = [ok(A, 1.0), ok(B, 2.0), one, shared(D, one)]
    assert finalists(twins, NONE, None, interleaved) == [A, B, C], "D is the code of C"
    assert finalists(twins, D, None, interleaved) == [A, B, D]


def test_there_are_no_more_finalists_than_what_worked():
    assert finalists([failed(A), ok(B, 1.0)], NONE) == [B]
    assert finalists([failed(A)], NONE) == []
    assert finalists([], NONE) == []


def test_best_in_turn_is_never_slower_than_the_default():
    """The medians say otherwise than the mean ratio, which is what a speed-up is."""
    finals = [sampled(A, 2.0, 2.0, 2.0, 2.0), sampled(B, 1.9, 1.9, 1.9, 9.0)]
    assert report_input(GIVEN, by_config(*finals), finals, A, 2).best is finals[0]


def test_of_equal_machine_code_the_one_with_the_fewest_changes_is_the_winner():
    """It takes no measurement, in the search or in the finals; of equally many changes the smaller
    values win."""
    default, winner = (Config({"WORK": w, "F": 0, "G": 0}) for w in (16, 1))
    flagged, both, other = (
        Config({"WORK": 1, "F": f, "G": g}) for f, g in ((0, 1), (1, 1), (1, 0))
    )
    first = ok(both, 1.0)
    measured = by_config(
        ok(default, 9.0), first, shared(other, first), shared(winner, first), shared(flagged, first)
    )
    assert finalists(list(measured.values()), default) == [winner, default]
    searched = report_input(GIVEN, measured, (), default, legal=None)
    finals = [in_turn(both, 1.1), in_turn(default, 9.9)]
    judged = report_input(GIVEN, measured, finals, default, legal=None)
    for report in (searched, judged):
        assert report.recommended.config == winner
        assert report.finalist in (both, winner)
    assert (judged.best.timing, judged.best.shared_with) == (finals[0].timing, both.digest)
    assert judged.speedup.is_faster
    del measured[winner]
    of_flags = report_input(GIVEN, measured, finals, default, legal=None)
    assert of_flags.best.config == flagged, "G alone comes before F alone: F is at its default"


def test_a_configuration_of_equal_code_may_win_only_with_the_values_of_all_inputs():
    default, winner, shorter = (Config({"A": a, "B": b}) for a, b in ((0, 0), (1, 1), (0, 1)))
    first = ok(winner, 1.0)
    measured = by_config(ok(default, 9.0), first, shared(shorter, first))
    finals = [in_turn(winner, 1.0), in_turn(default, 9.0)]
    for same, best in (([Expression("A == 1")], winner), ([], shorter)):
        report = report_input(GIVEN, measured, finals, default, None, same=same)
        assert report.best.config == best
