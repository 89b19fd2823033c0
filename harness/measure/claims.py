"""What interleaved rounds show of a configuration: a time that is too good, or a gain.

A kernel that returns early, or that finds the results of an earlier run, is the fastest of all. So
a configuration that is more than 10 times as fast as the default, or faster than an empty launch,
is measured again at once, with the default: on two sets of data that nobody has seen, of which
each launch draws one. There, as in the final rounds, a result of an earlier run is wrong half of
the time. A kernel that recognises data which it has seen still computes them once: its first runs
on new data are slow. That may be chance, so it loses the claim to be faster, and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from harness.core.observations import UNCLAIMED
from harness.core.records import Measurement
from harness.core.text import format_factor, format_time
from harness.measure.occasions import DATA_SETS

MAX_SPEEDUP = 10.0
"""A configuration with a higher speed-up over the default is measured again on new data."""

FLOOR_S = 3e-7
"""No launch takes less on a CPU, in seconds; an empty one takes 0.9 us with PoCL on Zen 5."""

GPU_FLOOR_S = 1e-6
"""No launch takes less on a GPU, in seconds; an empty one takes some 2 us."""

LAUNCH_FLOORS = 5
"""Launches of equal work may differ by so many floors of their device, whatever they compute: an
empty launch takes two or three, and a GPU's clock ticks every half of one."""

_TOLERATED_SLOWDOWN = 2.0
_LEAST_EXTRA = 0.08  # of a time: the least of a few runs scatters by that


def why_too_good(
    time_s: float, default_s: float | None, floor_s: float, work_s: float = 0.0
) -> str | None:
    """Return why a time must be measured again on new data; None where it need not.

    No launch takes less than `floor_s`, and no work from memory less than `work_s`, unless the
    default does as well: its data may lie in a cache.
    """
    reason = None
    if default_s is not None and default_s / time_s > MAX_SPEEDUP:
        reason = f"it is {format_factor(default_s / time_s)} times as fast as the default"
    floors = (floor_s, "any launch takes"), (work_s, "its work takes at the device's peak")
    for least_s, what in floors:
        if not reason and time_s < least_s and not (default_s is not None and default_s < least_s):
            reason = f"its {format_time(time_s)} are less than {what} ({format_time(least_s)})"
    return reason


def without_unshown_gain(
    measured: Measurement, default: Measurement, seeds: Sequence[int], floor_s: float
) -> Measurement:
    """Return a measurement beside the default on occasions with these seeds, marked as UNCLAIMED
    where first runs on new data do not show its gain."""
    reason = _why_unshown(measured, default, seeds, LAUNCH_FLOORS * floor_s)
    return measured if reason is None else unclaimed(measured, reason)


def unclaimed(measured: Measurement, reason: str) -> Measurement:
    """Return a measurement whose gain is not claimed, and why."""
    observed = {**measured.observed, UNCLAIMED: 1.0}
    return dataclasses.replace(measured, message=reason, observed=observed)


def _why_unshown(
    measured: Measurement, default: Measurement, seeds: Sequence[int], overhead_s: float
) -> str | None:
    """Return why first runs explain most of a gain; None where they do not.

    Other work can only make a run longer. So the least of each kind of runs is compared. Launches
    of equal work differ by up to `overhead_s`.
    """
    if measured.timing is None or default.timing is None:
        return None
    least_s, default_s = min(measured.timing.samples_s), min(default.timing.samples_s)
    saved_s = default_s - least_s
    if saved_s <= 0:
        return None
    extra_s = max(saved_s / 2, overhead_s, _LEAST_EXTRA * least_s)
    new_s, seen_s = _first_runs(measured, seeds)
    first_s = min(new_s)
    again_s = min(seen_s, default=least_s)
    if first_s > again_s + extra_s:
        return (
            f"its first runs on new data take {format_time(first_s)} or more, and "
            f"{format_time(again_s)} on data that it has seen; it saves {format_time(saved_s)}"
        )
    cold_s = max(0.0, min(default.warmup_s) - default_s)
    if min(first_s, again_s) > _TOLERATED_SLOWDOWN * (least_s + cold_s) + overhead_s:
        return (
            "each first run on data that were copied to the device takes "
            f"{format_time(min(first_s, again_s))} or more, but others {format_time(least_s)}"
        )
    return None


def _first_runs(
    measured: Measurement, seeds: Sequence[int]
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the first runs on each set of data after it was copied to the device: those on data
    that were new to the configuration, and those on data that it had seen."""
    new_s: list[float] = []
    seen_s: list[float] = []
    for number, seed in enumerate(seeds):
        is_new = seed not in seeds[:number]
        (new_s if is_new else seen_s).extend(measured.warmup_s[DATA_SETS * number :][:DATA_SETS])
    return new_s, seen_s
