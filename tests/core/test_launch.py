"""What a launch may say of itself."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.program import Launch


def test_cooperative_is_yes_or_no() -> None:
    assert Launch("f", (4,), (2,), (), cooperative=True).cooperative
    with pytest.raises(TypeError, match="cooperative is True or False, but got 1"):
        Launch("f", (4,), (2,), (), cooperative=1)


@pytest.mark.parametrize("percent", [-2, 101, 0.5, "most"])
def test_carveout_is_a_percentage(percent: object) -> None:
    assert Launch("f", (4,), (2,), (), carveout=-1) == Launch("f", (4,), (2,), ())
    with pytest.raises(ValueError, match=f"carveout is a percentage, or -1, but got {percent!r}"):
        Launch("f", (4,), (2,), (), carveout=percent)


def test_sizes_that_numpy_computed_become_pythons_own() -> None:
    launch = Launch("f", (np.int64(4),), (np.uint32(2),), (), np.int32(8))
    sizes = (*launch.group, *launch.grid, launch.shared_bytes)
    assert [type(size) for size in sizes] == [int, int, int], "drivers take no others"
    assert sizes == (4, 2, 8)
