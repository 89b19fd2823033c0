"""Merge interleaved measurements of one input that were made at different times."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.core.observations import UNCLAIMED
from harness.core.records import Config, Interleaved, Measurement, Outcome
from harness.stats.timing import mean_log


def merge_sessions(
    sessions: Sequence[Interleaved], *, is_scaled: bool = True
) -> dict[Config, Measurement]:
    """Return the latest measurement of each configuration; `sessions` are ordered by time.

    The machine's drift is removed: the samples of a round are scaled by one factor, so that every
    round has the same geometric mean over the configurations that later sessions have too, such as
    the default (in the last session: over all configurations). Times of earlier sessions are then
    on the scale of later ones. A session is left out if nothing in it worked, or if no shared
    configurations link it to the last session, directly or through others. Unless `is_scaled`, the
    samples are as they were measured: this tells what worked, at less cost.
    """
    merged: dict[Config, Measurement] = {}
    for session in _linked(sessions):
        if is_scaled:
            factors = _round_factors(session, merged)
            session = [_scaled(measurement, factors) for measurement in session]
        merged = {m.config: m for m in session} | merged
    return merged


def is_shown(measurement: Measurement) -> bool:
    """Say whether a configuration worked, and its first runs on new data show its gain."""
    return measurement.timing is not None and UNCLAIMED not in measurement.observed


def unshown_gains(sessions: Iterable[Interleaved], default: Config) -> set[Config]:
    """Return the configurations of which a session with the default does not show the gain."""
    beside = (s for s in sessions if any(m.config == default and m.timing for m in s))
    return {m.config for s in beside for m in s if m.timing and not is_shown(m)}


def refuted(sessions: Iterable[Interleaved]) -> dict[Config, Measurement]:
    """Return the last final failure (`Outcome.settles`) of each configuration, without its times.

    It failed in a session in which others worked, or its first runs do not show its gain. Then
    sessions in which it worked do not count.
    """
    working = (session for session in sessions if any(m.timing for m in session))
    failed = (m for session in working for m in session if not is_shown(m))
    failures = (_unshown(m) if m.timing else m for m in failed)
    return {m.config: m for m in failures if m.outcome.settles}


def _unshown(measurement: Measurement) -> Measurement:
    message = measurement.message or "its first runs do not show its gain"
    lost = Outcome.IMPLAUSIBLE
    return dataclasses.replace(measurement, outcome=lost, timing=None, message=message)


def _linked(sessions: Sequence[Interleaved]) -> Iterator[Interleaved]:
    """Yield the sessions in which something worked, the last one first; each later one shares a
    working configuration with those before it."""
    waiting = [session for session in reversed(sessions) if any(m.timing for m in session)]
    works: dict[Config, bool] = {}
    while True:
        shares = (not works or any(m.timing and works.get(m.config) for m in s) for s in waiting)
        index = next((index for index, is_linked in enumerate(shares) if is_linked), None)
        if index is None:
            return
        session = waiting.pop(index)
        works = {m.config: m.timing is not None for m in session} | works
        yield session


def _round_factors(session: Interleaved, later: Mapping[Config, Measurement]) -> Array:
    """Return the factor of each round, shape (rounds,), or one factor, shape (1,), where the
    configurations have different numbers of samples."""
    linked = {m.config: m.timing for m in later.values() if m.timing}
    timed = {m.config: m.timing for m in session if m.timing}
    shared = [config for config in timed if config in linked or not linked]
    level = np.mean([mean_log(linked.get(config, timed[config]).samples_s) for config in shared])
    if len({timing.count for timing in timed.values()}) > 1:
        means = np.array([np.mean([mean_log(timed[config].samples_s) for config in shared])])
    else:
        means = np.log([timed[config].samples_s for config in shared]).mean(axis=0)
    factors: Array = np.exp(level - means)
    return factors


def _scaled(measurement: Measurement, factors: Array) -> Measurement:
    timing = measurement.timing
    if timing is None:
        return measurement
    samples_s = tuple((np.array(timing.samples_s) * factors).tolist())
    return dataclasses.replace(measurement, timing=dataclasses.replace(timing, samples_s=samples_s))
