"""Interleaved rounds on several occasions.

An occasion begins with new loads of the code and new allocations of the data. Where these lie in
memory may make a configuration faster or slower from its load to its end. Samples of one load all
have this offset, however many they are, so they cannot show whether a difference would be there
after another load. Samples of several occasions can.
"""

from __future__ import annotations

import dataclasses
import secrets
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.core.observations import CLOCK_ERROR, COUNTS
from harness.core.records import Measurement, Outcome, StopReason, Timing
from harness.measure.sensors.nvml import THROTTLED

J = TypeVar("J")

SEARCH_SEED = 0
"""The seed of the data on which a search measures."""

ONE_OCCASION = (SEARCH_SEED,)
"""The seeds of rounds that are not split: one occasion, with the data of the search."""

DATA_SETS = 2
"""The sets of data of an occasion that is not on the data of the search. Each launch draws one of
them: what any launch has left anywhere is wrong for half of those that come after it."""


def new_seed() -> int:
    """Draw a seed that no kernel can know."""
    return 1 + secrets.randbelow(1 << 48)


@dataclass(frozen=True)
class Block:
    """The rounds of one occasion.

    `seed` is that of the input's data, and `order` that of the order inside
    rounds. A block that `is_reloaded` begins with new loads and new allocations, even if they are
    still there.
    """

    rounds: int
    seed: int = SEARCH_SEED
    order: int = 0
    is_reloaded: bool = False


def split_rounds(rounds: int, seeds: Sequence[int]) -> list[Block]:
    """Split rounds into one block for each seed, as evenly as possible; each has a round or more.

    The blocks are reloaded, unless the one block is on the data of the search.
    """
    count = len(seeds)
    sizes = [max(1, rounds // count + (number < rounds % count)) for number in range(count)]
    return [
        Block(size, seed, number, is_reloaded=tuple(seeds) != ONE_OCCASION)
        for number, (size, seed) in enumerate(zip(sizes, seeds, strict=True))
    ]


def over_occasions(
    jobs: Sequence[J],
    blocks: Sequence[Block],
    measure: Callable[[Sequence[J], Block], Sequence[Measurement]],
) -> list[Measurement]:
    """Measure jobs on one occasion after the other; one that fails drops out.

    `measure` returns the measurement of each job in a block. Returns those of all blocks together.
    """
    parts_of: list[list[Measurement]] = [[] for _ in jobs]
    for block in blocks:
        left = [
            number
            for number, parts in enumerate(parts_of)
            if all(part.outcome is Outcome.OK for part in parts)
        ]
        if not left:
            break
        measured = measure([jobs[number] for number in left], block)
        for number, part in zip(left, measured, strict=True):
            parts_of[number].append(part)
    return [join(parts) for parts in parts_of]


def join(parts: Sequence[Measurement]) -> Measurement:
    """Join the measurements of one configuration on successive occasions into one.

    A failure on any occasion is its outcome. Observations are medians over the occasions, and
    counts their sums; of the clock's errors, and of whether a GPU was throttled, it is the largest.
    """
    if len(parts) == 1:
        return parts[0]
    last = parts[-1]
    timings = [part.timing for part in parts if part.timing]
    reads = [part.host_read for part in parts if part.host_read is not None]
    return dataclasses.replace(
        last,
        timing=_joined_timing(timings) if last.timing else None,
        warmup_s=tuple(time_s for part in parts for time_s in part.warmup_s),
        wall_s=sum(part.wall_s for part in parts),
        message=next((part.message for part in reversed(parts) if part.message), ""),
        observed=_joined_observations([part.observed for part in parts]),
        host_read=tuple(sorted({name for names in reads for name in names})) if reads else None,
    )


def _joined_timing(timings: Sequence[Timing]) -> Timing:
    samples_s = tuple(sample for timing in timings for sample in timing.samples_s)
    occasions = tuple(timing.count for timing in timings)
    error_s = max(timing.clock_error_s for timing in timings)
    return Timing(samples_s, StopReason.INTERLEAVED, occasions, timings[-1].statistic, error_s)


def _joined_observations(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    joined = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if name in part]
        if name in (CLOCK_ERROR, THROTTLED):
            joined[name] = max(values)
        else:
            joined[name] = sum(values) if name in COUNTS else statistics.median(values)
    return joined
