"""The first sentence of a summary: what to use where, and how much faster it is."""

import dataclasses

import pytest

from harness.analysis.inputs import InputReport
from harness.core.records import Input, Measurement, Outcome, Timing
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.learners import Default
from harness.dispatch.single import Single
from harness.dispatch.study import DISPATCHERS, STATIC, Study
from harness.dispatch.text import rule
from harness.display.inputs import input_cells
from harness.display.recommendation import recommendation
from harness.models.columns import Column, ColumnKind, TunedRange
from harness.stats.timing import TimeRatio
from tests.helpers.matrices import DEFAULT, LARGE, SMALL, shapes

LEARNERS = [Default(), STATIC, DISPATCHERS["tree"]]
CLEAR = TimeRatio(2.0, 1.9, 2.1, 20)


def report(n, speedup, config=SMALL):
    best, baseline = (
        Measurement(measured, Input({"n": n}), Outcome.OK, Timing((1.0, 1.1)))
        for measured in (config, DEFAULT)
    )
    return InputReport(best.input, best, baseline, speedup, 0, {Outcome.OK: 2}, 2)


def program(root, *, whole):
    return DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("n",)), Column(ColumnKind.RATIO, ("n", "m"))),
        tuned=(TunedRange("n", 1, 64, whole=whole), TunedRange("m", 1, 64, whole=whole)),
        portfolio=(SMALL, LARGE, DEFAULT),
        choice=Choice.of_trees([root], predicts_times=False),
        guards=((), (), ()),
    )


MEAN = TimeRatio(1.98, 1.60, 2.40, 4)
LOSS = TimeRatio(1.35, 1.30, 1.41, 20)


def four(config=SMALL):
    return [report(n, CLEAR, config) for n in range(4)]


def test_a_choice_that_pays_is_a_rule_with_both_speed_ups():
    found = Study.of(shapes(16), LEARNERS)
    text = recommendation([report(1, CLEAR)], found, Single(SMALL), DEFAULT)
    assert text is not None
    assert text.startswith("Use BLOCK=16 where m <= 700, else BLOCK=64: ")
    assert "] over the default, " in text
    assert text.endswith("] over one configuration for all, on 16 held-out inputs.")


def test_where_choosing_does_not_pay_one_configuration_is_named(few_folds):
    found = Study.of(shapes(16, slow=1.0), LEARNERS)
    lost = Single(SMALL, speedup=MEAN, loss=(report(3, CLEAR, LARGE), LOSS), inputs=4)
    assert recommendation(four(), found, lost, DEFAULT) == (
        "Use BLOCK=16 on every input: 1.98x [1.60, 2.40] over the default. On n=3, BLOCK=64 is "
        "1.35x [1.30, 1.41] as fast. Choosing by input is not significantly faster on 4 held-out "
        "inputs; tune some 16 to know more."
    )
    assert str(recommendation(four(), None, lost, DEFAULT)).endswith(
        "Tune some 16 inputs to see if choosing by input pays; there are 4."
    )


@pytest.mark.parametrize(
    "single, text",
    [
        (Single(SMALL, speedup=MEAN, inputs=4),
         "Use BLOCK=16 on every input: 1.98x [1.60, 2.40] over the default; nothing better was "
         "found (all 2 configurations tried on each input)."),
        (Single(SMALL, speedup=MEAN, inputs=3),
         "Use BLOCK=16 on every input: 1.98x [1.60, 2.40] over the default, on 3 of 4 inputs."),
        (Single(SMALL, (LARGE,), speedup=MEAN, inputs=4),
         "Use BLOCK=16 on every input (BLOCK=64 where that is illegal): 1.98x [1.60, 2.40] over "
         "the default; nothing better was found (all 2 configurations tried on each "
         "input)."),
        (Single(DEFAULT, inputs=4),
         "Keep the default on every input: nothing faster was found (all 2 configurations tried on "
         "each input)."),
        (Single(SMALL), "Use BLOCK=16 on every input. Its speed-up over the default is not known."),
        (Single(DEFAULT, lacking="Only one configuration was measured on all inputs: default."),
         "Use BLOCK=16: 2.00x to 2.00x over the default on 4 of 4 inputs. Only one "
         "configuration was measured on all inputs: default."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_to_use_on_several_inputs(single, text):
    assert recommendation(four(), None, single, DEFAULT) == text


def test_one_input_has_its_own_sentence():
    faster = Single(SMALL, speedup=TimeRatio(2.0, 1.9, 2.1, 1), inputs=1)
    for single, text in (
        (faster, "Use BLOCK=16: 2.00x [1.90, 2.10] over the default."),
        (
            Single(DEFAULT, inputs=1),
            "Keep the default: nothing faster was found (all 2 configurations tried).",
        ),
    ):
        assert recommendation([report(1, CLEAR)], None, single, DEFAULT) == text


def test_an_input_on_which_nothing_works_is_named():
    nothing = InputReport(Input({"n": 9}), None, None, None, 0, {Outcome.CRASHED: 4}, 100)
    single = Single(DEFAULT, inputs=1)
    assert recommendation([report(1, CLEAR), nothing], None, single, DEFAULT) == (
        "Keep the default: nothing faster was found (all 2 configurations tried). Nothing worked "
        "on n=9."
    )


def tried(n, count, legal):
    return dataclasses.replace(report(n, None, DEFAULT), outcomes={Outcome.OK: count}, legal=legal)


NOT_MEASURED = InputReport(Input({"n": 9}), None, None, None, 0, {}, None)


@pytest.mark.parametrize(
    "reports, text",
    [
        ([tried(1, 1, 162)], "Keep the default: only the default was tried."),
        ([tried(1, 12, 162)],
         "Keep the default: nothing faster was found (12 of 162 configurations tried)."),
        ([tried(1, 12, None)],
         "Keep the default: nothing faster was found (12 configurations tried)."),
        ([tried(1, 12, 10**30)],
         "Keep the default: nothing faster was found (12 of 1.0e+30 configurations tried)."),
        ([tried(1, 1, 162), NOT_MEASURED, NOT_MEASURED],
         "Keep the default: only the default was tried. 2 of 3 inputs were not measured."),
        ([tried(1, 10, 162), tried(2, 12, 170)],
         "Keep the default on every input: nothing faster was found (10 to 12 of 162 to 170 "
         "configurations tried on each input)."),
        ([tried(1, 1, 162), tried(2, 12, None)],
         "Keep the default on every input: nothing faster was found (1 to 12 configurations tried "
         "on each input; only the default was tried on 1 of 2 inputs)."),
        ([tried(1, 1, None), tried(2, 1, None)],
         "Keep the default on every input: only the default was tried."),
    ],
)  # fmt: skip
def test_a_verdict_says_what_it_rests_on(reports, text):
    assert recommendation(reports, None, Single(DEFAULT, inputs=2), DEFAULT) == text


def test_the_table_says_where_nothing_but_the_default_was_tried():
    cells = [list(input_cells(one, DEFAULT))[-1] for one in (tried(1, 1, 5), tried(2, 3, 5))]
    assert cells == ["only the default was tried", "default is best"]


def test_nothing_is_recommended_where_nothing_worked():
    nothing = InputReport(Input({"n": 1}), None, None, None, 0, {Outcome.CRASHED: 4}, 100)
    assert recommendation([nothing], None, None, DEFAULT) is None


def test_a_rule_names_whole_numbers_as_a_person_does():
    root = Split(
        0,
        139.025,
        Leaf((0.0, 1.0, 1.0)),
        Split(1, 0.75, Leaf((1.0, 0.0, 1.0)), Leaf((1.0, 1.0, 0.0))),
    )
    assert rule(program(root, whole=True), DEFAULT) == (
        "BLOCK=16 where n <= 139, else BLOCK=64 where n / m <= 0.75, else default"
    )
    fractions = rule(program(root, whole=False), DEFAULT)
    assert fractions is not None
    assert "n <= 139.025" in fractions


def test_a_rule_that_nests_is_no_line():
    pair = Split(1, 2.0, Leaf((0.0, 1.0, 1.0)), Leaf((1.0, 0.0, 1.0)))
    assert rule(program(Split(0, 8.0, pair, pair), whole=True), DEFAULT) is None
    same = Split(1, 2.0, Leaf((0.0, 1.0, 1.0)), Leaf((0.0, 1.0, 1.0)))
    assert rule(program(same, whole=True), DEFAULT) == "BLOCK=16"
