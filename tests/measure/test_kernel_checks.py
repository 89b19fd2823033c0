"""What is found out about a wrong output, beside its worst element."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measure.kernel_checks import adds_to_fill

WANT = np.arange(1, 201)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("before", [97, -3])
def test_output_that_is_added_to_is_told_from_other_wrong_ones(dtype: str, before: int) -> None:
    fill = np.full(200, before).astype(dtype)
    want = WANT.astype(dtype)
    assert adds_to_fill(fill + want, want, fill, 1e-3)
    assert not adds_to_fill(fill - want, want, fill, 1e-3)
    assert not adds_to_fill(fill, want, fill, 1e-3)  # never written
    some = np.where(WANT < 100, fill + want, want + 1)
    assert not adds_to_fill(some, want, fill, 1e-3)


def test_small_numbers_beside_a_large_one_may_be_no_sum() -> None:
    want, fill = WANT * 1e-9, np.full(200, 1e9)
    assert not adds_to_fill(fill, want, fill, 1e-5)
    assert not adds_to_fill(want, want, fill, 1e-5)
    assert not adds_to_fill(want, want + 1, np.full(200, np.nan), 1e-5)


def test_sum_is_compared_within_the_tolerance_and_on_what_is_wrong_alone() -> None:
    want = np.where(WANT < 100, 0.0, WANT)
    fill = np.where(WANT < 50, 0.0, 5.0)
    assert adds_to_fill((fill + want) * (1 + 1e-6), want, fill, 1e-5)
    assert not adds_to_fill((fill + want) * (1 + 1e-3), want, fill, 1e-5)
