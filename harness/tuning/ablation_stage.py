"""The ablation stage after the finals: the flags that each winner needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement
from harness.results import ABLATION, by_configs
from harness.results.ablation import Ablation
from harness.tuning.ablation import WinnerFailed, ablate, without_flags
from harness.tuning.finals import FINAL_SEEDS
from harness.tuning.interleaved import measure_interleaved
from harness.tuning.state import State

_ROUNDS = 10  # at least, of the winner and the smaller configuration


def ablate_winners(state: State, reports: Sequence[InputReport]) -> dict[Input, Ablation]:
    """Find for each input whose winner sets flags the fewest flags that are as fast.

    Measurements are stored, and no pair is measured twice. Recordings are left alone: they have
    no times of configurations that were not recorded.
    """
    flags = [p.name for p in state.spec.tuned_for(state.measurer.compiler) if p.role == "flag"]
    own = () if state.measurer.is_replay else reports
    chosen = [report for report in own if _sets(report, flags)]
    found: dict[Input, Ablation] = {}

    def step(problem: Input, report: InputReport) -> None:
        try:
            found[problem] = _ablated(state, report, flags)
        except WinnerFailed as error:
            reason = "the winner failed when it was measured again, so its flags are unknown"
            state.display.warn(f"({problem}): {reason}: {error}")
        else:
            store, run_id, text = state.store, state.runs[problem], found[problem].as_json()
            store.transact(lambda: store.note_run(run_id, ABLATION, text))

    state.run_stage(
        ABLATION,
        "flags that the winners need",
        [(report.problem, report) for report in chosen],
        step,
        lambda left: f"which flags {left} winners need",
    )
    return found


def _sets(report: InputReport, flags: Sequence[str]) -> bool:
    """Whether the winner sets two flags or more, and is significantly faster than the default."""
    best, default = report.best, report.baseline
    if best is None or default is None or report.speedup is None or not report.speedup.is_faster:
        return False
    return sum(best.config[name] != default.config[name] for name in flags) > 1


def _ablated(state: State, report: InputReport, flags: Sequence[str]) -> Ablation:
    problem, space = report.problem, state.space(report.problem)
    rounds = max(_ROUNDS, state.spec.measure.repeats)
    stored = state.interleaved(problem, ABLATION)
    known = {
        pair: [found for found in of_pair if _has_rounds(found, rounds)]
        for pair, of_pair in by_configs(stored).items()
    }
    used = Counter[tuple[Config, ...]]()
    assert report.best is not None

    def measure(configs: Sequence[Config]) -> Sequence[Measurement]:
        pair = tuple(configs)
        of_pair = known.setdefault(pair, [])
        used[pair] += 1
        if len(of_pair) < used[pair]:  # a repeated request wants fresh samples
            of_pair.append(
                measure_interleaved(
                    state, problem, configs, stage=ABLATION, rounds=rounds, seeds=FINAL_SEEDS
                )
            )
        return of_pair[used[pair] - 1]

    def legal(config: Config) -> Config | None:
        canonical = space.canonical(config)
        return canonical if space.is_legal(canonical) else None

    winner = report.best.config
    bare = without_flags(winner, space.default, flags)
    return ablate(winner, bare, measure, legal, state.spec.measure.confidence)


def _has_rounds(found: Sequence[Measurement], rounds: int) -> bool:
    """Whether the winner was measured in as many rounds, and on as many occasions, as are wanted
    now."""
    timing = found[0].timing
    return timing is not None and (timing.count, len(timing.by_occasion)) == (
        rounds,
        len(FINAL_SEEDS),
    )
