"""The worst, default and predicted configuration of each input, as printed and as drawn."""

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.core.records import Input
from harness.dispatch.learners import Default, Static
from harness.dispatch.study import (
    CHOICES,
    DISPATCHERS,
    TREE,
    InputSlowdowns,
    Study,
    geometric_means,
    slowdowns_by_input,
)
from harness.display.sections import by_input_section
from harness.report.findings import Findings
from tests.helpers.commands import analyse as main
from tests.helpers.replays import FormulaMeasurer, results_of, small_space

SPACE = small_space("BLOCK: {values: [16, 64, 256], default: 256}", 8, 16, 32, 64, 128, 256)


def time_s(problem, config):
    """Up to 32 BLOCK=16 is best, from 64 on 64; the other of the two takes twice, 256 three times
    as long."""
    best = 16 if problem["n"] < 50 else 64
    return 1e-3 * (3 if config["BLOCK"] == 256 else 1 if config["BLOCK"] == best else 2)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("by_input"), SPACE, FormulaMeasurer(time_s))


def test_slowdowns_are_over_the_best_and_predictions_are_held_out(results):
    wanted = [Default(), Static(), DISPATCHERS[TREE]]
    found = Study.of(Findings(results).matrix, wanted)
    rows = slowdowns_by_input(results, found)
    assert [row.problem["n"] for row in rows] == [8, 16, 32, 64, 128, 256]
    assert [row.worst for row in rows] == pytest.approx([3] * 6, rel=1e-3)
    assert [row.default for row in rows] == pytest.approx([3] * 6, rel=1e-3)
    assert [row.predicted for row in rows] == pytest.approx(found.slowdowns[TREE].slowdown.tolist())
    # A tree of all inputs makes no mistake; one without the input does, at the ends of the range.
    everything = found.learnt(TREE).indices(found.matrix.features, found.matrix.applies)
    assert (found.matrix.slowdown[np.arange(6), everything] == 1).all()
    assert max(row.predicted for row in rows) > 1
    static = slowdowns_by_input(results, found, Static().name)
    assert [row.predicted for row in static] == found.slowdowns[Static().name].slowdown.tolist()
    unknown = replace(found, matrix=replace(found.matrix, default=None))
    assert all(math.isnan(row.default) for row in slowdowns_by_input(results, unknown))


def test_failures_and_what_does_not_apply_have_no_number():
    one = InputSlowdowns(Input({"n": 8}), 4.0, math.nan, math.inf)
    other = InputSlowdowns(Input({"n": 9}), 1.0, 2.0, 1.0)
    table = by_input_section([one, other], "tree").table
    assert table is not None
    assert table.rows == [
        ("n=8", "4.00x", "-", "failed"),
        ("n=9", "1.00x", "2.00x", "1.00x"),
        ("geometric mean", "2.00x", "-", "-"),
    ]
    assert geometric_means([other]) == (1.0, 2.0, 1.0)


def test_the_name_of_what_predicts_must_be_one(few_folds, results, capsys):
    (database,) = results.databases
    assert main([database, "--by-input", "gadapt"]) == 0
    assert "Predicted: what `gadapt` chooses, learnt without the input." in capsys.readouterr().out
    assert main([database, "--by-input", "--json"]) == 2
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--by-input", database])
    assert (
        f"must be {', '.join(CHOICES)}, got {database!r}; to use the default, put --by-input last"
        in capsys.readouterr().err
    )
