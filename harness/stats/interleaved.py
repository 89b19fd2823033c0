"""What was measured on one input in several turns, as if it had been one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.core.records import Config, Measurement, Timing, Turn
from harness.stats.timing import mean_log

Logs = npt.NDArray[np.float64]


def as_one(turns: Sequence[Turn]) -> dict[Config, Measurement]:
    """Of each configuration its measurement of the last turn that has it.

    The machine's drift is taken out: samples of one round are divided by what their geometric
    mean, over all configurations or over those that later turns have too, such as the default, is
    above its own mean. Times of earlier turns are then on the scale of later ones. A turn that has
    nothing in common with the last one, or with others that have, is left out, and so is one in
    which nothing worked.
    """
    found: dict[Config, Measurement] = {}
    waiting = [turn for turn in reversed(turns) if any(m.timing for m in turn)]
    while (place := _linked(waiting, found)) is not None:
        turn = waiting.pop(place)
        factors = _factors(turn, found)
        found = {m.config: _multiplied(m, factors) for m in turn} | found
    return found


def _linked(turns: Sequence[Turn], found: Mapping[Config, Measurement]) -> int | None:
    """The first turn that has something in common with what was found, if that is anything."""
    known = {config for config, m in found.items() if m.timing}
    for place, turn in enumerate(turns):
        if not found or any(m.timing and m.config in known for m in turn):
            return place
    return None


def _factors(turn: Turn, later: Mapping[Config, Measurement]) -> Logs:
    """What the samples of each round are multiplied by; one number where rounds do not match."""
    known = {m.config: m.timing for m in later.values() if m.timing}
    timed = {m.config: m.timing for m in turn if m.timing}
    shared = [config for config in timed if config in known or not known]
    level = np.mean([mean_log(known.get(config, timed[config]).samples_s) for config in shared])
    counts = {timing.count for timing in timed.values()}
    if len(counts) > 1:
        return np.array([np.exp(level - np.mean([mean_log(timed[c].samples_s) for c in shared]))])
    of_round: Logs = np.log([timed[config].samples_s for config in shared]).mean(axis=0)
    factors: Logs = np.exp(level - of_round)
    return factors


def _multiplied(measurement: Measurement, factors: Logs) -> Measurement:
    timing = measurement.timing
    if timing is None:
        return measurement
    samples_s = tuple((np.array(timing.samples_s) * factors).tolist())
    return dataclasses.replace(measurement, timing=Timing(samples_s, timing.stopped))
