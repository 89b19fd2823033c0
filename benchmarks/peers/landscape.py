"""A recorded space as every tuner sees it, and the course of one search on it."""

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
    """One input of a recording, with its legal configurations and their times.

    `name` is the recording's, with the input if there are several.
    """

    name: str
    recorded: Recording
    problem: Input

    @cached_property
    def times_s(self) -> dict[Point, float]:
        """Return the median recorded time of each legal configuration; infinity for failures."""
        table = self.recorded.tables[self.problem]
        values = [parameter.values for parameter in self.recorded.parameters]
        found: dict[Point, float] = {}
        for row in table.legal.tolist():
            positions = table.positions[row].tolist()
            point = tuple(known[n] for known, n in zip(values, positions, strict=True))
            found[point] = float(table.times_s[row])
        return found

    @cached_property
    def optimum_s(self) -> float:
        """Return the least time."""
        return min(self.times_s.values())

    def check(self) -> None:
        """Raise UsageError if all configurations failed, or other tuners would confuse two."""
        path, problem = self.recorded.path, self.problem
        if math.isinf(min(self.times_s.values(), default=math.inf)):
            raise UsageError(f"{path}: all configurations failed on ({problem}); leave it out")
        if len(self.times_s) < len(self.recorded.tables[problem].legal):
            raise UsageError(
                f"{path}: it has values such as 1 and true, which only this project distinguishes; "
                "leave it out"
            )

    def tunable(self) -> dict[str, list[Value]]:
        """Return all parameters with their values in search order."""
        return {p.name: list(p.values) for p in self.recorded.parameters}


def landscapes(recorded: Recording) -> list[Landscape]:
    """Make a landscape for each input of a recording."""
    several = len(recorded.tables) > 1
    return [
        Landscape(f"{recorded.name} ({problem})" if several else recorded.name, recorded, problem)
        for problem in recorded.tables
    ]


class BudgetSpent(Exception):
    """A search has used up a budget that it does not know of."""


@dataclass
class Course:
    """The best time after each test of one search; infinity until a configuration works.

    Only distinct configurations count as tests, in the order of `tested`; repeats are free. `own_s`
    has the tuner's own seconds of CPU until each test.
    """

    budget: int
    best_s: list[float] = field(default_factory=list)
    own_s: list[float] = field(default_factory=list)
    tested: dict[Hashable, None] = field(default_factory=dict)

    def note(self, config: Hashable, time_s: float, own_s: float = 0.0) -> None:
        """Note a tested configuration; `time_s` is infinite if it failed."""
        if config not in self.tested and not self.is_over:
            self.tested[config] = None
            self.own_s.append(own_s)
            self.best_s.append(min(time_s, self.best_s[-1]) if self.best_s else time_s)

    @property
    def is_over(self) -> bool:
        """Return whether the budget is spent."""
        return len(self.best_s) >= self.budget


class Peer(Protocol):
    """A tuner that is prepared for a landscape.

    It is made from the landscape, a folder for temporary files, and recordings of other devices to
    learn from, which only this project's tuner uses.
    """

    def search(self, technique: str, seed: int, course: Course) -> None:
        """Run one search and note its tests; the same seed repeats it."""
