"""Memory around the arguments of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measure.backends.guard_zones import (
    ZONE_BYTES,
    StrayWrite,
    stray_write,
    zone_content,
)

FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
PAIR = np.dtype([("a", np.float32), ("b", np.int32), ("c", np.int32)])


@pytest.mark.parametrize(
    "dtype", [*FLOATS, "longdouble", "int8", "uint16", "int32", "int64", "bool", PAIR]
)
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("elements", [1, 2, 63])
def test_farthest_write_is_counted_in_elements(
    dtype: np.dtype[np.void], behind: bool, elements: int
) -> None:
    dtype = np.dtype(dtype)
    zone = zone_content("y", dtype).copy()
    assert zone.shape == (ZONE_BYTES,)
    assert stray_write("y", dtype, zone, behind) is None
    size = elements * dtype.itemsize
    near = zone[:size] if behind else zone[-size:]
    near[:] = 0
    assert stray_write("y", dtype, zone, behind) == StrayWrite("y", elements, behind)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_second_floating_point_number_of_a_zone_is_nan(dtype: str) -> None:
    parts = zone_content("y", np.dtype(dtype)).view(np.empty(0, dtype).real.dtype)
    assert np.isnan(parts[::2]).all()
    assert (parts[1::2] >= 1000).all()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_content_of_one_zone_is_not_that_of_another(dtype: str) -> None:
    one, other = (zone_content(name, np.dtype(dtype)).view("u4") for name in "xy")
    assert (one != other).all()


def test_integers_of_a_zone_are_no_index() -> None:
    assert (zone_content("y", np.dtype("int32")).view("int32") < -1000).all()


@pytest.mark.parametrize(
    ("stray", "text"),
    [
        (StrayWrite("y", 1, True), "y (1 element behind its end)"),
        (StrayWrite("y", 2000, False), "y (2,000 elements before its start)"),
    ],
)
def test_stray_write_names_its_argument_and_distance(stray: StrayWrite, text: str) -> None:
    assert str(stray) == text
