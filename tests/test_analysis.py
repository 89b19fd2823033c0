"""Pure functions over measurements: sums, ties, finalists and the report across inputs."""

from __future__ import annotations

import dataclasses
import math

import pytest

from harness.analysis import (
    choose_finalists,
    cross_input_report,
    fastest,
    one_of_each_code,
    report_input,
    verdict,
)
from harness.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.tree import Judgement

GIVEN = Input({"m": 64, "n": 64})
A, B, C, D = (Config({"BLOCK": size}) for size in (16, 64, 256, 1024))


def ok(config: Config, time_s: float, spread: float = 0.01, in_turn: bool = False) -> Measurement:
    samples = tuple(time_s * (1 + spread * step) for step in (-1, -0.5, 0, 0.5, 1))
    stopped = StopReason.INTERLEAVED if in_turn else StopReason.REPEATS
    return Measurement(config, GIVEN, Outcome.OK, Timing(samples, stopped))


def shared(config: Config, origin: Measurement) -> Measurement:
    """A configuration with the machine code of another."""
    return dataclasses.replace(origin, config=config, shared_with=origin.config.digest)


def failed(config: Config, outcome: Outcome = Outcome.TIMEOUT) -> Measurement:
    return Measurement(config, GIVEN, outcome, message="as it is")


def by_config(*measurements: Measurement) -> dict[Config, Measurement]:
    return {m.config: m for m in measurements}


# --------------------------------------------------------------------------- one input


def test_outcomes_are_counted() -> None:
    measured = by_config(ok(A, 1.0), ok(B, 2.0), failed(C), failed(D, Outcome.CRASHED))
    report = report_input(GIVEN, measured, [], A, legal=9)
    assert report.outcomes == {Outcome.OK: 2, Outcome.TIMEOUT: 1, Outcome.CRASHED: 1}
    assert report.measured == 4
    assert not report.is_exhausted
    assert report_input(GIVEN, measured, [], A, legal=4).is_exhausted
    assert not report_input(GIVEN, measured, [], A, legal=None).is_exhausted


def test_the_best_and_the_baseline_are_those_measured_in_turn() -> None:
    measured = by_config(ok(A, 0.9), ok(B, 1.0), ok(C, 4.0))
    finals = [ok(B, 1.1, in_turn=True), ok(A, 1.2, in_turn=True), ok(C, 4.4, in_turn=True)]
    report = report_input(GIVEN, measured, finals, C, legal=None)
    assert report.best is finals[0]
    assert report.baseline is finals[2]
    assert report.speedup is not None
    assert report.speedup.value == pytest.approx(4.0)
    assert report.speedup.is_clear


def test_the_last_of_two_finals_counts() -> None:
    finals = [ok(A, 1.0), ok(A, 2.0)]
    report = report_input(GIVEN, by_config(ok(A, 1.0)), finals, A, legal=None)
    assert report.best is finals[1]


@pytest.mark.parametrize(
    "finals", [[], [ok(A, 1.0)], [failed(C), ok(A, 1.0)], [failed(C), failed(A)]]
)
def test_a_speed_up_needs_the_best_and_the_baseline(finals: list[Measurement]) -> None:
    report = report_input(GIVEN, by_config(ok(A, 1.0), ok(C, 2.0)), finals, C, legal=None)
    assert report.speedup is None
    # Where nothing was measured again, the search's best is told, and called that.
    searched = fastest(finals) is None
    assert report.best == (ok(A, 1.0) if searched else fastest(finals))
    assert bool(report.note) is searched


def test_ties_are_those_that_the_search_could_not_tell_from_the_best() -> None:
    measured = by_config(ok(A, 1.0), ok(B, 1.001), ok(C, 1.002), ok(D, 1.5), failed(Config({})))
    report = report_input(GIVEN, measured, [ok(A, 1.0, in_turn=True)], D, legal=None)
    assert report.within_noise == 2


def test_a_tie_of_equal_machine_code_counts_once_and_the_best_is_no_tie_of_its_own() -> None:
    one, other = ok(A, 1.0), ok(C, 1.001)
    measured = by_config(one, shared(B, one), other, shared(D, other))
    report = report_input(GIVEN, measured, [ok(B, 1.0, in_turn=True)], D, legal=None)
    assert (report.within_noise, report.measured, report.shared) == (1, 4, 2)


def test_without_a_best_there_are_no_ties() -> None:
    assert report_input(GIVEN, by_config(failed(A)), [], A, legal=None).within_noise == 0
    alone = report_input(GIVEN, {}, [ok(A, 1.0)], A, legal=None)
    assert (alone.within_noise, alone.measured) == (0, 0)


def test_the_fastest_has_the_least_median_and_worked() -> None:
    assert fastest([ok(B, 2.0), failed(C), ok(A, 1.0)]) == ok(A, 1.0)
    assert fastest([failed(C)]) is None
    assert fastest([]) is None


# ----------------------------------------------------------------------------- finalists


def test_finalists_are_the_two_fastest() -> None:
    measured = [ok(D, 4.0), ok(B, 2.0), failed(C), ok(A, 1.0)]
    assert choose_finalists(measured) == [A, B]


def test_a_third_is_a_finalist_where_it_may_be_the_fastest() -> None:
    close = [ok(A, 1.0), ok(B, 1.002), ok(C, 1.003), ok(D, 1.004)]
    assert choose_finalists(close) == [A, B, C]
    assert choose_finalists([ok(A, 1.0), ok(B, 1.001), ok(C, 1.5)]) == [A, B]


def test_of_equal_machine_code_the_default_is_the_finalist_or_else_what_was_measured() -> None:
    one, other = ok(A, 1.0), ok(C, 2.0)
    measured = [shared(B, one), other, one, shared(D, other)]
    assert choose_finalists(one_of_each_code(measured, preferred=D)) == [A, D]
    assert choose_finalists(one_of_each_code(measured, preferred=B)) == [B, C]
    # Where the origin is not there any more, one of those that share it stands for it.
    assert choose_finalists(one_of_each_code([shared(B, one), shared(C, one)], D)) == [B]


def test_there_are_no_more_finalists_than_what_worked() -> None:
    assert choose_finalists([failed(A), ok(B, 1.0)]) == [B]
    assert choose_finalists([failed(A)]) == []
    assert choose_finalists([]) == []


# -------------------------------------------------------------------------- across inputs


def shapes(count: int) -> list[Input]:
    return [Input({"m": 2**e, "n": 2 ** (count - e)}) for e in range(count)]


def test_few_inputs_are_told_as_too_few() -> None:
    found = {given: {A: 1.0, B: 2.0} for given in shapes(3)}
    assert list(cross_input_report(found, B)) == [
        "No tree over inputs: it needs 4 inputs with results, and there are 3. "
        "Add inputs to the space."
    ]
    assert "there is nothing to choose from" in next(cross_input_report({}, B))


def test_inputs_on_which_nothing_worked_do_not_count() -> None:
    found = {given: {A: 1.0, B: 2.0} for given in shapes(5)}
    found |= {given: {A: math.inf} for given in shapes(5)[:2]}
    assert "there are 3" in next(cross_input_report(found, B))


def test_one_configuration_that_is_best_everywhere_is_told_as_that() -> None:
    found = {given: {A: 1.0, B: 2.0} for given in shapes(6)}
    assert list(cross_input_report(found, B)) == [
        "One configuration is best on every input: BLOCK=16"
    ]


def test_inputs_without_numbers_in_common_have_no_tree() -> None:
    found = {Input({"kind": kind}): {A: 1.0, B: 0.5 if kind > "b" else 2.0} for kind in "abcd"}
    (line,) = cross_input_report(found, B)
    assert line.startswith("No tree over inputs: they have no number in common")


def test_the_report_holds_the_tree_its_judgement_and_a_verdict() -> None:
    found = {
        given: {A: 1.0 if place < 6 else 3.0, B: 3.0 if place < 6 else 1.0, C: 2.0}
        for place, given in enumerate(shapes(12))
    }
    lines = list(cross_input_report(found, C))
    assert lines[0].startswith("Which configuration for which input")
    assert sum("BLOCK=16 " in line for line in lines) == 1
    assert sum("BLOCK=64 " in line for line in lines) == 1
    rows = {line.split("  ")[2].strip(): line.split()[-2:] for line in lines if "    " in line[:4]}
    assert rows["default"] == ["2.00", "2.00"]
    tree = [line for line in lines if "tree, on inputs it has not seen" in line]
    assert float(tree[0].split()[-2]) < 1.5
    assert lines[-1].startswith("Choosing by input beats one configuration for all: ")


def test_a_default_that_failed_is_told_as_failed() -> None:
    found = {
        given: {A: 1.0 if place < 6 else 3.0, B: 3.0 if place < 6 else 1.0}
        for place, given in enumerate(shapes(12))
    }
    (row,) = [line for line in cross_input_report(found, D) if line.strip().startswith("default")]
    assert row.split() == ["default", "failed", "failed"]


def test_the_verdict_says_whether_choosing_by_input_is_worth_it() -> None:
    good, fair = Judgement("t", (1.0, 1.1, 1.0)), Judgement("s", (1.5, 1.6, 1.5))
    broken = Judgement("s", (1.0, math.inf, 1.0))
    assert verdict(good, fair).startswith(
        "Choosing by input beats one configuration for all: 1.48x"
    )
    assert verdict(fair, good).startswith("Choosing by input loses to one configuration for all (")
    assert "one configuration for all fails" in verdict(good, broken)
    assert "fails on some unseen input" in verdict(broken, good)


def test_a_gain_that_a_few_inputs_do_not_bear_out_is_within_noise() -> None:
    tree, single = Judgement("t", (1.0, 2.0, 1.0, 1.9)), Judgement("s", (2.2, 1.0, 1.9, 1.0))
    assert tree.mean < single.mean
    told = verdict(tree, single)
    assert "within noise" in told
    assert "beats" not in told


def test_best_in_turn_is_never_slower_than_the_default() -> None:
    """The medians say otherwise than the mean ratio, which is what a speed-up is."""
    steady = Timing((2.0, 2.0, 2.0, 2.0), StopReason.INTERLEAVED)
    unsteady = Timing((1.9, 1.9, 1.9, 9.0), StopReason.INTERLEAVED)
    default, other = Config({"A": 1}), Config({"A": 2})
    given = Input({"n": 1})
    finals = [
        Measurement(config, given, Outcome.OK, timing)
        for config, timing in ((default, steady), (other, unsteady))
    ]
    report = report_input(given, {m.config: m for m in finals}, finals, default, 2)
    assert report.best is not None
    assert report.best.config == default
