"""Configurations of one input sampled in turn, so that drift of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.records import Config, Input, Measurement, StopReason, Turn
from harness.tuning.state import State


def measured_in_turn(
    state: State, given: Input, configs: Sequence[Config], stage: str, rounds: int
) -> Turn:
    """Measure in turn, and keep it."""
    found = state.measurer.measure_interleaved(state.space(given), given, configs, rounds)
    state.store.add_turn(state.runs[given], state.plan(given), stage, found)
    state.store.commit()
    return found


def is_whole(
    turn: Turn, configs: Sequence[Config], rounds: int, known: Mapping[Config, object]
) -> bool:
    """Whether a turn is of these very configurations, and each was measured to its end, as often
    as is asked for now; `known` is what the search measured. Where nothing worked, that may have
    been the device's fault."""
    same = {measurement.config for measurement in turn} == set(configs)
    works = any(found.timing for found in turn)
    return same and works and all(_is_whole(found, rounds, found.config in known) for found in turn)


def _is_whole(found: Measurement, rounds: int, has_worked: bool) -> bool:
    """A time-out, or a crash, of what worked in the search may have been chance; other failures
    stand."""
    if found.timing is None:
        return found.outcome.repeats or not has_worked
    return found.timing.count == rounds or found.timing.stopped is StopReason.RECORDED
