"""The smallest part of a winner that is as fast: what is set without need is set back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.core.config_diff import differing
from harness.core.records import Config, Measurement, shown
from harness.results.ablation import TOLERANCE, Reduction, Step, Verdict
from harness.stats.timing import TimeRatio, time_ratio

MeasureInTurn = Callable[[Sequence[Config]], Sequence[Measurement]]
"""Measures several configurations in turn, with fresh samples; results in the same order."""

Legal = Callable[[Config], Config | None]
"""The configuration as it is measured, with what does not matter at its default; None for an
illegal one."""


def reduce(
    winner: Config,
    default: Config,
    measure_in_turn: MeasureInTurn,
    legal: Legal,
    confidence: float = 0.95,
) -> Reduction:
    """Set the winner's parameters back to their defaults one by one, as long as the time stays
    within noise of the winner's and seems no longer by more than TOLERANCE.

    Every step is measured beside the winner itself, not beside the step before, so that small
    losses do not add up. Rounds go on until one drops nothing. At the end all that was dropped
    is judged once more; while that is slower, what was dropped last is put back.
    """
    here, steps = winner, list[Step]()
    attempts = _Attempts(winner, measure_in_turn, legal, confidence)
    dropped: list[tuple[str, Config]] = []  # with the configuration before
    is_moving = True
    while is_moving:
        is_moving = False
        steps = [step for step in steps if step.verdict is Verdict.DROPPED]
        for name in differing(here, default):
            if here[name] == default[name]:
                continue  # another one's default made it matter no more
            step, found = attempts.without(name, here, default)
            steps.append(step)
            if step.verdict is Verdict.DROPPED:
                dropped.append((name, here))
                here, is_moving = found, True
    ratio = None
    while here != winner:
        ratio = attempts.ratio(here)
        if ratio is not None and _judged(ratio) is Verdict.DROPPED:
            break
        name, here = dropped.pop()
        steps.append(Step(name, shown(winner[name]), Verdict.PUT_BACK, ratio))
        ratio = None
    return Reduction(winner, here, default, tuple(steps), ratio)


def without_flags(winner: Config, default: Config, flags: Sequence[str]) -> Config:
    """The winner with its flags at their defaults: what is set back is flags alone."""
    return Config({**winner, **{name: default[name] for name in flags if name in default}})


class WinnerFailed(Exception):
    """The winner fails when it is measured again: there is nothing to compare with."""


def _judged(ratio: TimeRatio) -> Verdict:
    """Of a time beside the winner's."""
    if ratio.value > 1 and ratio.is_significant:
        return Verdict.SLOWER
    return Verdict.SEEMS_SLOWER if ratio.value > 1 + TOLERANCE else Verdict.DROPPED


@dataclass(frozen=True)
class _Attempts:
    """Configurations beside the winner."""

    winner: Config
    measure_in_turn: MeasureInTurn
    legal: Legal
    confidence: float

    def without(self, name: str, here: Config, default: Config) -> tuple[Step, Config]:
        """Set one parameter back; the configuration is the one to go on from if it is dropped."""
        value = shown(here[name])
        tried = self.legal(Config({**here, name: default[name]}))
        if tried is None:
            return Step(name, value, Verdict.ILLEGAL, None), here
        ratio = self.ratio(tried)
        if ratio is None:
            return Step(name, value, Verdict.FAILED, None), here
        return Step(name, value, _judged(ratio), ratio), tried

    def ratio(self, tried: Config) -> TimeRatio | None:
        """Its time over the winner's; None where it fails. Raises WinnerFailed."""
        beside, found = self.measure_in_turn([self.winner, tried])
        if beside.timing is None:
            raise WinnerFailed(beside.message)
        if found.timing is None:
            return None
        return time_ratio(found.timing, beside.timing, self.confidence)
