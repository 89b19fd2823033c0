"""A recorded space as every tuner sees it, and the course of one search over it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from harness.core.errors import UsageError
from harness.core.records import Input, Value
from harness.recordings.recording import Recording

Point = tuple[Value, ...]
"""A configuration: the values of all parameters in the recording's order."""


@dataclass(frozen=True)
class Landscape:
    """One input of a recording: its legal configurations and what each of them takes.

    `name` is the recording's, with the input where there are several.
    """

    name: str
    recorded: Recording
    given: Input

    @cached_property
    def times_s(self) -> dict[Point, float]:
        """The median of the recorded samples of every legal configuration; infinity for what
        failed."""
        table = self.recorded.tables[self.given]
        values = [parameter.values for parameter in self.recorded.parameters]
        found: dict[Point, float] = {}
        for row in table.legal.tolist():
            places = table.positions[row].tolist()
            point = tuple(known[place] for known, place in zip(values, places, strict=True))
            found[point] = float(table.times_s[row])
        return found

    @cached_property
    def optimum_s(self) -> float:
        """The least time."""
        return min(self.times_s.values())

    def check(self) -> None:
        """Raise UsageError for what cannot be compared: nothing worked, or other tuners would take
        two configurations for one."""
        path, given = self.recorded.path, self.given
        if math.isinf(min(self.times_s.values(), default=math.inf)):
            raise UsageError(f"{path}: nothing worked on ({given}); leave it out")
        if len(self.times_s) < len(self.recorded.tables[given].legal):
            raise UsageError(
                f"{path}: it has values such as 1 and true, which only this project tells apart; "
                "leave it out"
            )

    def tunable(self) -> dict[str, list[Value]]:
        """The parameters with their values in search order, those with one value included."""
        return {p.name: list(p.values) for p in self.recorded.parameters}


def landscapes(recorded: Recording) -> list[Landscape]:
    """A landscape for each input of a recording."""
    several = len(recorded.tables) > 1
    return [
        Landscape(f"{recorded.name} ({given})" if several else recorded.name, recorded, given)
        for given in recorded.tables
    ]


@dataclass
class Course:
    """The best time after each test of one search; infinity while nothing has worked.

    Only distinct configurations are tests: what is asked for again is free.
    """

    budget: int
    best_s: list[float] = field(default_factory=list)
    _seen: set[Hashable] = field(default_factory=set)

    def note(self, config: Hashable, time_s: float) -> None:
        """A configuration has been tested; `time_s` is infinite where it failed."""
        if config not in self._seen and not self.is_over:
            self._seen.add(config)
            self.best_s.append(min(time_s, self.best_s[-1]) if self.best_s else time_s)

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return len(self.best_s) >= self.budget


class Peer(Protocol):
    """A tuner with what it prepares once for a landscape.

    It is made from the landscape, a folder for temporary files, and recordings of other devices
    from which it may learn, which only this project's does.
    """

    def search(self, technique: str, seed: int, budget: int) -> Course:
        """One search from its first test to its end; with the same seed the same one again."""
