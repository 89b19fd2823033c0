"""Measurements for learning across inputs: winners on other inputs, candidates on all inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from harness.core.records import Config, Input, Interleaved, Measurement, Outcome, StopReason
from harness.dispatch.candidates import Applies, applies_where, interleaved_matrix, shortlist
from harness.dispatch.single import single_configs
from harness.results import CANDIDATE, CHOICE, CROSS, FINAL, MeasurementRow
from harness.space.constrained import launch_constraints
from harness.stats.interleaved import merge_sessions
from harness.tuning.sharing import run_stage
from harness.tuning.state import State

_DEFAULTS = "defaults"  # the name of the stage


def cross_measure(state: State) -> None:
    """Measure the default and every input's winner on each other input, where missing and legal."""
    best = filter(None, map(state.best, state.spec.inputs))
    configs = [state.space(state.spec.inputs[0]).default, *(m.config for m in best)]
    what = "the default and winners on other inputs"
    _measure_missing(state, CROSS, "default and winners on the other inputs", configs, what)


def measure_defaults(state: State) -> None:
    """Measure the default on each input where no search did: winners are compared with it."""
    configs = [state.space(state.spec.inputs[0]).default]
    if _missing(state, configs):
        _measure_missing(state, _DEFAULTS, "default on the inputs", configs, "the default")


def _measure_missing(
    state: State, stage: str, title: str, configs: Iterable[Config], what: str
) -> None:
    missing = _missing(state, configs)
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
    searched = searched_inputs(state)
    candidates = shortlist(searched, state.space(state.spec.inputs[0]).default, applies_on(state))
    for problem, row in searched.items():
        configs = [c for c in candidates if c in row and row[c].outcome is Outcome.OK]
        if configs and not _is_measured(state, problem, configs):
            yield problem, configs


def searched_inputs(state: State) -> dict[Input, Mapping[Config, Measurement]]:
    """Return the measurements of each input that was searched and on which anything works."""
    searched = [p for p in state.spec.inputs if p in state.runs and state.best(p)]
    return {problem: state.measured(problem) for problem in searched}


def single_on(state: State) -> dict[Input, Config]:
    """Return, for each input, the configuration to use where one serves all inputs: the best single
    candidate or, where that is illegal, the next. Empty where candidates were not measured on
    every input."""
    searched = searched_inputs(state)
    sessions = {p: groups for p in searched if (groups := state.interleaved(p, CANDIDATE))}
    stages = (CHOICE, FINAL, CANDIDATE)
    every = {
        p: [group for stage in stages for group in state.interleaved(p, stage)] for p in searched
    }
    default = state.space(state.spec.inputs[0]).default
    matrix = interleaved_matrix(searched, every, sessions, default, applies_on(state))
    if matrix is None:
        return {}
    return {p: config for p, config in zip(searched, single_configs(matrix), strict=True) if config}


def applies_on(state: State) -> Applies:
    """Return a test of whether a configuration may be chosen on an input."""
    limits = state.measurer.limits
    constraints = [constraint.expression for constraint in state.spec.constraints]
    constraints += launch_constraints(state.spec.launch, limits)
    return applies_where(constraints, limits.names() if limits else {})


def _is_measured(state: State, problem: Input, configs: Sequence[Config]) -> bool:
    """Whether these were measured interleaved. One that failed later by what may be chance, or
    that shares no configuration with later measurements, must be measured again."""
    groups = state.interleaved(problem, CANDIDATE)
    searched, rounds = state.measured(problem), _rounds(state)
    merged = merge_sessions(groups)
    return any(
        is_complete(group, configs, rounds=rounds, known=searched) for group in groups
    ) and all(
        config in merged and (merged[config].timing or merged[config].outcome.settles)
        for config in configs
    )


def is_complete(
    stored: Interleaved,
    configs: Sequence[Config],
    *,
    rounds: int,
    known: Mapping[Config, object],
) -> bool:
    """Whether stored results are of exactly these configurations, each with all its rounds.

    `known` holds the configurations that the search measured. Results in which nothing worked are
    incomplete, since that may have been the device's fault.
    """
    return (
        {measured.config for measured in stored} == set(configs)
        and any(measured.timing for measured in stored)
        and all(_is_final(measured, rounds, measured.config in known) for measured in stored)
    )


def _is_final(measured: Measurement, rounds: int, has_worked: bool) -> bool:
    """Whether a result stands. A timeout or crash of a configuration that worked in the search may
    be chance; other failures stand."""
    timing = measured.timing
    if timing is None:
        return measured.outcome.settles or not has_worked
    return timing.count == rounds or timing.stopped is StopReason.RECORDED
