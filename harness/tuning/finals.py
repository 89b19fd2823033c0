"""The finals: each input's finalists, measured once more beside the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from harness.analysis.inputs import InputReport, choose_finalists, report_input
from harness.core.records import Config, Input, Measurement, Outcome
from harness.results import CANDIDATE, EXHAUSTED, FINAL
from harness.space import Space
from harness.tuning.interleaved import is_complete, measure_interleaved
from harness.tuning.state import State

_BESIDE_BASELINES = 20  # rounds, where winners are compared with named baselines


def final_reports(state: State, finalists: int | None = None) -> list[InputReport]:
    """Measure each input's finalists again beside the default, and report the input.

    `choose_finalists` decides how many where `finalists` is None. A replay shows no progress,
    since it would answer the same again.
    """
    inputs = () if state.measurer.is_replay else state.spec.inputs
    wanted = {problem for problem in inputs if _has_finalists(state, problem)}
    state.display.begin_stage("finalists beside the baseline", len(wanted))
    reports = []
    for problem in state.spec.inputs:
        reports.append(_final(state, problem, finalists))
        if problem in wanted:
            state.display.step(str(problem))
    return reports


def _has_finalists(state: State, problem: Input) -> bool:
    """Whether an input was searched now, and something works on it."""
    return problem in state.runs and state.best(problem) is not None


def _final(state: State, problem: Input, count: int | None) -> InputReport:
    measured, space = state.measured(problem), state.space(problem)
    candidates = state.store.interleaved(state.run_plan(problem), CANDIDATE)
    last = candidates[-1] if candidates else ()
    finalists = choose_finalists(measured.values(), space.default, count, last)
    named = baselines(state, space)
    wanted = list(dict.fromkeys([*finalists, space.default]))
    working = [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]
    finals: Sequence[Measurement] = []
    if working and problem in state.runs:
        with state.leaving_out(problem):
            beside = [config for config in named.values() if _may_work(measured.get(config))]
            finals = _measure(state, problem, space, [*dict.fromkeys([*working, *beside])])
    confidence = state.spec.measure.confidence
    report = report_input(problem, measured, finals, space.default, space.count, confidence, named)
    if problem in state.runs:
        exhausted = "yes" if report.is_exhausted else "no"
        state.store.note_run(state.runs[problem], EXHAUSTED, exhausted)
        state.store.commit()
    return dataclasses.replace(report, note=_note(state, report))


def baselines(state: State, space: Space) -> dict[str, Config]:
    """Return the named baselines that are legal on an input; a recording has none."""
    named = {} if state.measurer.is_replay else state.spec.baselines_for(state.measurer.compiler)
    found = {name: space.canonical(config) for name, config in named.items()}
    return {name: config for name, config in found.items() if space.is_legal(config)}


def _may_work(measurement: Measurement | None) -> bool:
    """Whether a configuration worked, or was not tried by the search."""
    return measurement is None or measurement.outcome is Outcome.OK


def _note(state: State, report: InputReport) -> str:
    """Say why an input was not measured, or not measured again."""
    if not report.measured:
        why = "the time was up" if state.is_time_up() else "no sample fell on it"
        return state.left_out.get(report.problem, f"not measured: {why}")
    return state.left_out.get(report.problem, report.note)


def _measure(
    state: State, problem: Input, space: Space, configs: Sequence[Config]
) -> list[Measurement]:
    """Measure finalists interleaved; results stored by an earlier command are used again."""
    fewest = _BESIDE_BASELINES if baselines(state, space) else 2
    rounds = max(fewest, state.spec.measure.repeats)
    stored = state.store.interleaved(state.run_plan(problem), FINAL)
    known = state.known(problem)
    if stored and is_complete(stored[-1], configs, rounds=rounds, known=known):
        return stored[-1]
    return measure_interleaved(state, problem, configs, stage=FINAL, rounds=rounds)
