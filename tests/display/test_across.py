"""What is told of choosing by input: from nothing at all to a tree with its verdict."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from harness.analysis.inputs import InputReport
from harness.core.records import Input, Measurement, Outcome, Timing
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.learners import Default, Fixed
from harness.dispatch.matrix import make_matrix
from harness.dispatch.single import single_of
from harness.dispatch.study import DISPATCHERS, HINDSIGHT, STATIC, Study
from harness.dispatch.text import shown_tree, tree_lines, why_nothing
from harness.dispatch.verdict import Slowdowns
from harness.display.recommendation import choice_sections, print_rule
from harness.models.columns import Column, ColumnKind, TunedRange
from tests.helpers.matrices import DEFAULT, LARGE, SMALL, shapes, table

WITHOUT_ENSEMBLE = (STATIC, DISPATCHERS["tree"])
"""An ensemble takes a second to judge."""


@pytest.fixture(scope="module")
def study():
    """A study of 16 inputs, on which choosing by input pays."""
    return Study.of(shapes(16), WITHOUT_ENSEMBLE)


def reports(count):
    """Inputs on which the default is best."""
    inputs = [Input({"n": n}) for n in range(count)]
    measured = [Measurement(DEFAULT, i, Outcome.OK, Timing((2.0, 2.0))) for i in inputs]
    return [InputReport(m.input, m, m, None, 0, {Outcome.OK: 1}, 1) for m in measured]


def message(matrix):
    """What is printed."""
    study = why_nothing(matrix) or Study.of(matrix, (Default(), *WITHOUT_ENSEMBLE))
    console = Console(file=io.StringIO(), width=120)
    for section in choice_sections(study, DEFAULT):
        section.print(console)
    heading, *lines, _ = console.file.getvalue().splitlines()
    assert heading == "Choice by input"
    return lines


def test_few_inputs_are_told_as_too_few():
    assert message(shapes(3)) == [
        "A choice by input can be learnt from 4 inputs, and judged with some 16; there are 3."
    ]
    assert message(shapes(0)) == [
        "No configuration worked on any input: there is nothing to choose from."
    ]


def test_where_only_the_default_was_measured_on_all_inputs_advice_says_so():
    """Each input has another winner."""
    rows = [[2.0, np.nan, 1.0], [2.0, 1.0, np.nan]] * 2
    only_default = np.array(rows)
    features = pd.DataFrame({"n": range(4)})
    matrix = make_matrix(features, (DEFAULT, SMALL, LARGE), only_default, default=0)
    single = single_of(replace(matrix, remedy="Do it."), reports(4), {}, DEFAULT)
    assert single is not None
    assert single.config == DEFAULT
    assert single.lacking == "Only one configuration was measured on all inputs: default. Do it."


def test_where_choosing_by_input_does_not_pay_only_a_sentence_says_so():
    (line,) = message(shapes(8, slow=1.0))
    assert line == (
        "Choosing by input (tree) is no faster than one configuration for all: 1.000x [1.000, "
        "1.000] on 8 held-out inputs, faster on 0, slower on 0, within noise. Tune some 16 inputs "
        "to know more."
    )


def test_the_best_static_choice_in_hindsight_has_a_row():
    """Holding an input out takes away the vote for the configuration that is the best on it."""
    features = pd.DataFrame({"m": [7] * 16})
    time_s = np.array([[1.0, 2.0, 9.0]] * 8 + [[2.0, 1.0, 9.0]] * 8)
    matrix = make_matrix(features, (SMALL, LARGE, DEFAULT), time_s, default=2)
    found = Study.of(matrix, WITHOUT_ENSEMBLE)
    assert list(found.slowdowns) == [STATIC.name, HINDSIGHT, "tree", "oracle"]
    assert found.slowdowns[STATIC.name].mean.value == pytest.approx(2.0)
    assert found.slowdowns[HINDSIGHT].mean.value == pytest.approx(math.sqrt(2))
    assert not found.gain("tree").is_better


def test_default_without_a_time_on_every_input_has_no_row():
    matrix = shapes(8)
    matrix.time_s[3, 0] = np.nan
    lines = [line.strip() for line in message(matrix)]
    assert "The default has no row: it was not measured on every input." in lines
    assert not any(line.startswith("default ") for line in lines)


def test_default_that_does_not_apply_everywhere_is_told_as_that():
    matrix = shapes(8)
    matrix.applies[:2, 0] = False
    text = " ".join(" ".join(message(matrix)).split())
    assert "2 of 8 inputs; there its row counts the best static configuration." in text


def test_the_dispatcher_that_is_shipped_is_shown_where_it_is_a_tree(few_folds, study):
    """Where it is none, the heading says that it chooses otherwise."""
    for best, end in (
        ("tree", "Which configuration for which input"),
        ("ensemble", "easier to read than the ensemble that harness dispatch writes"),
    ):
        other = replace(study)
        vars(other)["best"] = best
        name, heading = shown_tree(other)
        assert name == "tree"
        assert heading.endswith(end)


def test_inputs_that_share_no_configuration_are_told_as_that():
    """As after an interruption: nothing was measured across inputs."""
    features = pd.DataFrame({"m": range(5)})
    time_s = np.where(np.eye(5, dtype=bool), 1.0, np.nan)
    (line,) = message(table(time_s, features, default=0))
    assert line.endswith("and there are 0. Let the run finish.")


def test_progress_is_counted_and_published_models_are_not_chosen_among(study):
    steps = []
    Study.of(shapes(4), WITHOUT_ENSEMBLE, step=steps.append)
    assert set(steps) == {"best static", "tree"}
    more = {**study.slowdowns, "gadapt": study.slowdowns["tree"]}
    assert replace(study, slowdowns=more).dispatchers == study.dispatchers


def slowdowns(name, log):
    """Slowdowns of a way to choose on 16 inputs, all about alike."""
    logs = np.full(16, log) + np.linspace(0, 1e-3, 16)
    return Slowdowns(name, logs, np.arange(16), np.zeros(16, dtype=bool), np.ones(16))


@pytest.mark.parametrize("tree, best", [(0.05, "ensemble"), (0.005, "tree")])
def test_an_ensemble_is_shipped_where_it_gains_1_percent(tree, best):
    known = (STATIC.name, 0.5), (HINDSIGHT, 0.5), ("tree", tree), ("ensemble", 0.0)
    found = Study(shapes(16), {name: slowdowns(name, log) for name, log in known}, seed=0)
    assert found.best == best


def test_a_summary_prints_a_tree_that_fits_no_line(study, monkeypatch):
    console = Console(file=io.StringIO(), width=200)
    print_rule(console, study, DEFAULT)
    assert not console.file.getvalue(), "the first sentence says it"
    monkeypatch.setattr("harness.display.recommendation.rule", lambda *_: None)
    print_rule(console, study, DEFAULT)
    program = study.learnt("tree").program(study.matrix.candidates)
    whole = [f"    {line}" for line in tree_lines(program, DEFAULT)]
    lines = console.file.getvalue().splitlines()
    assert lines == ["Which configuration for which input:", *whole, ""]


@dataclass(frozen=True)
class First:
    """Chooses the first candidate on every input."""

    name: str = "tree"

    def fit(self, matrix, seed):
        return Fixed((0, 1))


def test_a_dispatcher_gains_nothing_over_a_static_choice_that_held_out_inputs_mislead():
    """Six inputs want one configuration, six the other, and no feature says which. Whichever input
    is held out, the others vote for the configuration that is slow on it."""
    random = np.random.default_rng(0)
    features = pd.DataFrame({"m": random.integers(1, 10**6, 12)})
    wants = random.permutation(12) < 6
    time_s = np.where(np.column_stack([wants, ~wants]), 1.0, 1.1)
    found = Study.of(make_matrix(features, (SMALL, LARGE), time_s, default=0), [STATIC, First()])
    assert found.slowdowns[STATIC.name].near == 0
    assert found.slowdowns["tree"].over(found.slowdowns[STATIC.name]).is_better
    assert not found.gain("tree").is_better
    assert "slower on 0, within noise" in found.sentence("tree")


def test_a_tree_that_follows_noise_is_not_told_as_a_gain(few_folds):
    random = np.random.default_rng(0)
    features = pd.DataFrame({"m": random.integers(1, 10**6, 12)})
    time_s = np.exp(0.2 * random.standard_normal((12, 4)))
    study = Study.of(table(time_s, features, default=0), WITHOUT_ENSEMBLE)
    assert "is faster than" not in study.sentence("tree")


@pytest.mark.parametrize(
    "column, threshold, low, high",
    [
        (Column(ColumnKind.TWOS, ("n",)), 1.41421, "n is odd", "n is even"),
        (Column(ColumnKind.TWOS, ("n",)), 4.0, "n is not divisible by 8", "n is divisible by 8"),
        (Column(ColumnKind.TWOS, ("pad",)), 1.5, "pad is odd or 0", "pad is even and not 0"),
        (Column(ColumnKind.TWOS, ("pad",)), 0.5, "pad is 0", "pad is not 0"),
        (Column(ColumnKind.EQUALS, ("kind",), "dense"), 0.5, "kind is not dense", "kind is dense"),
        (Column(ColumnKind.RATIO, ("m", "n")), 0.75, "m / n <= 0.75", "m / n > 0.75"),
    ],
)
def test_conditions_read_as_spoken(column, threshold, low, high):
    program = DispatchProgram(
        columns=(column,),
        tuned=(TunedRange("n", 1, 64), TunedRange("pad", 0, 3)),
        portfolio=(SMALL, LARGE),
        choice=Choice.of_trees([Split(0, threshold, Leaf((0.0, 1.0)), Leaf((1.0, 0.0)))], False),
        guards=((), ()),
    )
    lines = list(tree_lines(program, DEFAULT))
    assert (lines[0], lines[2]) == (f"if {low}:", f"else:   # {high}")
