"""The stored record of an ablation: the settings that a winner needs to be fast."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from harness.core.config_diff import differing, settings_text
from harness.core.records import Config
from harness.stats.timing import TimeRatio

TOLERANCE = 0.05
"""The share of the winner's time that dropping settings may cost, by the estimate; if the interval
reaches beyond, the ablation is undecided."""


class StepResult(str, Enum):
    """The result of setting a parameter back."""

    DROPPED = "dropped"
    SLOWER = "slower without it"
    SEEMS_SLOWER = "seems slower without it, within noise"
    FAILED = "fails without it"
    ILLEGAL = "illegal without it"
    PUT_BACK = "put back: the rest was slower, or failed"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class AblationStep:
    """A parameter of the winner that was set back to its default. `ratio` is the time without it
    over the winner's, from interleaved samples; None where nothing was timed."""

    name: str
    value: str
    result: StepResult
    ratio: TimeRatio | None

    def __str__(self) -> str:
        text = f"{self.name}={self.value}: {self.result}"
        return f"{text} ({self.ratio.text('.3f', 'x')} of the time)" if self.ratio else text


@dataclass(frozen=True)
class Ablation:
    """A winner, the smallest part of it that is as fast, and each step. `ratio` is the part's time
    over the winner's, from fresh interleaved samples; None where nothing could be dropped."""

    winner: Config
    config: Config
    default: Config
    steps: tuple[AblationStep, ...]
    ratio: TimeRatio | None

    def as_json(self) -> str:
        """Return the JSON text that `from_json` reads."""
        return json.dumps(
            {
                "winner": dict(self.winner),
                "config": dict(self.config),
                "default": dict(self.default),
                "steps": [[s.name, s.value, s.result.name, _numbers(s.ratio)] for s in self.steps],
                "ratio": _numbers(self.ratio),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Ablation:
        """Read a text of `as_json`. Raises ValueError, TypeError or KeyError for another text."""
        read = json.loads(text)
        return cls(
            Config(read["winner"]),
            Config(read["config"]),
            Config(read["default"]),
            tuple(AblationStep(n, v, StepResult[w], _ratio(r)) for n, v, w, r in read["steps"]),
            _ratio(read["ratio"]),
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters that are left at other values than their defaults."""
        return tuple(differing(self.config, self.default))

    @property
    def undecided(self) -> str:
        """What noise leaves undecided, as text; empty for nothing."""
        reasons = []
        if self.ratio is not None and self.ratio.high > 1 + TOLERANCE:
            reasons.append(f"up to {self.ratio.high:.3f}x of the winner's time")
        kept = [s.name for s in self.steps if s.result is StepResult.SEEMS_SLOWER]
        if kept:
            reasons.append(f"whether {', '.join(dict.fromkeys(kept))} matters")
        return f"undecided: {'; '.join(reasons)}" if reasons else ""

    def __str__(self) -> str:
        named = settings_text(differing(self.config, self.default)) or "none"
        whole = len(differing(self.winner, self.default))
        needed = f"{len(self.needed)} of {whole} settings are needed: {named}"
        ratio = f"{self.ratio.text('.3f', 'x')} of the winner's time" if self.ratio else ""
        return "; ".join(part for part in (needed, ratio, self.undecided) if part)


_Numbers = tuple[float, float, float, int, float]
"""The value, low, high, count and p-value of a ratio; older databases have no p-value."""


def _numbers(ratio: TimeRatio | None) -> _Numbers | None:
    return (
        None if ratio is None else (ratio.value, ratio.low, ratio.high, ratio.count, ratio.p_value)
    )


def _ratio(numbers: _Numbers | None) -> TimeRatio | None:
    return None if numbers is None else TimeRatio(*numbers)
