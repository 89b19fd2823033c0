"""Least squares with clusters: against slow formulas, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.core.arrays import Array
from harness.stats.clustered_regression import Fit, degrees_of_freedom, demean, fit


def test_the_degrees_of_freedom_are_bell_and_mccaffreys() -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(12), [20, 9, 6, *[2] * 9])
    columns = demean(rng.standard_normal((53, 2)), np.zeros(53, dtype=np.intp))
    found = fit(columns, rng.standard_normal(53), np.zeros(53, dtype=np.intp), clusters)
    whole = np.column_stack([np.ones(53), columns])
    weights = whole @ np.linalg.inv(whole.T @ whole)
    left = np.eye(53) - weights @ whole.T
    blocks = (clusters[:, None] == clusters).astype(float)
    for column, freedom in enumerate(found.freedom, start=1):
        adjusted = np.linalg.solve(np.eye(53) - blocks * (weights @ whole.T), weights[:, column])
        sums = (blocks[:, np.unique(clusters, return_index=True)[1]] * adjusted[:, None]).T @ left
        spread = sums @ blocks @ sums.T
        assert freedom == pytest.approx(np.trace(spread) ** 2 / np.trace(spread @ spread))


def test_the_covariance_is_what_leaving_out_each_cluster_gives() -> None:
    rng = np.random.default_rng(0)
    columns, outputs = rng.standard_normal((60, 4)), rng.standard_normal(60)
    groups = rng.integers(0, 3, 60)
    clusters = rng.permutation(np.repeat(np.arange(24), [3] * 12 + [2] * 12))
    centred = demean(np.column_stack([columns, outputs]), groups)
    found = fit(centred[:, :4], centred[:, 4], groups, clusters)
    whole = np.column_stack([columns, np.eye(3)[groups]])  # each group has a mean of its own
    changes = [
        np.linalg.lstsq(whole[clusters != one], outputs[clusters != one], rcond=None)[0][:4]
        - found.coefficients
        for one in range(24)
    ]
    assert found.covariance == pytest.approx(np.array(changes).T @ np.array(changes))


def test_least_squares_marks_what_the_rows_do_not_determine() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, (60, 3)).astype(float)
    columns = demean(np.column_stack([columns, columns[:, 0]]), np.zeros(60, dtype=np.intp))
    found = fit(columns, columns[:, 1] * 2.0, np.zeros(60, dtype=np.intp), np.arange(60))
    assert found.estimable.tolist() == [False, True, True, False]
    assert found.coefficients[1] == pytest.approx(2.0)


def fitted(coefficients: list[float], variances: list[float], freedom: list[float]) -> Fit:
    count = len(coefficients)
    return Fit(
        np.array(coefficients),
        np.diag(variances),
        np.arange(count) != count - 1,
        np.array(freedom),
        np.zeros(3),
        np.eye(count),
    )


def test_p_values_are_students_where_there_is_an_error() -> None:
    """The third and fourth are known exactly, the last cannot be estimated."""
    found = fitted([3.0, -0.2, 2.0, 0.0, 7.0], [4.0, 0.01, 0.0, -1e-20, 1.0], [2, 9, 5, 5, 5])
    assert found.errors.tolist() == pytest.approx([2.0, 0.1, 0.0, 0.0, 1.0])
    wanted = [2 * stats.t(2).sf(1.5), 2 * stats.t(9).sf(2.0), 0.0, 1.0, 1.0]
    assert found.p_values() == pytest.approx(wanted)
    widths = found.half_widths()
    assert widths[:3] == pytest.approx([2 * 4.302653, 0.1 * 2.262157, 0.0], rel=1e-6)


def test_the_mean_of_each_group_is_subtracted() -> None:
    values = np.array([[1.0, 10.0], [3.0, 30.0], [7.0, 70.0]])
    found = demean(values, np.array([2, 2, 0]))
    assert found.tolist() == [[-1, -10], [1, 10], [0, 0]]


@pytest.mark.parametrize(
    ("clusters", "groups", "freedom"),
    [
        ([0, 1, 2, 3], [0, 0, 0, 0], 3),  # a mean of all
        ([0, 0, 1, 1], [0, 0, 0, 0], 1),  # clusters count, not rows
        ([0, 1, 0, 1], [0, 0, 1, 1], 1),  # every group has both clusters
        ([0, 1, 2, 3], [0, 0, 1, 1], 2),  # a mean each
        ([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2], 3),
    ],
)
def test_a_cluster_is_a_row_and_groups_of_their_own_cost_one_each(
    clusters: list[int], groups: list[int], freedom: int
) -> None:
    assert degrees_of_freedom(np.array(clusters), np.array(groups)) == freedom


def regressed(columns: Array, outputs: Array, clusters: Array) -> Fit:
    groups = np.zeros(len(outputs), dtype=np.intp)
    centred = demean(np.column_stack([columns, outputs]), groups)
    return fit(centred[:, :-1], centred[:, -1], groups, clusters)


def test_one_column_by_hand() -> None:
    """x is -2 .. 2 and y = x^2 in clusters of their own: the slope is 0, residuals y - 2; HC3
    divides each by 1 - 1/5 - x^2 / 10."""
    x = np.arange(-2.0, 3.0)
    found = regressed(x[:, None], 3 * x + x**2, np.arange(5))
    left_out = (x**2 - 2) / (1 - 1 / 5 - x**2 / 10)
    assert found.coefficients == pytest.approx([3.0])
    assert found.residuals == pytest.approx(x**2 - 2)
    assert found.inverse == pytest.approx(np.array([[0.1]]))
    assert found.covariance == pytest.approx(np.array([[((x * left_out) ** 2).sum() / 100]]))
    assert found.estimable.all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_what_is_determined_does_not_depend_on_the_unit(scale: float) -> None:
    rng = np.random.default_rng(1)
    columns = rng.integers(0, 2, (60, 3)).astype(float)
    columns = scale * np.column_stack([columns, columns[:, 0]])
    found = regressed(columns, rng.standard_normal(60), np.arange(60) // 2)
    assert found.estimable.tolist() == [False, True, True, False]


def test_a_column_that_one_cluster_alone_varies_is_not_determined() -> None:
    rng = np.random.default_rng(2)
    columns = rng.standard_normal((40, 2))
    clusters = np.arange(40) // 4
    columns[:, 1] = np.where(clusters == 3, columns[:, 1], 0.5)
    found = regressed(columns, rng.standard_normal(40), clusters)
    assert found.estimable.tolist() == [True, False]
    assert found.p_values()[1] == 1.0


def test_clusters_need_not_be_numbered_without_gaps() -> None:
    rng = np.random.default_rng(3)
    columns, outputs = rng.standard_normal((40, 2)), rng.standard_normal(40)
    dense = regressed(columns, outputs, np.arange(40) // 4)
    gaps = regressed(columns, outputs, np.arange(40) // 4 * 3 + 2)
    assert gaps.covariance == pytest.approx(dense.covariance)
    assert gaps.freedom == pytest.approx(dense.freedom)


def test_many_equal_clusters_give_as_many_degrees_of_freedom() -> None:
    """Of a balanced design of 200 clusters the number of clusters, less one a coefficient."""
    clusters = np.repeat(np.arange(200), 2)
    columns = np.where(clusters % 2, 1.0, -1.0)[:, None]
    outputs = np.random.default_rng(4).standard_normal(400)
    assert regressed(columns, outputs, clusters).freedom == pytest.approx([198])
    with_constant = np.hstack([columns, np.ones((400, 1))])
    found = regressed(with_constant, outputs, clusters)
    assert (found.estimable.tolist(), found.freedom[1]) == ([True, False], 198)
    unequal = columns * np.where(clusters < 70, 1.0, 1e-3)[:, None]
    assert regressed(unequal, outputs, clusters).freedom == pytest.approx([70], rel=0.01)


def test_freedom_is_between_one_and_what_the_rows_leave() -> None:
    rng = np.random.default_rng(5)
    clusters = np.array([0, 0, 1, 1, 2, 2])
    few = regressed(rng.standard_normal((6, 2)), rng.standard_normal(6), clusters)
    assert few.freedom.tolist() == [1.0, 1.0]
