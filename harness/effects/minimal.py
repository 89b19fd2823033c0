"""The smallest part of a winner that is as fast: what is set without need is set back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from harness.records import Config, Measurement, shown
from harness.timing import Ratio, time_ratio

MeasureInTurn = Callable[[Sequence[Config]], Sequence[Measurement]]
"""Measures several configurations in turn, with fresh samples; results in the same order."""

Legal = Callable[[Config], Config | None]
"""The configuration as it is measured, with what does not matter at its default; None for an
illegal one."""


class Verdict(str, Enum):
    """What came of setting a parameter back."""

    DROPPED = "dropped"
    SLOWER = "slower without it"
    FAILED = "fails without it"
    ILLEGAL = "illegal without it"
    PUT_BACK = "put back: slower without all that was dropped"

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

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters that are not at their default."""
        return tuple(_set(self.config, self.default))

    def __str__(self) -> str:
        named = ", ".join(f"{name}={shown(self.config[name])}" for name in self.needed) or "none"
        whole = sum(1 for _ in _set(self.winner, self.default))
        told = f"{len(self.needed)} of {whole} settings are needed: {named}"
        if self.ratio is None:
            return told
        return f"{told}; {_interval(self.ratio)} of the winner's time"


def reduce(
    winner: Config,
    default: Config,
    measure_in_turn: MeasureInTurn,
    legal: Legal,
    order: Sequence[str] = (),
    confidence: float = 0.95,
) -> Reduction:
    """Set the winner's parameters back to their defaults one by one, as long as the time stays
    within noise of the winner's.

    `order` names parameters, the least important first; those it does not name come before. Every
    step is measured beside the winner itself, not beside the step before, so that small losses
    do not add up. Rounds go on until one drops nothing. At the end all that was dropped is
    judged once more; while that is slower, what was dropped last is put back.
    """
    here, steps = winner, list[Step]()
    attempts = _Attempts(winner, measure_in_turn, legal, confidence)
    dropped: list[tuple[str, Config]] = []  # with the configuration before
    is_moving = True
    while is_moving:
        is_moving = False
        steps = [step for step in steps if step.verdict is Verdict.DROPPED]
        for name in _ordered(_set(here, default), order):
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
        if ratio is not None and not _is_slower(ratio):
            break
        name, here = dropped.pop()
        steps.append(Step(name, shown(winner[name]), Verdict.PUT_BACK, ratio))
        ratio = None
    return Reduction(winner, here, default, tuple(steps), ratio)


def without_flags(winner: Config, default: Config, flags: Sequence[str]) -> Config:
    """The winner with its flags at their defaults: what is set back is flags alone."""
    return Config({**winner, **{name: default[name] for name in flags if name in default}})


def again(
    known: Mapping[tuple[Config, ...], Sequence[Sequence[Measurement]]],
    default: Config,
    flags: Sequence[str],
) -> Reduction | None:
    """The reduction that was measured: `known` are turns of a winner and a part of it, of the
    last winner in them; None where it was not measured to its end."""
    if not known:
        return None
    winner = list(known)[-1][0]
    present = {pair[1] for pair in known if pair[0] == winner}

    used = Counter[tuple[Config, ...]]()

    def recall(configs: Sequence[Config]) -> Sequence[Measurement]:
        pair = tuple(configs)
        used[pair] += 1
        return known[pair][used[pair] - 1]

    def legal(config: Config) -> Config | None:
        return config if config in present else None

    try:
        return reduce(winner, without_flags(winner, default, flags), recall, legal)
    except IndexError:
        return None  # interrupted before the last look


def _set(config: Config, default: Config) -> Iterator[str]:
    """The parameters that are not at their default."""
    return (
        name for name in config if Config({name: config[name]}) != Config({name: default[name]})
    )


def _ordered(names: Iterator[str], order: Sequence[str]) -> list[str]:
    places = {name: place for place, name in enumerate(order)}
    return sorted(names, key=lambda name: places.get(name, -1))


def _is_slower(ratio: Ratio) -> bool:
    """Whether the time is longer for certain."""
    return ratio.value > 1 and ratio.is_clear


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
        verdict = Verdict.SLOWER if _is_slower(ratio) else Verdict.DROPPED
        return Step(name, value, verdict, ratio), tried

    def ratio(self, tried: Config) -> Ratio | None:
        """Its time over the winner's; None where it fails. Raises RuntimeError where the winner
        itself fails: then there is nothing to compare with."""
        beside, found = self.measure_in_turn([self.winner, tried])
        if beside.timing is None:
            raise RuntimeError(f"the winner fails when it is measured again: {beside.message}")
        if found.timing is None:
            return None
        return time_ratio(found.timing, beside.timing, self.confidence)
