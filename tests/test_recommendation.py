"""The first sentence of a summary: what to use where, and how much faster it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.dispatch.learners import Default
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.nodes import Leaf, Node, Split
from harness.dispatch.program import DispatchProgram, TreeChoice
from harness.dispatch.study import DISPATCHERS, STATIC, study
from harness.dispatch.tree_text import rule
from harness.display.recommendation import recommendation
from harness.models.encoding.columns import Column, ColumnKind, TunedRange
from harness.stats.timing import TimeRatio

DEFAULT, SMALL, LARGE = (Config({"BLOCK": block}) for block in (256, 16, 64))
LEARNERS = [Default(), STATIC, DISPATCHERS["tree"]]
CLEAR, CHANCE = TimeRatio(2.0, 1.9, 2.1, 20), TimeRatio(1.01, 0.97, 1.06, 20)


def report(n: int, speedup: TimeRatio | None, config: Config = SMALL) -> InputReport:
    problem = Input({"n": n})
    best, baseline = (
        Measurement(c, problem, Outcome.OK, Timing((1.0, 1.1))) for c in (config, DEFAULT)
    )
    return InputReport(problem, best, baseline, speedup, 0, {Outcome.OK: 2}, 2)


def matrix(small_s: float, large_s: float) -> Matrix:
    """Ten of 16 inputs want SMALL, the others LARGE; the default takes 2 s on all."""
    features = pd.DataFrame({"n": [2**e for e in range(16)]})
    first = np.arange(16) < 10
    time_s = np.column_stack(
        [np.full(16, 2.0), np.where(first, 1.0, small_s), np.where(first, large_s, 1.0)]
    )
    return make_matrix(features, (DEFAULT, SMALL, LARGE), time_s, default=0)


def program(root: Node, *, whole: bool) -> DispatchProgram:
    return DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("n",)), Column(ColumnKind.RATIO, ("n", "m"))),
        tuned=(TunedRange("n", 1, 64, whole=whole), TunedRange("m", 1, 64, whole=whole)),
        portfolio=(SMALL, LARGE, DEFAULT),
        static=0,
        choice=TreeChoice(root),
        guards=((), (), ()),
    )


def test_a_choice_that_pays_is_a_rule_with_both_speed_ups() -> None:
    found = study(matrix(3.0, 3.0), LEARNERS)
    text = recommendation([report(1, CLEAR)], found, DEFAULT)
    assert text is not None
    assert text.startswith("Use BLOCK=16 where n <= 700, else BLOCK=64: ")
    assert "] over the default, " in text
    assert text.endswith("] over one configuration for all, on 16 held-out inputs.")


def test_where_choosing_does_not_pay_one_configuration_is_named() -> None:
    found = study(matrix(1.0, 1.5), LEARNERS)
    text = recommendation([report(1, CLEAR)], found, DEFAULT)
    assert text is not None
    assert text.startswith("Use BLOCK=16 on every input: 2.000x")
    assert text.endswith("on 16 held-out inputs. Choosing by input is not significantly faster.")


def test_where_nothing_is_certain_on_held_out_inputs_the_table_counts() -> None:
    slower = matrix(3.0, 3.0)
    only = make_matrix(
        slower.features,
        (DEFAULT, SMALL),
        np.column_stack([np.ones(16), np.full(16, 2.0)]),
        default=0,
    )
    found = study(only, LEARNERS)
    assert recommendation([report(1, CHANCE)], found, DEFAULT) == (
        "Keep the default: no configuration is significantly faster."
    )
    assert recommendation([report(1, CLEAR), report(2, CHANCE)], found, DEFAULT) == (
        "Use the configurations of the table: 2.00x over the default on 1 of 2 inputs. What to use "
        "on other inputs is not certain: that needs more inputs."
    )


def test_a_configuration_that_none_beats_anywhere_is_named() -> None:
    reports = [report(1, CLEAR), report(2, CLEAR, LARGE)]
    assert recommendation(reports, None, DEFAULT, LARGE) == (
        "Use BLOCK=64 on every input: no other configuration is faster beyond noise."
    )
    assert "of the table" in str(recommendation(reports, None, DEFAULT, DEFAULT))
    chance = [report(1, CHANCE), report(2, CHANCE)]
    assert str(recommendation(chance, None, DEFAULT, LARGE)).startswith("Keep the default")


def test_what_is_illegal_on_some_inputs_is_not_named_for_all() -> None:
    applies = np.ones((16, 3), dtype=bool)
    applies[::5, 1] = False
    known = matrix(1.0, 1.5)
    found = study(
        make_matrix(known.features, known.candidates, known.time_s, applies=applies, default=0),
        LEARNERS,
    )
    text = recommendation([report(1, CLEAR)], found, DEFAULT)
    assert text is not None
    assert text.startswith("Use BLOCK=16 on every input (BLOCK=64 where that is illegal): ")


@pytest.mark.parametrize(
    ("reports", "text"),
    [
        ([report(1, CLEAR)], "Use BLOCK=16: 2.00x [1.90, 2.10] over the default."),
        ([report(1, CHANCE)], "Keep the default: no configuration is significantly faster."),
        (
            [report(1, CHANCE), report(2, CHANCE)],
            "Keep the default: no configuration is significantly faster on any input.",
        ),
        (
            [report(1, CLEAR), report(2, TimeRatio(3.0, 2.9, 3.1, 20))],
            "Use BLOCK=16: 2.00x to 3.00x over the default on 2 of 2 inputs.",
        ),
        (
            [report(1, CLEAR), report(2, CHANCE)],
            "Use the configurations of the table: 2.00x over the default on 1 of 2 inputs.",
        ),
        ([report(1, None)], "Use BLOCK=16. No speed-up over the default was measured."),
    ],
)
def test_a_few_inputs_are_told_by_what_was_measured(reports: list[InputReport], text: str) -> None:
    assert recommendation(reports, None, DEFAULT) == text


def test_nothing_is_recommended_where_nothing_worked() -> None:
    nothing = InputReport(Input({"n": 1}), None, None, None, 0, {Outcome.CRASHED: 4}, 100)
    assert recommendation([nothing], None, DEFAULT) is None


def test_a_rule_names_whole_numbers_as_a_person_does() -> None:
    root = Split(0, 139.025, Leaf(order=(0,)), Split(1, 0.75, Leaf(order=(1,)), Leaf(order=(2,))))
    assert rule(program(root, whole=True), DEFAULT) == (
        "BLOCK=16 where n <= 139, else BLOCK=64 where n / m <= 0.75, else default"
    )
    fractions = rule(program(root, whole=False), DEFAULT)
    assert fractions is not None
    assert "n <= 139.025" in fractions


def test_a_rule_that_nests_is_no_line() -> None:
    pair = Split(1, 2.0, Leaf(order=(0,)), Leaf(order=(1,)))
    assert rule(program(Split(0, 8.0, pair, pair), whole=True), DEFAULT) is None
    same = Split(1, 2.0, Leaf(order=(0,)), Leaf(order=(0,)))
    assert rule(program(same, whole=True), DEFAULT) == "BLOCK=16"
