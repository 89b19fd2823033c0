"""Report at which clocks of the device a campaign was measured, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness.constraints.arithmetic import MAX_EXACT
from harness.core.arrays import Array
from harness.core.observations import HOST_RETRIES, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.text import counted
from harness.measure.clocks import LOW_CLOCK
from harness.measure.nvml import THROTTLED, THROTTLED_BY

if TYPE_CHECKING:
    from harness.results.view import Results


def clock_lines(results: Results) -> Iterator[str]:
    """Yield a sentence on runs that were thrown away for their low clock, one on those for which
    the host was too slow, and one on measurements that ran at a low clock all the same."""
    thrown = _total(results, THROTTLED_SAMPLES)
    if thrown:
        runs, share = counted(thrown, "timed run"), f"{100 * LOW_CLOCK:g} %"
        yield f"{runs} met a GPU clock under {share} of the full one: thrown away, and taken again."
    late = _total(results, HOST_RETRIES)
    if late:
        yield (
            f"The host was too slow for {counted(late, 'timed run')}: thrown away, and taken again."
        )
    clocks_mhz = _observed(results, SM_CLOCK_MHZ)
    low_mhz = clocks_mhz[clocks_mhz < LOW_CLOCK * clocks_mhz.max(initial=0)]
    if len(low_mhz):
        yield (
            f"In {len(low_mhz):,} of {counted(len(clocks_mhz), 'measurement')} the GPU's clock was "
            f"low ({low_mhz.min():,.0f} MHz at the lowest, {clocks_mhz.max():,.0f} MHz in others): "
            "their times are those of a slower GPU. Power or temperature limits it; cool it, or "
            "lock a lower clock (nvidia-smi --lock-gpu-clocks), and tune with --fresh."
        )


def throttled_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where the driver says that a GPU was throttled around samples."""
    throttled = _observed(results, THROTTLED)
    count = _total(results, THROTTLED)
    if not count:
        return
    names = [name for name in results.rows.columns.observed if name.startswith(THROTTLED_BY)]
    counts = {name.removeprefix(THROTTLED_BY): len(_observed(results, name)) for name in names}
    reasons = ", ".join(f"{reason} in {number:,}" for reason, number in counts.items() if number)
    yield (
        f"The GPU held its clocks back in {count:,} of {counted(len(throttled), 'measurement')} "
        f"({reasons}): their times may be too long."
    )


def clock_range(results: Results) -> str:
    """Return the clocks of the measurements, such as `1,980 MHz (1,410 to 1,995)`; empty where none
    is known."""
    clocks_mhz = _observed(results, SM_CLOCK_MHZ)
    if not len(clocks_mhz):
        return ""
    low, median, high = (f"{mhz:,.0f}" for mhz in np.quantile(clocks_mhz, [0, 0.5, 1]))
    return f"{median} MHz" if low == high else f"{median} MHz ({low} to {high})"


def _total(results: Results, name: str) -> int:
    """Return the sum of counts; numbers that harness never writes, in a damaged file, are none."""
    counts = _observed(results, name)
    return int(counts[(counts > 0) & (counts <= MAX_EXACT)].sum())


def _observed(results: Results, name: str) -> Array:
    """Return the observations of measurements that were really made, of those that have any."""
    rows = results.rows
    if name not in rows.columns.observed:
        return np.empty(0)
    values = rows.of(rows.columns.observed[name])[~rows.is_shared]
    observed: Array = values[~np.isnan(values)]
    return observed
