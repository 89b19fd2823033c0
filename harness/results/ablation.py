"""The stored record of an ablation: the settings that a winner needs to be fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from harness.core.config_diff import differing, settings_text
from harness.core.records import Config, Input
from harness.stats.timing import TimeRatio

TOLERANCE = 0.05
"""The share of the winner's time that dropping settings may cost, by the estimate; if the interval
reaches beyond, noise hides which settings are needed."""


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

    @property
    def may_be_chance(self) -> bool:
        """Whether the setting was kept for a loss of time within noise."""
        if self.result is StepResult.PUT_BACK:
            return self.ratio is not None and not self.ratio.is_significant
        return self.result is StepResult.SEEMS_SLOWER

    def __str__(self) -> str:
        text = f"{self.name}={self.value}: {self.result}"
        return f"{text} ({self.ratio.text('.3f', 'x')} of the time)" if self.ratio else text


@dataclass(frozen=True)
class Ablation:
    """A winner, the smallest part of it that is as fast, and each step. `ratio` is the part's time
    over the winner's, from fresh interleaved samples; None where nothing could be dropped, or where
    the part has the winner's machine code."""

    winner: Config
    config: Config
    default: Config
    steps: tuple[AblationStep, ...]
    ratio: TimeRatio | None

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters that are left at other values than their defaults."""
        return tuple(differing(self.config, self.default))

    @property
    def is_decided(self) -> bool:
        """Whether noise hides neither what the dropped settings cost nor what a kept one is
        worth."""
        return not self._may_lose and not self._unclear

    @property
    def replaces_winner(self) -> bool:
        """Whether the part takes the winner's place: it loses nothing, or seems to gain. Ties go to
        the fewest changes."""
        return not self._may_lose or (self.ratio is not None and self.ratio.value <= 1)

    @property
    def is_alone(self) -> bool:
        """Whether the winner sets one parameter only, and needs it."""
        return self.is_decided and len(self.needed) == len(differing(self.winner, self.default)) < 2

    @property
    def _may_lose(self) -> bool:
        return self.ratio is not None and self.ratio.high > 1 + TOLERANCE

    @property
    def _unclear(self) -> tuple[str, ...]:
        """The settings that were kept because they seem to matter, within noise."""
        by_chance = {step.name for step in self.steps if step.may_be_chance}
        return tuple(name for name in self.needed if name in by_chance)

    def __str__(self) -> str:
        """Say which settings are needed or, where noise hides that, which are and which may be."""
        needed = differing(self.config, self.default)
        count = len(differing(self.winner, self.default))
        if not self.is_decided:
            return "; ".join(self._undecided(needed, count))
        verb = "is" if len(needed) == 1 else "are"
        names = settings_text(needed) or "none"
        text = f"{len(needed)} of {count} settings {verb} needed: {names}"
        return f"{text}; {self._time}" if self.ratio else text

    def _undecided(self, needed: Config, count: int) -> Iterator[str]:
        unclear = Config({name: needed[name] for name in self._unclear})
        sure = differing(needed, unclear)
        if sure:
            yield f"{settings_text(sure)} {'is' if len(sure) == 1 else 'are'} needed"
        if unclear:
            yield f"{settings_text(unclear)} may be needed"
        if self._may_lose and count == 1:
            only = settings_text(differing(self.winner, self.config))
            yield f"{only} may be needed: without it {self._time}"
        elif self._may_lose:
            others = "the others" if needed else f"any of {count} settings"
            yield f"{others} may be needed: without them {self._time}"

    @property
    def _time(self) -> str:
        assert self.ratio is not None
        return f"{self.ratio.text('.3f', 'x')} of the winner's time"


def ablation_lines(ablations: Mapping[Input, Ablation]) -> Iterator[str]:
    """Yield the flags that each winner needs, then the winners where noise hides which, with
    advice; nothing of a winner with one flag, which it needs."""
    parts = {
        True: "Flags that the winners need (without the others, which they set too, the time is "
        f"at most {TOLERANCE:.0%} longer, within noise):",
        False: "Flags that noise leaves open. To decide, close other programs or use more "
        "--repeats:",
    }
    for is_decided, heading in parts.items():
        lines: list[str] = []
        for problem, ablation in ablations.items():
            if ablation.is_decided is is_decided and not ablation.is_alone:
                lines.append(f"    {problem}: {ablation}")
        if lines:
            yield heading
            yield from lines
