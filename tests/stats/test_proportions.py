"""Corrections for several tests."""

from __future__ import annotations

import numpy as np
import pytest

from harness.stats.timing import holm


def test_p_values_count_by_how_many_are_not_smaller() -> None:
    for p_values, adjusted in (
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.01], [0.03, 0.02]),
        # 2 x 0.04, 4 x 0.01, 0.6, 3 x 0.013 and no less than before
        ([0.04, 0.01, 0.6, 0.013], [0.08, 0.04, 0.6, 0.04]),
        ([0.9, 0.6, 0.4], [1.0, 1.0, 1.0]),
        ([0.01, 0.9], [0.02, 0.9]),
    ):
        assert holm(np.array(p_values)) == pytest.approx(adjusted)
