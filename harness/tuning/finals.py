"""The finalists of each input, measured once more beside the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from harness.analysis.inputs import InputReport, choose_finalists, report_input
from harness.core.records import Config, Input, Measurement, Outcome
from harness.results import CANDIDATE, EXHAUSTED, FINAL
from harness.space import Space
from harness.tuning.interleaved import is_whole, measured_in_turn
from harness.tuning.state import State

_BESIDE_BASELINES = 20  # rounds, where winners are told against named baselines


def final_reports(state: State, finalists: int | None = None) -> list[InputReport]:
    """What each input came to, once its finalists were measured again beside the default: so
    many of them, or as `choose_finalists` thinks best.

    Nothing is shown of that where measurements are replayed: they are the same again.
    """
    inputs = () if state.measurer.is_replay else state.spec.inputs
    wanted = {given for given in inputs if _has_finalists(state, given)}
    state.display.begin_stage("finalists beside the baseline", len(wanted))
    reports = []
    for given in state.spec.inputs:
        reports.append(_final(state, given, finalists))
        if given in wanted:
            state.display.step(str(given))
    return reports


def _has_finalists(state: State, given: Input) -> bool:
    """Whether an input was searched now, and something works on it."""
    return given in state.runs and state.best(given) is not None


def _final(state: State, given: Input, count: int | None) -> InputReport:
    measured, space = state.measured(given), state.space(given)
    candidates = state.store.turns(state.plan(given), CANDIDATE)
    last = candidates[-1] if candidates else ()
    finalists = choose_finalists(measured.values(), space.default, count, last)
    named = baselines(state, space)
    wanted = list(dict.fromkeys([*finalists, space.default]))
    working = [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]
    finals: Sequence[Measurement] = []
    if working and given in state.runs:
        with state.telling(given):
            beside = [config for config in named.values() if _may_work(measured.get(config))]
            finals = _interleaved(state, given, space, [*dict.fromkeys([*working, *beside])])
    confidence = state.spec.measure.confidence
    report = report_input(given, measured, finals, space.default, space.count, confidence, named)
    if given in state.runs:
        state.store.note_run(state.runs[given], EXHAUSTED, "yes" if report.is_exhausted else "no")
        state.store.commit()
    return dataclasses.replace(report, note=_note(state, report))


def baselines(state: State, space: Space) -> dict[str, Config]:
    """The named baselines that are legal on an input; a recording was made without them."""
    named = {} if state.measurer.is_replay else state.spec.baselines_for(state.measurer.compiler)
    found = {name: space.canonical(config) for name, config in named.items()}
    return {name: config for name, config in found.items() if space.is_legal(config)}


def _may_work(measurement: Measurement | None) -> bool:
    """What the search did not come by is tried for the first time."""
    return measurement is None or measurement.outcome is Outcome.OK


def _note(state: State, report: InputReport) -> str:
    """What kept an input from being measured, or measured again."""
    if not report.measured:
        why = "the time was up" if state.is_time_up() else "no sample fell on it"
        return state.left_out.get(report.given, f"not measured: {why}")
    return state.left_out.get(report.given, report.note)


def _interleaved(
    state: State, given: Input, space: Space, configs: Sequence[Config]
) -> list[Measurement]:
    fewest = _BESIDE_BASELINES if baselines(state, space) else 2
    rounds = max(fewest, state.spec.measure.repeats)
    turns = state.store.turns(state.plan(given), FINAL)
    if turns and is_whole(turns[-1], configs, rounds, state.known(given)):
        return turns[-1]
    return measured_in_turn(state, given, configs, FINAL, rounds)
