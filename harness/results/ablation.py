"""The stored record of an ablation: which settings of a winner its time needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from harness.core.config_diff import differing, settings_told
from harness.core.records import Config
from harness.stats.timing import TimeRatio

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
    ratio: TimeRatio | None

    def __str__(self) -> str:
        told = f"{self.name}={self.value}: {self.verdict}"
        return f"{told} ({self.ratio.text('.3f', 'x')} of the time)" if self.ratio else told


@dataclass(frozen=True)
class Reduction:
    """A winner, what is left of it, and each step. `ratio` is the time of what is left over the
    winner's, measured again in turn; None where nothing could be dropped."""

    winner: Config
    config: Config
    default: Config
    steps: tuple[Step, ...]
    ratio: TimeRatio | None

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
        ratio = f"{self.ratio.text('.3f', 'x')} of the winner's time" if self.ratio else ""
        return "; ".join(part for part in (told, ratio, self.doubt) if part)


def _numbers(ratio: TimeRatio | None) -> tuple[float, float, float, int] | None:
    return None if ratio is None else (ratio.value, ratio.low, ratio.high, ratio.count)


def _ratio(numbers: tuple[float, float, float, int] | None) -> TimeRatio | None:
    return None if numbers is None else TimeRatio(*numbers)
