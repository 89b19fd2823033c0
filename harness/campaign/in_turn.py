"""Configurations of one input sampled in turn, so that drift of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Sequence

from harness.campaign.state import State
from harness.records import Config, Input, Measurement, StopReason


def measured_in_turn(
    state: State, given: Input, configs: Sequence[Config], stage: str, rounds: int
) -> list[Measurement]:
    """Measure in turn and keep it, unless these very configurations were the last time."""
    plan = state.plan(given)
    earlier = state.store.last_turn(plan, stage)
    same = {measurement.config for measurement in earlier} == set(configs)
    known = state.known(given)
    if same and all(_is_whole(there, rounds, there.config in known) for there in earlier):
        return earlier
    found = state.measurer.measure_interleaved(state.space(given), given, configs, rounds)
    state.store.add_turn(state.runs[given], plan, stage, found)
    state.store.commit()
    return found


def _is_whole(there: Measurement, rounds: int, has_worked: bool) -> bool:
    """Whether it was measured to its end, and as often as is asked for now. A time-out, or a
    crash, of what worked in the search may have been chance; other failures stand."""
    if there.timing is None:
        return there.outcome.repeats or not has_worked
    return there.timing.count == rounds or there.timing.stopped is StopReason.RECORDED
