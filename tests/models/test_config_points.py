"""Configurations and inputs as points: what is near, what is far, and which axes tell of what."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.core.records import Input
from harness.models.columns import InputScale, nearest_first
from harness.models.config_points import ConfigEncoder
from harness.space_file import Parameter


def parameter(name, kind, values):
    return Parameter(name, kind, values, "source", values[0])


def all_points(*parameters):
    """Every configuration's point, in lexicographic order of the places."""
    extents = [range(len(p.values)) for p in parameters]
    places = np.array(list(itertools.product(*extents)), dtype=np.int32)
    return ConfigEncoder(parameters).points(places)


def axes_of(encoder):
    """How many axes each feature has."""
    return np.bincount(encoder.groups, minlength=len(encoder.relative_lengths)).tolist()


# -------------------------------------------------------------------- each parameter


def test_a_scale_stands_by_the_place_of_its_value_whatever_the_distance_of_the_values():
    assert all_points(parameter("A", "ordered", (0.5, 0.6, 700.5))).tolist() == [[0], [0.5], [1]]
    powers = all_points(parameter("A", "power_of_two", (16, 32, 64, 128)))
    assert powers.ravel().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_a_logarithmic_scale_stands_by_its_logarithm():
    points = all_points(parameter("A", "log_integer", range(1, 65)))
    assert points[[0, 1, 7, 63], 0].tolist() == pytest.approx([0, 1 / 6, 1 / 2, 1])


def test_words_are_all_equally_far_apart():
    for role, values in (
        ("source", ("row", "column", "tiled", None)),
        ("flag", (None, "fast", "precise")),
        ("flag", (None, 3, 1)),  # in no order, so that they are words
        ("flag", (None, 1, True)),
    ):
        points = all_points(Parameter("A", "enum", values, role, values[0]))
        distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
        np.testing.assert_allclose(distances, 1 - np.eye(len(values)))


def test_two_values_of_any_kind_are_the_ends_of_one_axis():
    for values in ((False, True), ("row", "column"), (None, 16)):
        kind = "boolean" if values[0] is False else "enum"
        assert all_points(parameter("A", kind, values)).tolist() == [[0], [1]]


def test_what_never_varies_has_no_axis():
    constants = [parameter("A", "ordered", (7,)), parameter("C", "enum", ("x",))]
    assert all_points(*constants, parameter("B", "boolean", (False, True))).tolist() == [[0], [1]]
    encoder = ConfigEncoder(constants)
    assert encoder.points(np.zeros((3, 2), dtype=np.int32)).shape == (3, 0)
    assert (len(encoder.groups), len(encoder.relative_lengths)) == (0, 0)


def test_an_enumeration_of_thousands_of_words_has_a_thousand_axes():
    words = [f"word {number}" for number in range(3000)]
    switch = parameter("B", "boolean", (False, True))
    encoder = ConfigEncoder([parameter("A", "enum", words), switch])
    assert axes_of(encoder) == [1000, 1]
    first, other = encoder.points(np.array([[0, 0], [2999, 0]], dtype=np.int32))
    assert np.linalg.norm(first - other) == pytest.approx(1)


# ---------------------------------------------------------------------- divisibility


def test_how_often_two_divides_a_value_is_an_axis_of_its_own():
    for number in (int, float):
        points = all_points(parameter("A", "ordered", tuple(map(number, (1, 24, 32, 48, 63)))))
        assert points[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
        assert points[:, 1].tolist() == pytest.approx([0, 3 / 5, 5 / 5, 4 / 5, 0])


def test_divisibility_is_left_out_where_useless():
    for kind, values in (
        ("ordered", (1, 2, 4, 8)),  # the same as the place
        ("ordered", (3, 4)),  # the same as the one axis
        ("ordered", (0, 1, 2, 3)),
        ("ordered", (-4, 2, 3)),
        ("ordered", (1.5, 2.0, 3.0)),
        ("enum", (1, 2, "three")),
        ("enum", (48, 32, 16)),  # in no order, so that they are words
    ):
        assert len(ConfigEncoder([parameter("A", kind, values)]).relative_lengths) == 1


# ----------------------------------------------------------------------------- pairs


def test_product_and_ratio_of_two_sizes_are_axes_by_their_logarithms():
    """They share one length scale, which is expected to be longer."""
    sizes = [parameter("A", "power_of_two", (1, 2, 4)), parameter("B", "power_of_two", (8, 16, 32))]
    points, encoder, steps = all_points(*sizes), ConfigEncoder(sizes), np.arange(3)
    assert points.shape == (9, 4)
    product, ratio = points[:, 2:].T.reshape(2, 3, 3)
    np.testing.assert_allclose(product, (steps[:, None] + steps) / 4)
    np.testing.assert_allclose(ratio, (steps[:, None] - steps + 2) / 4)
    assert encoder.groups.tolist() == [0, 1, 2, 2]
    one, other, pair = encoder.relative_lengths
    assert one == other == 1 < pair


def test_all_pairs_have_axes_until_they_would_bury_all_else():
    """Switches and words are no sizes."""
    for sizes, pairs in ((2, 1), (12, 66), (13, 0)):
        others = [parameter("C", "boolean", (False, True)), parameter("D", "enum", ("x", "y", "z"))]
        numbers = [parameter(f"P{k}", "power_of_two", (1, 2, 4)) for k in range(sizes)]
        assert axes_of(ConfigEncoder([*numbers, *others])) == [1] * sizes + [1, 3] + [2] * pairs


# ------------------------------------------------------------------------ everything

KINDS = [
    parameter("UNSORTED", "enum", (16, 48, 24, 1)),
    parameter("WORDS", "enum", ("a", "b", "c")),
    parameter("SCALE", "ordered", (1, 3, 1000)),
    parameter("RANGE", "integer", range(2, 9, 3)),
    parameter("LOG", "log_integer", range(3, 12)),
    parameter("FLAG", "boolean", (False, True)),
]


def test_different_configurations_are_different_points_and_axes_are_from_0_to_1():
    points, encoder = all_points(*KINDS), ConfigEncoder(KINDS)
    assert (points.min(), points.max()) == (0, 1)
    assert len(np.unique(points, axis=0)) == len(points)
    assert len(encoder.groups) == points.shape[1], "every axis is of a feature"
    assert set(encoder.groups.tolist()) == set(range(len(encoder.relative_lengths)))


def test_a_range_of_a_billion_values_is_never_listed():
    wide = [parameter(name, "integer", range(1, 10**9 + 1)) for name in "AB"]
    encoder = ConfigEncoder([*wide, parameter("C", "log_integer", range(1, 2**40 + 1))])
    places = np.array([[0, 0, 0], [10**9 - 1, 10**9 - 1, 2**40 - 1]])
    assert encoder.points(places)[:, :3].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_flag_with_numbers_has_their_order_and_absent_is_far_from_all():
    flag = Parameter("maxrregcount", "enum", (None, *range(16, 129, 16)), "flag", None)
    encoder = ConfigEncoder([flag])
    assert axes_of(encoder) == [2]
    points = all_points(flag)
    distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    assert distances[1, 1:].tolist() == pytest.approx([n / 7 for n in range(8)])
    assert (distances[0, 1:] >= 1).all()


# ----------------------------------------------------------------------------------------- inputs


def test_every_feature_counts_alike_whatever_its_range_and_its_words():
    rows = [(1, 1, "a"), (2**20, 2, "b"), (1, 2, "c"), (2**20, 1, "a")]
    inputs = [Input({"m": m, "n": n, "kind": kind}) for m, n, kind in rows]
    points = InputScale.rows(inputs)
    assert points.shape == (4, 2 + 3)
    np.testing.assert_allclose(points[:, :2].std(axis=0), 1)
    first, second, third, fourth = words = points[:, 2:]
    assert words.var(axis=0).sum() == pytest.approx(1)
    assert (first == fourth).all()
    assert np.linalg.norm(first - second) == pytest.approx(np.linalg.norm(second - third))


def test_what_is_the_same_for_all_has_no_column():
    inputs = [Input({"n": n, "k": 7, "kind": "a"}) for n in (1, 2, 3)]
    assert InputScale.rows(inputs).shape == (3, 1)
    assert InputScale.rows([Input({})]).shape == (1, 0)


def test_no_logarithm_and_no_number_need_exist():
    for values in ((0, 1, 2), (-5, 0, 3), (0.5, 2**40, 1), (1, "wide", True)):
        rows = InputScale.rows([Input({"n": value}) for value in values])
        assert np.isfinite(rows).all()
        assert len(np.unique(rows, axis=0)) >= 2


def test_inputs_are_near_by_their_ratio_and_equally_near_ones_keep_their_order():
    others = [Input({"n": n}) for n in (1, 100, 4096, 300)]
    assert [o["n"] for o in nearest_first(Input({"n": 200}), others)] == [300, 100, 4096, 1]
    same = [Input({"n": 16}), Input({"n": 4})]
    assert nearest_first(Input({"n": 8}), same) == same
    assert nearest_first(Input({"n": 8}), []) == []


def test_inputs_as_near_keep_their_order_whatever_the_columns_that_differ():
    """The distances of these two differ in the last bit."""
    rows = [(64, 0, None), (64, 5, "a"), (1000, 2.5, "a"), (2899, 5, "b"), (4527, 2.5, None)]
    others = [Input({"n": n, "m": m, "w": w}) for n, m, w in rows]
    nearest = nearest_first(Input({"n": "a", "m": 3, "w": "new"}), others)
    assert nearest[:2] == [others[2], others[4]]
