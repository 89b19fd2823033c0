"""The ablation stage after the finals: the flags that each winner needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from harness.analysis.coverage import winner_reports
from harness.analysis.inputs import InputReport
from harness.core.config_diff import differing
from harness.core.records import Config, Input, Interleaved, Measurement, shown
from harness.results import ABLATION, by_configs
from harness.results.ablation import TOLERANCE, Ablation, AblationStep, StepResult
from harness.stats.timing import TimeRatio, time_ratio
from harness.tuning.finals import seeds_of
from harness.tuning.sharing import run_stage
from harness.tuning.state import State

_ROUNDS = 10  # at least, of the winner and the smaller configuration


def ablate_winners(state: State) -> None:
    """Find for each input whose winner sets flags the fewest flags that are as fast.

    Measurements are stored, and no pair is measured twice. Recordings are left alone: they have
    no times of configurations that were not recorded.
    """
    flags = [p.name for p in state.spec.tuned_for(state.measurer.compiler) if p.role == "flag"]
    work: list[tuple[Input, Config]] = []
    if flags and not state.measurer.is_replay:
        for report in winner_reports(state.results()):
            if report.best and report.problem in state.runs and _sets(report, flags):
                work.append((report.problem, report.best.config))

    def step(problem: Input, winner: Config) -> None:
        try:
            ablation = _ablated(state, problem, winner, flags)
        except _WinnerFailed as error:
            reason = "the winner failed when it was measured again, so its flags are unknown"
            state.warn(f"({problem}): {reason}: {error}")
        else:
            state.note_run(problem, {"reduced": ablation})

    run_stage(
        state,
        ABLATION,
        "flags that the winners need",
        work,
        step,
        "which flags {} winners need",
    )


def _sets(report: InputReport, flags: Sequence[str]) -> bool:
    """Whether the winner sets a flag and more, and is significantly faster than the default: a flag
    alone is what makes it faster."""
    best = report.best
    default = report.baseline
    if best is None or default is None or report.speedup is None or not report.speedup.is_faster:
        return False
    changed = differing(best.config, default.config)
    return len(changed) > 1 and not changed.keys().isdisjoint(flags)


def _ablated(state: State, problem: Input, winner: Config, flags: Sequence[str]) -> Ablation:
    """Ablate the winner of an input; what an earlier command measured is used again."""
    space = state.space(problem)
    default = state.space(problem).default
    rounds = max(_ROUNDS, state.spec.measure.repeats)
    stored = by_configs(state.ledger.interleaved(problem, ABLATION))
    seeds = seeds_of(state.data_seed(problem))

    def measure(configs: Sequence[Config]) -> Interleaved:
        """Recall each stored session once: a repeated request wants fresh samples."""
        earlier = stored.get(tuple(configs), [])
        while earlier:
            session = earlier.pop(0)
            if session[0].timing and session[0].timing.count == rounds:
                return session
        return state.measure_interleaved(
            problem, configs, stage=ABLATION, rounds=rounds, seeds=seeds
        )

    def code(config: Config) -> str:
        """Return the digest of the configuration that was measured for the machine code of this
        one. If it was not built before, it is; with other code than all before it is measured."""
        measured = state.ledger.searched(problem).get(config)
        if measured is None:
            sessions = stored.setdefault((config,), [])
            if not sessions:
                device = state.measurer_for(problem)
                sessions.append([device.measure(space, problem, config, None)])
                state.add_measurements(problem, ABLATION, sessions[0])
            (measured,) = sessions[0]
        return measured.shared_with or measured.config.digest

    unset = {name: default[name] for name in flags if name in default}
    bare = Config({**winner, **unset})

    def legal(config: Config) -> Config | None:
        canonical = space.canonical(config)
        return canonical if space.is_legal(canonical) else None

    confidence = state.spec.measure.confidence
    return ablate(winner, bare, measure=measure, code=code, legal=legal, confidence=confidence)


def ablate(
    winner: Config,
    default: Config,
    *,
    measure: Callable[[Sequence[Config]], Sequence[Measurement]],
    code: Callable[[Config], Hashable],
    legal: Callable[[Config], Config | None],
    confidence: float = 0.95,
) -> Ablation:
    """Set the winner's parameters back to their defaults one by one, while the time stays within
    noise of the winner's and its estimate is at most TOLERANCE longer.

    `measure` takes fresh interleaved samples. Where `code`, which is equal for equal machine code,
    stays, a setting is dropped without them. `legal` returns the canonical form, with irrelevant
    parameters at their defaults; None for an illegal configuration.

    Each step is compared with the winner, not with the step before, so small losses do not add
    up. Rounds go on until one drops nothing. Then everything dropped is judged once more; while
    that is slower, the setting dropped last is put back. Raises _WinnerFailed.
    """

    def over_winner(tried: Config) -> TimeRatio | None:
        """Return its time over the winner's; None where it fails."""
        of_winner, of_tried = measure([winner, tried])
        if of_winner.timing is None:
            raise _WinnerFailed(of_winner.message)
        if of_tried.timing is None:
            return None
        return time_ratio(of_tried.timing, of_winner.timing, confidence)

    here = winner
    steps: list[AblationStep] = []
    dropped: list[tuple[str, Config]] = []  # with the configuration before
    is_moving = True
    while is_moving:
        is_moving = False
        steps = [step for step in steps if step.result is StepResult.DROPPED]
        for name in differing(here, default):
            if here[name] == default[name]:
                continue  # it became irrelevant when another parameter was set back
            value = shown(here[name])
            tried = legal(Config({**here, name: default[name]}))
            if tried is None:
                steps.append(AblationStep(name, value, StepResult.ILLEGAL, None))
                continue
            result = StepResult.DROPPED
            ratio = None
            if code(tried) != code(here):
                ratio = over_winner(tried)
                result = _judged(ratio)
            steps.append(AblationStep(name, value, result, ratio))
            if result is StepResult.DROPPED:
                dropped.append((name, here))
                here = tried
                is_moving = True
    ratio = None
    while here != winner and code(here) != code(winner):
        ratio = over_winner(here)
        if _judged(ratio) is StepResult.DROPPED:
            break
        name, here = dropped.pop()
        steps.append(AblationStep(name, shown(winner[name]), StepResult.PUT_BACK, ratio))
        ratio = None
    return Ablation(winner, here, default, tuple(steps), ratio)


class _WinnerFailed(Exception):
    """The winner fails when it is measured again, so there is nothing to compare with."""


def _judged(ratio: TimeRatio | None) -> StepResult:
    """Judge a time by its ratio to the winner's; None is a failure."""
    if ratio is None:
        return StepResult.FAILED
    if ratio.value > 1 and ratio.is_significant:
        return StepResult.SLOWER
    if ratio.value > 1 + TOLERANCE:
        return StepResult.SEEMS_SLOWER
    return StepResult.DROPPED
