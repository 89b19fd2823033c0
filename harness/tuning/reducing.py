"""After the finals: which of a winner's flags are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement
from harness.results import REDUCED, by_configs
from harness.results.ablation import Reduction
from harness.tuning.ablation import WinnerFailed, reduce, without_flags
from harness.tuning.interleaved import measured_in_turn
from harness.tuning.state import State

_ROUNDS = 10  # at least; of the winner and of what may be left of it


def reduce_winners(state: State, reports: Sequence[InputReport]) -> dict[Input, Reduction]:
    """Of each input whose winner sets flags, the smallest set of them that is as fast.

    What is measured is kept; the same pairs are not measured twice. Nothing is done for
    recordings, where times of what was not recorded cannot be known.
    """
    flags = [p.name for p in state.spec.tuned_for(state.measurer.compiler) if p.role == "flag"]
    wanted = [] if state.measurer.is_replay else [r for r in reports if _sets(r, flags)]
    state.display.begin_stage("flags that the winners need", len(wanted))
    state.stages[REDUCED] = ""
    found = dict[Input, Reduction]()
    for number, report in enumerate(wanted):
        if state.is_time_up():
            told = f"{len(wanted) - number} of {len(wanted)} winners"
            state.leave_out(REDUCED, f"which flags {told} need is")
            break
        with state.telling(report.given):
            try:
                reduction = _reduced(state, report, flags)
            except WinnerFailed as error:
                told = "the winner failed when it was measured again, and is not reduced"
                state.display.warn(f"({report.given}): {told}: {error}")
            else:
                found[report.given] = reduction
                state.store.note_run(state.runs[report.given], REDUCED, reduction.as_json())
                state.store.commit()
        state.display.step(str(report.given))
    return found


def _sets(report: InputReport, flags: Sequence[str]) -> bool:
    """Whether the winner sets two flags or more, and was measured again beside the default."""
    best, default = report.best, report.baseline
    if best is None or default is None or report.speedup is None:
        return False
    return sum(best.config[name] != default.config[name] for name in flags) > 1


def _reduced(state: State, report: InputReport, flags: Sequence[str]) -> Reduction:
    given, plan, space = report.given, state.plan(report.given), state.space(report.given)
    rounds = max(_ROUNDS, state.spec.measure.repeats)
    known = {
        pair: [turn for turn in there if _is_of(turn, rounds)]
        for pair, there in by_configs(state.store.turns(plan, REDUCED)).items()
    }
    used = Counter[tuple[Config, ...]]()
    assert report.best is not None

    def measure_in_turn(configs: Sequence[Config]) -> Sequence[Measurement]:
        pair = tuple(configs)
        there = known.setdefault(pair, [])
        used[pair] += 1
        if len(there) < used[pair]:  # asked for once more, it is measured once more
            there.append(measured_in_turn(state, given, configs, REDUCED, rounds))
        return there[used[pair] - 1]

    def legal(config: Config) -> Config | None:
        canonical = space.canonical(config)
        return canonical if space.is_legal(canonical) else None

    winner = report.best.config
    bare = without_flags(winner, space.default, flags)
    return reduce(winner, bare, measure_in_turn, legal, state.spec.measure.confidence)


def _is_of(turn: Sequence[Measurement], rounds: int) -> bool:
    """Whether the winner was measured as often as is asked for now."""
    timing = turn[0].timing
    return timing is not None and timing.count == rounds
