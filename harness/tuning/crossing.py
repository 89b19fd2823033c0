"""Measurements for learning across inputs: winners on other inputs, candidates on all inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from harness.constraints.expression import Expression
from harness.core.records import Config, Input, Interleaved, Measurement, Outcome, StopReason
from harness.dispatch.candidates import Applies, applies_where, interleaved_matrix, shortlist
from harness.dispatch.single import single_configs
from harness.results import CANDIDATE, CHOICE, CROSS, FINAL, MeasurementRow
from harness.space.constrained import launch_constraints
from harness.stats.interleaved import merge_sessions
from harness.tuning.sharing import run_stage
from harness.tuning.state import State

_DEFAULTS = "defaults"  # the name of the stage


def choose_same(state: State) -> None:
    """Choose the values of the parameters that the space wants the same on all inputs: those whose
    best configurations have the least geometric mean time, and work on all inputs."""
    names = state.spec.search.same_on_all_inputs
    if not names:
        return
    best_s: dict[Config, list[float]] = {}
    searched = [p for p in state.spec.inputs if p in state.runs and state.best(p)]
    for problem in searched:
        own: dict[Config, float] = {}
        for config, measured in state.measured(problem).items():
            values = Config({name: config[name] for name in names if name in config})
            own[values] = min(own.get(values, math.inf), measured.time_s)
        for values, time_s in own.items():
            best_s.setdefault(values, []).append(time_s)
    logs = {
        values: math.fsum(map(math.log, times_s))
        for values, times_s in best_s.items()
        if len(times_s) == len(searched) and math.isfinite(max(times_s))
    }
    if not logs:
        state.warn(f"no value of {', '.join(names)} works on all inputs, so that each has its own")
        return
    chosen = min(logs, key=lambda values: logs[values])
    state.same = tuple(Expression.equal(name, value) for name, value in chosen.items())
    state.display.note(f"the same on all inputs: {chosen}")


def cross_measure(state: State, *, winners: bool) -> None:
    """Measure the default on each input where that is missing and legal, since winners are compared
    with it; with `winners`, every input's winner as well."""
    best = filter(None, map(state.best, state.spec.inputs)) if winners else ()
    configs = [state.space(state.spec.inputs[0]).default, *(m.config for m in best)]
    missing = _missing(state, configs)
    stage, title, what = _DEFAULTS, "default on the inputs", "the default"
    if winners:
        stage, title = CROSS, "default and winners on the other inputs"
        what = "the default and winners on other inputs"
    if winners or missing:
        step = partial(_measure, state)
        run_stage(state, stage, title, missing, step, lambda left: f"{left} measurements of {what}")


def _missing(state: State, configs: Iterable[Config]) -> list[tuple[Input, Config]]:
    """Return the inputs on which configurations are legal and were not measured, with these."""
    return [
        (problem, config)
        for problem in state.spec.inputs
        for config in dict.fromkeys(map(state.space(problem).canonical, configs))
        if problem in state.runs
        and config not in state.measured(problem)
        and state.space(problem).is_legal(config)
    ]


def _measure(state: State, problem: Input, config: Config) -> None:
    measured = state.measurer_for(problem).measure(state.space(problem), problem, config, None)
    run_id, plan, store = state.runs[problem], state.run_plan(problem), state.store
    (row,) = store.transact(lambda: store.add_measurements(run_id, plan, CROSS, [measured]))
    state.note_device(problem)
    state.known(problem)[config] = MeasurementRow(row, CROSS, measured)
    state.crossed.add((problem, config))


def measure_candidates(state: State) -> None:
    """Measure a dispatcher's candidates on every input, interleaved, unless that was done.

    A search measures configurations minutes apart, while the machine's state drifts, and the
    least of many noisy times is too low. Recordings are not asked, since they would answer the
    same again.
    """
    wanted = [] if state.measurer.is_replay else list(_wanted(state))
    run_stage(
        state,
        CANDIDATE,
        "candidates on every input, interleaved",
        wanted,
        partial(state.measure_interleaved, stage=CANDIDATE, rounds=_rounds(state)),
        lambda left: f"candidates on {left} inputs",
    )


def _rounds(state: State) -> int:
    return max(2, state.spec.measure.repeats)


def _wanted(state: State) -> Iterator[tuple[Input, list[Config]]]:
    """Yield inputs with the working candidates, unless these were measured interleaved."""
    searched = _searched_inputs(state)
    default = state.space(state.spec.inputs[0]).default
    candidates = shortlist(searched, default, _applies_on(state))
    if not state.is_same(default):
        candidates = [default, *candidates]  # others are compared with it
    for problem, row in searched.items():
        configs = [c for c in candidates if c in row and row[c].outcome is Outcome.OK]
        if configs and not _is_measured(state, problem, configs):
            yield problem, configs


def _searched_inputs(state: State) -> dict[Input, Mapping[Config, Measurement]]:
    """Return the measurements of each input that was searched and on which anything works."""
    searched = [p for p in state.spec.inputs if p in state.runs and state.best(p)]
    return {problem: state.eligible(problem) for problem in searched}


def single_on(state: State) -> dict[Input, Config]:
    """Return, for each input, the configuration to use where one serves all inputs: the best single
    candidate or, where that is illegal, the next. Empty where candidates were not measured on
    every input."""
    searched = _searched_inputs(state)
    sessions = {p: groups for p in searched if (groups := state.interleaved(p, CANDIDATE))}
    stages = (CHOICE, FINAL, CANDIDATE)
    every = {
        p: [group for stage in stages for group in state.interleaved(p, stage)] for p in searched
    }
    default = state.space(state.spec.inputs[0]).default
    matrix = interleaved_matrix(searched, every, sessions, default, _applies_on(state))
    if matrix is None:
        return {}
    return {p: config for p, config in zip(searched, single_configs(matrix), strict=True) if config}


def _applies_on(state: State) -> Applies:
    """Return a test of whether a configuration may be chosen on an input."""
    limits = state.measurer.limits
    constraints = [constraint.expression for constraint in state.spec.constraints]
    constraints += [*launch_constraints(state.spec.launch, limits), *state.same]
    return applies_where(constraints, limits.names() if limits else {})


def _is_measured(state: State, problem: Input, configs: Sequence[Config]) -> bool:
    """Whether these were measured interleaved. One that failed later by what may be chance, or
    that shares no configuration with later measurements, must be measured again."""
    groups = state.interleaved(problem, CANDIDATE)
    searched, rounds = state.measured(problem), _rounds(state)
    merged = merge_sessions(groups)
    return any(
        is_complete(group, configs, rounds=rounds, searched=searched) for group in groups
    ) and all(
        config in merged and (merged[config].timing or merged[config].outcome.settles)
        for config in configs
    )


def is_complete(
    stored: Interleaved,
    configs: Sequence[Config],
    *,
    rounds: int,
    searched: Mapping[Config, object],
) -> bool:
    """Whether stored results are of exactly these configurations, each with all its rounds.

    `searched` holds the configurations that the search measured. Results in which nothing worked
    are incomplete, since that may have been the device's fault.
    """
    return (
        {measured.config for measured in stored} == set(configs)
        and any(measured.timing for measured in stored)
        and all(_is_final(measured, rounds, measured.config in searched) for measured in stored)
    )


def _is_final(measured: Measurement, rounds: int, has_worked: bool) -> bool:
    """Whether a result stands. A timeout or crash of a configuration that worked in the search may
    be chance; other failures stand."""
    timing = measured.timing
    if timing is None:
        return measured.outcome.settles or not has_worked
    return timing.count == rounds or timing.stopped is StopReason.RECORDED
