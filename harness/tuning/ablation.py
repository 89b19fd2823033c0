"""Ablation of a winner: set back to its default each setting that the time does not need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.core.config_diff import differing
from harness.core.records import Config, Measurement, shown
from harness.results.ablation import TOLERANCE, Ablation, AblationStep, StepResult
from harness.stats.timing import TimeRatio, time_ratio

MeasureInterleaved = Callable[[Sequence[Config]], Sequence[Measurement]]
"""Measures configurations with fresh interleaved samples; results in the same order."""

Legal = Callable[[Config], Config | None]
"""The canonical form of a configuration, with irrelevant parameters at their defaults; None for an
illegal one."""


def ablate(
    winner: Config,
    default: Config,
    measure: MeasureInterleaved,
    legal: Legal,
    confidence: float = 0.95,
) -> Ablation:
    """Set the winner's parameters back to their defaults one by one, while the time stays within
    noise of the winner's and its estimate is at most TOLERANCE longer.

    Each step is compared with the winner, not with the step before, so small losses do not add
    up. Rounds go on until one drops nothing. Then everything dropped is judged once more; while
    that is slower, the setting dropped last is put back.
    """
    here, steps = winner, list[AblationStep]()
    attempts = _Attempts(winner, measure, legal, confidence)
    dropped: list[tuple[str, Config]] = []  # with the configuration before
    is_moving = True
    while is_moving:
        is_moving = False
        steps = [step for step in steps if step.result is StepResult.DROPPED]
        for name in differing(here, default):
            if here[name] == default[name]:
                continue  # it became irrelevant when another parameter was set back
            step, found = attempts.without(name, here, default)
            steps.append(step)
            if step.result is StepResult.DROPPED:
                dropped.append((name, here))
                here, is_moving = found, True
    ratio = None
    while here != winner:
        ratio = attempts.ratio(here)
        if ratio is not None and _judged(ratio) is StepResult.DROPPED:
            break
        name, here = dropped.pop()
        steps.append(AblationStep(name, shown(winner[name]), StepResult.PUT_BACK, ratio))
        ratio = None
    return Ablation(winner, here, default, tuple(steps), ratio)


def without_flags(winner: Config, default: Config, flags: Sequence[str]) -> Config:
    """Return the winner with its flags at their defaults."""
    return Config({**winner, **{name: default[name] for name in flags if name in default}})


class WinnerFailed(Exception):
    """The winner fails when it is measured again, so there is nothing to compare with."""


def _judged(ratio: TimeRatio) -> StepResult:
    """Judge a time by its ratio to the winner's."""
    if ratio.value > 1 and ratio.is_significant:
        return StepResult.SLOWER
    return StepResult.SEEMS_SLOWER if ratio.value > 1 + TOLERANCE else StepResult.DROPPED


@dataclass(frozen=True)
class _Attempts:
    """Compares configurations with the winner."""

    winner: Config
    measure: MeasureInterleaved
    legal: Legal
    confidence: float

    def without(self, name: str, here: Config, default: Config) -> tuple[AblationStep, Config]:
        """Set one parameter back; return the step, and the configuration to go on from if the
        parameter is dropped."""
        value = shown(here[name])
        tried = self.legal(Config({**here, name: default[name]}))
        if tried is None:
            return AblationStep(name, value, StepResult.ILLEGAL, None), here
        ratio = self.ratio(tried)
        if ratio is None:
            return AblationStep(name, value, StepResult.FAILED, None), here
        return AblationStep(name, value, _judged(ratio), ratio), tried

    def ratio(self, tried: Config) -> TimeRatio | None:
        """Return its time over the winner's; None where it fails. Raises WinnerFailed."""
        beside, found = self.measure([self.winner, tried])
        if beside.timing is None:
            raise WinnerFailed(beside.message)
        if found.timing is None:
            return None
        return time_ratio(found.timing, beside.timing, self.confidence)
