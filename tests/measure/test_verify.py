"""What is a right result, for every dtype a kernel may write."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from harness.measure.device.verify import (
    FILLS,
    Tolerance,
    describe_wrong,
    is_comparable,
    size_of,
    verify,
)
from tests.helpers.compilers import open_opencl

WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
NUMBERS = ["bool", *WHOLE, "float16", "float32", "float64", "complex64", "complex128"]
EXACT = Tolerance(0.0, 0.0)


def compare(found, expected, tolerance=None):
    """The worst element of one output, None if all are right."""
    return verify({"y": found}, {"y": expected}, tolerance or Tolerance())


def array(dtype):
    numbers = np.arange(24).reshape(2, 3, 4)
    return numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype)


def test_one_wrong_element_is_found_where_it_is():
    for dtype in NUMBERS:
        found = array(dtype)
        assert compare(array(dtype), found, EXACT) is None
        found[1, 2, 0] = not found[1, 2, 0] if dtype == "bool" else 99
        worst = compare(found, array(dtype))
        assert (worst.index, worst.wrong_count, worst.count) == ((1, 2, 0), 1, 24)
        assert (worst.found, worst.expected) == ((1, 0) if dtype == "bool" else (99, 20))
        assert compare(np.array(0, dtype), np.array(1, dtype)).index == (), "it has no dimensions"


def test_no_number_is_right_where_two_fills_were_left():
    for dtype in [*NUMBERS, "bfloat16"]:
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        left = [fill.array((1,), kind) for fill in FILLS]
        for expected in (*left, np.zeros(1, kind), np.ones(1, kind), np.full(1, -1).astype(kind)):
            assert sum(compare(content, expected) is None for content in left) <= 1
        if kind.kind not in "iub":
            finite = [bool(np.isfinite(content[0])) for content in left]
            assert finite == [True, False, True]


def test_wrong_elements_are_not_taken_for_unwritten_ones():
    (fill, *_), expected = FILLS, np.arange(256, dtype=np.uint8)
    worst = compare(expected[::-1].copy(), expected)
    assert describe_wrong(worst, expected[::-1].copy(), expected, fill) == str(worst)


def test_what_is_no_number_is_worse_than_any_error():
    for bad in [np.nan, np.inf, -np.inf]:
        found = np.ones(5, np.float32)
        found[1], found[3] = 1e30, bad
        worst = compare(found, np.ones(5))
        assert (worst.index, worst.wrong_count) == ((3,), 2)
        assert str(bad) in str(worst)


def test_worst_is_the_worst_of_all_outputs():
    right = np.zeros(2)
    found = {"a": np.array([0.0, 1.0]), "b": np.array([5.0, 0.0]), "c": right}
    worst = verify(found, dict.fromkeys("abc", right), Tolerance())
    assert (worst.argument, worst.index) == ("b", (0,))


def test_bfloat16_is_compared_with_its_own_tolerance():
    dtype = np.dtype(ml_dtypes.bfloat16)
    expected = np.linspace(0.5, 100, 64, dtype=np.float32).reshape(8, 8)
    assert is_comparable(dtype)
    assert compare(expected.astype(dtype), expected) is None
    assert compare((expected * 1.02).astype(dtype), expected) is None
    assert compare((expected * 1.05).astype(dtype), expected).index is not None
    device = open_opencl()
    once, doubled = expected.astype(dtype), (2 * expected).astype(dtype)
    device.bind({"x": once})
    np.testing.assert_array_equal(device.arguments.read("x"), once)
    device.arguments.restore({"x": doubled})
    np.testing.assert_array_equal(device.arguments.read("x"), doubled)


def test_zeros_are_wrong_for_numbers_of_every_size():
    for dtype in ["float16", "float32", "float64", "complex64", "complex128"]:
        for size in [1e-7, 1.0, 1e4]:
            expected = size * np.linspace(0.1, 1, 64)
            found = np.zeros(64, dtype)
            worst = compare(found, expected)
            assert worst.wrong_count == 64
            assert worst.tolerance < 0.02 * size
            assert f"+- {worst.tolerance:.3g}" in str(worst)
            assert compare(found, expected, Tolerance(atol=size)) is None


def test_small_numbers_may_have_the_rounding_errors_of_the_others():
    expected, error = np.array([3e4, -3e4, 1e-3]), np.array([0, 0, 0.1])
    assert compare(expected + error, expected, Tolerance(rtol=0.0, atol=0.01)) is not None
    assert compare((expected + error).astype(np.float32), expected) is None
    assert compare((expected + 5 * error).astype(np.float32), expected) is not None


def test_size_is_the_root_mean_square_of_the_finite_numbers():
    for unit in [1e-300, 1.0, 1e300]:
        assert size_of(unit * np.array([1.0, -7.0])) == pytest.approx(5 * unit)
        assert size_of(np.array([unit, np.nan, np.inf])) == pytest.approx(unit)
        assert size_of(np.full(100_000, 3j * unit)) == pytest.approx(3 * unit)
        assert size_of(np.append(np.zeros(100_000), np.full(100_000, 2.0))) == pytest.approx(2**0.5)


def test_size_of_numbers_that_have_none_is_1():
    for values in [[], [0.0, 0.0], [np.nan, np.inf]]:
        assert size_of(np.array(values)) == 1.0
    assert size_of(np.array(True)) == 1.0


def wide(*values):
    return np.array(values, np.uint64)


def test_element_is_right_where_its_type_allows_the_difference():
    cases = [
        (1001, 1000, Tolerance(rtol=0.5), False),  # for rounding alone
        (1001, 1000, Tolerance(atol=1.0), True),
        (1002, 1000, Tolerance(atol=1.0), False),
        (True, False, Tolerance(1.0, 9.0), False),
        (wide(2**63), 2**63 - 1, None, False),
        (wide(2**62), 2**62, None, True),
        (1e308, -1e308, None, False),  # whose difference overflows
        (1.0, np.inf, Tolerance(0.5, 0.5), False),
        (wide(255).astype(np.uint8).view(np.bool_), True, None, False),
    ]
    for found, expected, tolerance, is_right in cases:
        worst = compare(np.array(found).reshape(1), np.array([expected]), tolerance)
        assert (worst is None) is is_right
        if worst is not None:
            assert (worst.index, worst.wrong_count) == ((0,), 1)
            assert np.isfinite(expected) or worst.tolerance == 0


def test_integers_beyond_2_to_the_53_are_compared_exactly():
    for dtype in ["int64", "uint64"]:
        expected = np.array([2**53, 2**62], dtype)
        found = expected + np.array([1, 0], dtype)
        worst = compare(found, expected)
        assert (worst.index, worst.found, worst.expected) == ((0,), 2**53 + 1, 2**53)
        assert "9007199254740993, expected 9007199254740992" in str(worst)


def test_complex_element_is_reported_by_its_farther_part():
    expected = np.array([1 + 2j, 3 + 4j], np.complex64)
    worst = compare(expected + np.array([0, 1j], np.complex64), expected)
    assert (worst.argument, worst.index) == ("y.imag", (1,))
    assert (worst.found, worst.expected) == (5, 4)
    assert compare(np.array([complex(np.nan, 9)]), np.array([0j])).argument == "y.real"
    assert compare(np.array([1 + 2j]), np.array([1.0])).argument == "y.imag"


def test_element_of_a_longer_reference_is_a_number_of_python():
    for dtype in ["float32", "complex64"]:
        for longer in [np.longdouble, np.clongdouble]:
            worst = compare(np.array([2], dtype), np.array([3], longer))
            assert {type(worst.found), type(worst.expected), type(worst.tolerance)} == {float}


def test_element_beyond_the_first_chunk_is_found():
    found = np.zeros((3, 100_000), np.float32)
    found[1, 7], found[2, 99_999] = 1.0, 3.0
    worst = compare(found, np.zeros_like(found))
    assert (worst.index, worst.wrong_count) == ((2, 99_999), 2)


def test_millions_of_elements_are_compared_without_copies_of_them():
    found = np.ones(4_000_000, np.float32)
    expected = np.ones(4_000_000)
    tracemalloc.start()
    try:
        assert compare(found, expected) is None
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < found.nbytes / 4


def test_every_format_has_its_own_tolerances():
    cases = [
        ("float16", (2**-8, 2**-11)),
        ("float32", (1e-5, 1e-5)),
        ("complex128", (1e-13, 1e-13)),
        ("int32", (0.0, 0.0)),
        ("clongdouble", (0.0, 0.0)),  # it has no tolerance of its own
    ]
    for dtype, tolerances in cases:
        assert Tolerance().of(np.dtype(dtype), 1.0) == tolerances


def test_the_worst_is_farthest_beyond_both_tolerances():
    cases = [
        ([101.0, 3.0], [100.0, 1.0], 0.0, 0.5),  # beyond by 0.5 and 1.5
        ([103.0, 3.5], [100.0, 1.0], 0.01, 1.0),  # by 1 and 1.49
        ([3.0, 103.5], [1.0, 100.0], 0.01, 1.0),  # by 0.99 and 1.5
    ]
    for found, expected, rtol, atol in cases:
        worst = compare(np.array(found), np.array(expected), Tolerance(rtol, atol))
        assert (worst.index, worst.wrong_count) == ((1,), 2)
        assert worst.tolerance == pytest.approx(atol + rtol * expected[1])


def test_of_equally_wrong_elements_and_outputs_the_first_is_the_worst():
    found = np.zeros(100_000, np.float32)
    found[[5, 99_999]] = 2.0
    expected = dict.fromkeys("ab", np.zeros_like(found))
    worst = verify(dict.fromkeys("ab", found), expected, Tolerance())
    assert (worst.argument, worst.index, worst.wrong_count) == ("a", (5,), 2)
