"""What is learnt across inputs from: winners on the other inputs, and few candidates in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.core.records import Config, Input, Outcome
from harness.dispatch.candidates import applies_where, shortlist
from harness.results import CANDIDATE, Stored
from harness.stats.interleaved import merge_sessions
from harness.tuning.interleaved import is_whole, measured_in_turn
from harness.tuning.state import State


def cross_measure(state: State) -> None:
    """Measure every input's winner on every other input, where it is legal and missing; and the
    default, where the technique did not start from it."""
    best = map(state.best, state.spec.inputs)
    default = state.space(state.spec.inputs[0]).default
    winners = dict.fromkeys([default, *(m.config for m in best if m is not None)])
    missing = [
        (given, config)
        for given in state.spec.inputs
        for config in dict.fromkeys(map(state.space(given).canonical, winners))
        if given in state.runs
        and config not in state.known(given)
        and state.space(given).is_legal(config)
    ]
    state.display.begin_stage("default and winners on the other inputs", len(missing))
    state.stages["cross"] = ""
    for number, (given, config) in enumerate(missing):
        if state.is_time_up():
            left = f"{len(missing) - number} of {len(missing)} measurements"
            state.leave_out("cross", f"{left} of the default and winners on other inputs are")
            return
        with state.telling(given):
            _measure(state, given, config)
        state.display.step(str(given))


def _measure(state: State, given: Input, config: Config) -> None:
    found = state.measurer.measure(state.space(given), given, config, None)
    row = state.store.add_measurement(state.runs[given], state.plan(given), "cross", found)
    state.store.commit()
    state.known(given)[config] = Stored(row, found)


def measure_candidates(state: State) -> None:
    """Measure the configurations that suit the inputs best once more on every input, in turn,
    unless they were.

    What a search measures minutes apart differs by what the machine does meanwhile, and of many
    noisy times the least is too low. Nothing is done for recordings, which would answer the same.
    """
    wanted = [] if state.measurer.is_replay else list(_wanted(state))
    state.display.begin_stage("candidates on every input, in turn", len(wanted))
    state.stages[CANDIDATE] = ""
    for number, (given, configs) in enumerate(wanted):
        if state.is_time_up():
            left = f"the candidates' measurement in turn on {len(wanted) - number} of {len(wanted)}"
            state.leave_out(CANDIDATE, f"{left} inputs is")
            return
        with state.telling(given):
            measured_in_turn(state, given, configs, CANDIDATE, _rounds(state))
        state.display.step(str(given))


def _rounds(state: State) -> int:
    return max(2, state.spec.measure.repeats)


def _wanted(state: State) -> Iterator[tuple[Input, list[Config]]]:
    """Of each input the candidates that work there, where they were not measured in turn."""
    searched = [given for given in state.spec.inputs if given in state.runs and state.best(given)]
    known = {given: state.measured(given) for given in searched}
    default = state.space(state.spec.inputs[0]).default
    limits = state.measurer.limits
    constraints = [constraint.expression for constraint in state.spec.constraints]
    applies = applies_where(constraints, limits.names() if limits else {})
    candidates = shortlist(known, default, applies)
    for given, row in known.items():
        configs = [c for c in candidates if c in row and row[c].outcome is Outcome.OK]
        if configs and not _is_measured(state, given, configs):
            yield given, configs


def _is_measured(state: State, given: Input, configs: Sequence[Config]) -> bool:
    """Whether these were measured in turn before, and none has failed since by what may be chance
    or has nothing in common with later turns."""
    turns = state.store.turns(state.plan(given), CANDIDATE)
    known, rounds = state.known(given), _rounds(state)
    found = merge_sessions(turns)
    return any(is_whole(turn, configs, rounds, known) for turn in turns) and all(
        config in found and (found[config].timing or found[config].outcome.repeats)
        for config in configs
    )
