"""The benchmark of transfer between inputs: groups, figures and orders."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.transfer_figures import (
    ALONE,
    TAUGHT,
    Group,
    Tuned,
    as_json,
    groups,
    mean,
    median,
    ratio,
    since,
)
from benchmarks.transfer_runs import DataSet, drawn
from benchmarks.transfer_tables import ratio_line, table, write_figures, write_searches
from harness.core.errors import UsageError
from harness.core.records import Input
from harness.recordings.read import RecordingFile

INF = math.inf


def tuned(*orders: list[list[float]]) -> Tuned:
    return Tuned(np.array(orders))


def test_groups_contain_every_input_once_and_are_small_at_first() -> None:
    for inputs in range(1, 130):
        held = [n for part in groups(inputs) for n in range(part.first, part.last + 1)]
        assert held == list(range(1, inputs + 1))
    assert list(map(str, groups(30))) == ["1", "2", "3", "4-5", "6-10", "11-20", "21-30"]


def test_group_takes_its_inputs_from_every_order() -> None:
    found = tuned([[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]])
    assert found.of(Group(2, 3)).slowdowns[:, :, 0].tolist() == [[2.0, 3.0], [5.0, 6.0]]


def test_tests_to_near_are_one_beyond_the_budget_if_never_near() -> None:
    found = tuned([[2.0, 1.051, 1.05], [1.0, 1.0, 1.0], [INF, 2.0, 1.06]])
    assert found.tests_to_near.tolist() == [[3, 1, 4]]


def test_fraction_is_zero_until_a_configuration_works() -> None:
    found = tuned([[INF, 2.0, 1.25]])
    assert [found.fractions(tests).item() for tests in (1, 2, 3)] == [0.0, 0.5, 0.8]


def test_intervals_contain_their_estimate_and_are_points_for_equal_values() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(5, 1, (10, 8))
    for found in (mean(values), median(values)):
        assert found.low < found.value < found.high
        assert found.high - found.low < 2
    same = mean(np.full((3, 2), 4.0))
    assert (same.low, same.value, same.high) == (4.0, 4.0, 4.0)


def test_median_of_searches_that_never_came_near_is_beyond_the_budget() -> None:
    found = median(tuned([[2.0, 2.0]], [[2.0, 2.0]], [[1.0, 1.0]]).tests_to_near)
    assert (found.value, found.high) == (3.0, 3.0)


def test_ratio_pairs_the_searches_of_one_input() -> None:
    """Inputs differ tenfold, but the ratio is a half on each of them, without any spread."""
    alone = np.array([[1.0, 10.0, 4.0], [8.0, 2.0, 6.0]])
    found = ratio(alone / 2, alone)
    assert (found.low, found.value, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_gain_counts_only_the_later_inputs() -> None:
    slow, fast = [2.0, 2.0, 2.0, 1.0], [1.0] * 4
    compared = {ALONE: tuned([slow] * 12), TAUGHT: tuned([slow] * 9 + [fast] * 3)}
    later = since(compared, 10)
    assert later is not None
    assert later.value == pytest.approx(0.25)
    assert since(compared, 13) is None
    assert ratio_line(compared).startswith(
        "from input 10 on, taught searches need 0.25 (0.25-0.25)"
    )


def test_json_figures_are_by_groups() -> None:
    found = as_json(tuned([[1.08, 1.0], [1.0, 1.0]]), groups(2))
    names = ("median_tests_to_5pct", "mean_tests_to_5pct", "mean_tests_to_10pct", "at_1")
    assert found == {
        "1": dict(zip(names, (2.0, 2.0, 1.0, 0.9259), strict=True)),
        "2": dict(zip(names, (1.0, 1.0, 1.0, 1.0), strict=True)),
    }


def test_files_have_a_row_for_each_search_and_each_figure(tmp_path: Path) -> None:
    found = {"set": {ALONE: tuned([[2.0, 1.0]] * 3), TAUGHT: tuned([[1.0, 1.0]] * 3)}}
    write_searches(tmp_path / "searches.csv", found)
    write_figures(tmp_path / "figures.csv", found)
    with (tmp_path / "searches.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["searched"], r["input"], r["tests_to_5pct"], r["at_1"]) for r in rows][:4] == [
        ("alone", "1", "2", "0.500000"),
        ("alone", "2", "2", "0.500000"),
        ("alone", "3", "2", "0.500000"),
        ("taught", "1", "1", "1.000000"),
    ]
    with (tmp_path / "figures.csv").open() as file:
        figures = {(r["searched"], r["inputs"], r["figure"]): r for r in csv.DictReader(file)}
    assert len(figures) == 2 * 3 * 4
    assert figures["alone", "2", "mean_tests_to_5pct"]["value"] == "2"
    assert table(found["set"]).row_count == 6


# ------------------------------------------------------------------------------ orders


def test_order_is_random_repeatable_and_has_each_input_once() -> None:
    inputs = [Input({"n": n}) for n in range(20)]
    orders = [drawn(inputs, 8, seed) for seed in range(5)]
    assert orders == [drawn(inputs, 8, seed) for seed in range(5)]
    assert len(set(orders)) == 5
    assert all(len(set(order)) == 8 for order in orders)
    assert set(drawn(inputs, 50, 0)) == set(inputs)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Write two devices; one input has one configuration, and on another all failed."""
    rows = [
        ("x", 1, 16, 2.0),
        ("x", 1, 32, 1.0),
        ("x", 2, 16, 1.0),
        ("x", 3, 16, ""),
        ("x", 3, 32, ""),
        ("y", 1, 16, 1.0),
        ("y", 1, 32, ""),
    ]
    path = tmp_path / "small.csv"
    path.write_text("device,n,BX,time\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    path.with_suffix(".mapping.yaml").write_text(
        "parameters: [BX]\nfeatures: [device, n]\ntimes: {columns: [time], unit: ms}\n"
    )
    return path


def test_inputs_that_cannot_be_searched_are_left_out(recording: Path) -> None:
    _, spec = DataSet(RecordingFile(recording)).read()
    assert [dict(problem) for problem in spec.inputs] == [
        {"device": "x", "n": 1},
        {"device": "y", "n": 1},
    ]


def test_condition_can_compare_words(recording: Path) -> None:
    data = DataSet(RecordingFile(recording), where="device == 'y'")
    assert list(data.described()) == [
        "small, device == 'y': 1 inputs of 2 to 2 configurations, in the median 2"
    ]
    with pytest.raises(UsageError, match="none of its 1 inputs has two configurations"):
        DataSet(RecordingFile(recording), where="n == 2").read()
