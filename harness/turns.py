"""What was measured in turn on one input, in several turns, on one scale."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from harness.records import Config, Measurement, Timing
from harness.results import Turn


def on_one_scale(turns: Sequence[Turn]) -> dict[Config, Measurement]:
    """Of each configuration what was measured last, as if all had been in the last turn.

    A turn has its own drift: times of an earlier one, oldest first, are multiplied by the
    geometric mean of what they differ by on the configurations that it has in common with later
    ones, such as the default. One that has none in common is left out.
    """
    found: dict[Config, Measurement] = {}
    for turn in reversed(turns):
        factor = _factor(turn, found) if any(m.timing for m in found.values()) else 1.0
        if factor is not None:
            found = {m.config: _scaled(m, factor) for m in turn} | found
    return found


def mean_log(timing: Timing) -> float:
    """The mean of the samples' logarithms, of which differences are ratios."""
    return statistics.fmean(map(math.log, timing.samples_s))


def _factor(turn: Turn, later: Mapping[Config, Measurement]) -> float | None:
    logs = [
        mean_log(there.timing) - mean_log(m.timing)
        for m in turn
        if m.timing and (there := later.get(m.config)) and there.timing
    ]
    return math.exp(statistics.fmean(logs)) if logs else None


def _scaled(measurement: Measurement, factor: float) -> Measurement:
    timing = measurement.timing
    if timing is None or factor == 1:
        return measurement
    samples_s = tuple(factor * sample for sample in timing.samples_s)
    return dataclasses.replace(measurement, timing=Timing(samples_s, timing.stopped))
