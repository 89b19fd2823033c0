"""The finals of each input: its finalists' rounds choose a winner, and others judge it.

The fastest of several noisy times is too fast, so the rounds that choose the winner say nothing of
its speed-up. It is measured once more beside the default, on several occasions, each with new
loads and new allocations. There are two sets of data that nothing has run on before, and each
launch draws one of them: what an earlier launch left anywhere is wrong half of the time. The single
configuration that suits all inputs best, which the candidates' rounds chose, is measured as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from harness.analysis.inputs import (
    InputReport,
    choose_finalists,
    hold_discoveries,
    ranked,
    report_input,
)
from harness.core.records import Config, Input, Interleaved, Outcome
from harness.measure.trial.occasions import DATA_SETS, ONE_OCCASION
from harness.results import CANDIDATE, CHOICE, FINAL
from harness.space import Space
from harness.stats.interleaved import is_shown, refuted
from harness.tuning.crossing import is_complete, single_on
from harness.tuning.sharing import do_work
from harness.tuning.state import State

_BESIDE_BASELINES = 20  # rounds, where winners are compared with named baselines

FINAL_OCCASIONS = 6


def final_seeds(state: State, problem: Input) -> tuple[int, ...]:
    """Return the seed of the data on each occasion of an input's finals."""
    return seeds_of(state.data_seed(problem))


def seeds_of(seed: int) -> tuple[int, ...]:
    """Return the seed of the data on each occasion of finals, from the first one."""
    return (seed,) * (FINAL_OCCASIONS // 2) + (seed + DATA_SETS,) * (FINAL_OCCASIONS // 2)


def final_reports(state: State, finalists: int | None = None) -> list[InputReport]:
    """Measure each input's finalists again beside the default, and report the input.

    `choose_finalists` decides how many where `finalists` is None. A replay shows no progress,
    since it would answer the same again.
    """
    inputs = () if state.measurer.is_replay else state.spec.inputs
    wanted = {problem for problem in inputs if _has_finalists(state, problem)}
    display = state.display
    display.begin_stage("finalists and the default", len(wanted))
    reports: dict[Input, InputReport] = {}
    single = single_on(state) if wanted else {}

    def step(problem: Input, count: int | None) -> None:
        reports[problem] = _final(state, problem, count, single.get(problem))
        if problem in wanted:
            display.step(str(problem))

    do_work(state, [(problem, finalists) for problem in state.spec.inputs], step)

    def note() -> None:
        for problem, run_id in state.runs.items():
            state.store.note_run(run_id, {"exhausted": reports[problem].is_exhausted})

    state.store.transact(note)
    return hold_discoveries([reports[problem] for problem in state.spec.inputs])


def _has_finalists(state: State, problem: Input) -> bool:
    """Whether an input was searched now, and something works on it."""
    return problem in state.runs and state.best(problem) is not None


def _final(state: State, problem: Input, count: int | None, single: Config | None) -> InputReport:
    """Measure an input's finals, with the `single` configuration that suits all inputs best."""
    measured, space = state.measured(problem), state.space(problem)
    named = _baselines(state, space)
    confidence = state.spec.measure.confidence
    choices: Interleaved = []
    finals: Interleaved = []
    if _has_finalists(state, problem):
        with state.leaving_out(problem):
            beside = [c for c in named.values() if c not in measured or measured[c].timing]
            finalists = _finalists(state, problem, space, count)
            hopeful = [config for config in beside if _may_win(state, problem, config)]
            shared = [single] if single is not None else []
            wanted = dict.fromkeys([*finalists, *hopeful, *shared])
            rivals = [config for config in wanted if config != space.default]
            choices = _choices(state, problem, rivals)
            default = [space.default] if space.default in (*finalists, *beside) else []
            order = ranked(choices, space.default, confidence, single) or rivals
            finals = _judged(state, problem, order, [*default, *beside, *shared])
    report = report_input(
        problem,
        measured,
        finals,
        space.default,
        space.count,
        confidence,
        named,
        bool(choices),
        state.is_same(space.default),
    )
    return dataclasses.replace(report, note=_note(state, report))


def _finalists(state: State, problem: Input, space: Space, count: int | None) -> list[Config]:
    """Return the configurations to measure again, and the default where it worked."""
    measured = state.eligible(problem)
    candidates = state.interleaved(problem, CANDIDATE)
    last = candidates[-1] if candidates else ()
    finalists = choose_finalists(measured, space.default, count, last)
    wanted = dict.fromkeys([*finalists, space.default])
    return [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]


def _choices(state: State, problem: Input, rivals: Sequence[Config]) -> Interleaved:
    """Measure the rivals of an input, where there are several, to choose the winner."""
    if len(rivals) < 2 or state.measurer.is_replay:
        return []
    rounds = max(2, _rounds(state, problem))
    seeds = (state.data_seed(problem) + 2 * DATA_SETS,)  # no data of the finals
    return _measured(state, problem, rivals, CHOICE, rounds, seeds)


def _judged(
    state: State, problem: Input, rivals: Sequence[Config], beside: Sequence[Config]
) -> Interleaved:
    """Measure the first of the rivals beside other configurations; if it fails, or its first runs
    do not show its gain, the next one.

    A recording has no other samples than those that chose, so all rivals stay in.
    """
    rounds = max(FINAL_OCCASIONS, _rounds(state, problem))
    failed = refuted(state.interleaved(problem, FINAL))
    left = [rival for rival in rivals if rival not in failed]
    first = [left] if state.measurer.is_replay else [[rival] for rival in left]
    finals: Interleaved = []
    for tried in first or [[]]:
        configs = [*dict.fromkeys([*tried, *beside])]
        finals = _measured(state, problem, configs, FINAL, rounds, final_seeds(state, problem))
        if not tried or any(is_shown(m) for m in finals if m.config in tried):
            break
    return finals


def _rounds(state: State, problem: Input) -> int:
    repeats = state.spec.measure.repeats
    return max(_BESIDE_BASELINES, repeats) if _baselines(state, state.space(problem)) else repeats


def _baselines(state: State, space: Space) -> dict[str, Config]:
    """Return the named baselines that are legal on an input; a recording has none."""
    named = {} if state.measurer.is_replay else state.spec.baselines_for(state.measurer.compiler)
    canonical = {name: space.canonical(config) for name, config in named.items()}
    return {name: config for name, config in canonical.items() if space.is_legal(config)}


def _may_win(state: State, problem: Input, config: Config) -> bool:
    """Whether a configuration may be the fastest, as far as the search shows.

    It may not where the search would have given it up.
    """
    measured, best = state.measured(problem).get(config), state.best(problem)
    if not state.is_same(config):
        return False
    if measured is None or measured.timing is None or best is None:
        return True
    return min(measured.timing.samples_s) <= state.spec.measure.give_up_at * best.time_s


def _note(state: State, report: InputReport) -> str:
    """Say why an input was not measured, or not measured again."""
    if not report.measured:
        why = "the time was up" if state.is_time_up() else "no sample fell on it"
        return state.left_out.get(report.problem, f"not measured: {why}")
    return state.left_out.get(report.problem, report.note)


def _measured(
    state: State,
    problem: Input,
    configs: Sequence[Config],
    stage: str,
    rounds: int,
    seeds: Sequence[int] = ONE_OCCASION,
) -> Interleaved:
    """Measure interleaved; results stored by an earlier command are used again."""
    stored, searched = state.interleaved(problem, stage), state.measured(problem)
    if stored and is_complete(stored[-1], configs, rounds=rounds, searched=searched):
        return stored[-1]
    return state.measure_interleaved(problem, configs, stage=stage, rounds=rounds, seeds=seeds)
