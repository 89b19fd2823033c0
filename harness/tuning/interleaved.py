"""Interleaved measurement of one input's configurations, so that drift affects all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.records import Config, Input, Interleaved, Measurement, StopReason
from harness.measure.trial.occasions import ONE_OCCASION
from harness.tuning.state import State


def measure_interleaved(
    state: State,
    problem: Input,
    configs: Sequence[Config],
    *,
    stage: str,
    rounds: int,
    seeds: Sequence[int] = ONE_OCCASION,
) -> Interleaved:
    """Measure configurations interleaved, on an occasion for each seed, and store the results."""
    space = state.space(problem)
    measured = state.measurer_for(problem).measure_interleaved(
        space, problem, configs, rounds, seeds
    )
    state.add_interleaved(problem, stage, measured)
    return measured


def is_complete(
    stored: Interleaved,
    configs: Sequence[Config],
    *,
    rounds: int,
    known: Mapping[Config, object],
    occasions: int = 1,
) -> bool:
    """Whether stored results are of exactly these configurations, each with all its rounds and
    occasions.

    `known` holds the configurations that the search measured. Results in which nothing worked are
    incomplete, since that may have been the device's fault.
    """
    same = {measurement.config for measurement in stored} == set(configs)
    works = any(measured.timing for measured in stored)
    return (
        same
        and works
        and all(
            _is_final(measured, rounds, occasions, measured.config in known) for measured in stored
        )
    )


def _is_final(measured: Measurement, rounds: int, occasions: int, has_worked: bool) -> bool:
    """Whether a result stands. A timeout or crash of a configuration that worked in the search may
    be chance; other failures stand."""
    timing = measured.timing
    if timing is None:
        return measured.outcome.settles or not has_worked
    is_whole = timing.count == rounds and len(timing.by_occasion) == occasions
    return is_whole or timing.stopped is StopReason.RECORDED
