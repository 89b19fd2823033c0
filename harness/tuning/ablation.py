"""The smallest part of a winner that is as fast: what is set without need is set back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from harness.core.config_diff import differing, settings_told
from harness.core.records import Config, Measurement, shown
from harness.stats.timing import Ratio, time_ratio

MeasureInTurn = Callable[[Sequence[Config]], Sequence[Measurement]]
"""Measures several configurations in turn, with fresh samples; results in the same order."""

Legal = Callable[[Config], Config | None]
"""The configuration as it is measured, with what does not matter at its default; None for an
illegal one."""


TOLERANCE = 0.05
"""Of the winner's time: nothing is dropped that seems to cost more, though it may be noise; and
what is left is undecided where its interval reaches beyond."""


class Verdict(str, Enum):
    """What came of setting a parameter back."""

    DROPPED = "dropped"
    SLOWER = "slower without it"
    SEEMS_SLOWER = "seems slower without it, within noise"
    FAILED = "fails without it"
    ILLEGAL = "illegal without it"
    PUT_BACK = "put back: the rest was slower, or failed"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Step:
    """A parameter of the winner that was set back to its default, and what came of it. `ratio` is
    the time without it over the winner's, measured in turn; None where nothing was timed."""

    name: str
    value: str
    verdict: Verdict
    ratio: Ratio | None

    def __str__(self) -> str:
        told = f"{self.name}={self.value}: {self.verdict}"
        return f"{told} ({_interval(self.ratio)} of the time)" if self.ratio else told


def _interval(ratio: Ratio) -> str:
    return f"{ratio.value:.3f}x [{ratio.low:.3f}, {ratio.high:.3f}]"


@dataclass(frozen=True)
class Reduction:
    """A winner, what is left of it, and each step. `ratio` is the time of what is left over the
    winner's, measured again in turn; None where nothing could be dropped."""

    winner: Config
    config: Config
    default: Config
    steps: tuple[Step, ...]
    ratio: Ratio | None

    def as_json(self) -> str:
        """As `from_json` reads it again."""
        return json.dumps(
            {
                "winner": dict(self.winner),
                "config": dict(self.config),
                "default": dict(self.default),
                "steps": [[s.name, s.value, s.verdict.name, _numbers(s.ratio)] for s in self.steps],
                "ratio": _numbers(self.ratio),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Reduction:
        """Raises ValueError, TypeError or KeyError for what `as_json` did not write."""
        told = json.loads(text)
        return cls(
            Config(told["winner"]),
            Config(told["config"]),
            Config(told["default"]),
            tuple(Step(n, v, Verdict[w], _ratio(r)) for n, v, w, r in told["steps"]),
            _ratio(told["ratio"]),
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters that are not at their default."""
        return tuple(differing(self.config, self.default))

    @property
    def doubt(self) -> str:
        """What the noise leaves undecided; empty for nothing."""
        doubts = []
        if self.ratio is not None and self.ratio.high > 1 + TOLERANCE:
            doubts.append(f"up to {self.ratio.high:.3f}x of the winner's time")
        kept = [s.name for s in self.steps if s.verdict is Verdict.SEEMS_SLOWER]
        if kept:
            doubts.append(f"whether {', '.join(dict.fromkeys(kept))} matters")
        return f"undecided: {'; '.join(doubts)}" if doubts else ""

    def __str__(self) -> str:
        named = settings_told(differing(self.config, self.default)) or "none"
        whole = len(differing(self.winner, self.default))
        told = f"{len(self.needed)} of {whole} settings are needed: {named}"
        ratio = f"{_interval(self.ratio)} of the winner's time" if self.ratio else ""
        return "; ".join(part for part in (told, ratio, self.doubt) if part)


def _numbers(ratio: Ratio | None) -> tuple[float, float, float, int] | None:
    return None if ratio is None else (ratio.value, ratio.low, ratio.high, ratio.count)


def _ratio(numbers: tuple[float, float, float, int] | None) -> Ratio | None:
    return None if numbers is None else Ratio(*numbers)


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


def _judged(ratio: Ratio) -> Verdict:
    """Of a time beside the winner's."""
    if ratio.value > 1 and ratio.is_clear:
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

    def ratio(self, tried: Config) -> Ratio | None:
        """Its time over the winner's; None where it fails. Raises WinnerFailed."""
        beside, found = self.measure_in_turn([self.winner, tried])
        if beside.timing is None:
            raise WinnerFailed(beside.message)
        if found.timing is None:
            return None
        return time_ratio(found.timing, beside.timing, self.confidence)
