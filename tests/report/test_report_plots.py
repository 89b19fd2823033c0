"""The report's pictures: what stands on their axes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from harness.report.plots import _plain_ticks


@pytest.mark.parametrize(
    ("low", "high"), [(0.95, 1.06), (0.7, 1.3), (0.55, 8), (0.16, 11), (1, 1.02), (1, 500)]
)
def test_ticks_of_logarithms_are_several_and_have_room(low: float, high: float) -> None:
    axes = Figure(figsize=(4, 1)).subplots()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _plain_ticks(axes.xaxis)
    ticks = [math.log(x / low) for x in axes.xaxis.get_majorticklocs() if low <= x <= high]
    gaps = [(b - a) / math.log(high / low) for a, b in pairwise(ticks)]
    assert 3 <= len(ticks) <= 12
    assert min(gaps) > 1 / 20, "labels would overlap"
    assert not len(axes.xaxis.get_minorticklocs())
