"""Score searches by the protocol of the field: autotuning_methodology 1.1, with its defaults.

Each search has the time in which random search gets 95 % of the way from the median to the optimum.
Its time is that of the recording (compilation, runs, verification) and the tuner's own, as seconds
of CPU, so that other work on the machine does not count. The score is 0 for random search and 1 for
the optimum, and the mean over 1,000 points in time; each search is repeated 25 times.

Recordings are cache files of Kernel Tuner, which state these times. Run it where harness is
installed, with its extra `bench` for Kernel Tuner:

    python -m benchmarks.protocol RECORDING...

It prints a table; the last line is one JSON object of the scores. On ten spaces with budgets of 8
to 1,282 tests, `auto` takes about 20 minutes on one core. Each search is saved to
OUTPUT/searches.jsonl when it ends: the same command continues from there.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.frame import JOBS, RECORDINGS, Figures, benchmark, option, output, show
from benchmarks.peers.contest import LandscapeRef, hold, read_landscapes
from benchmarks.peers.entrants import entrants
from benchmarks.peers.landscape import BudgetSpent, Course
from benchmarks.protocol_score import MARGIN, REPEATS, RecordedCosts, TimedCourse, score
from benchmarks.recordings import recording_files
from benchmarks.search import ONLY
from harness.core.errors import UsageError

_MS_PER_S = 1e3
_RECORDED = ("compile_time", "verification_time", "strategy_time", "framework_time")
_MORE_TESTS = 3  # than random search needs; the time ends a search


@dataclass(frozen=True)
class ScoredSpace:
    """A space with its recorded costs; `points` are in the order of the costs."""

    points: Sequence[Hashable]
    costs: RecordedCosts

    @functools.cached_property
    def index_of(self) -> Mapping[Hashable, int]:
        """The index of each configuration."""
        return {point: index for index, point in enumerate(self.points)}


@functools.cache
def scored_space(ref: LandscapeRef) -> ScoredSpace:
    """Read the space of a cache file of Kernel Tuner, with what each test cost."""
    source = ref.source
    opened = gzip.open if source.path.suffix == ".gz" else open
    with opened(source.path, "rt", encoding="utf-8") as file:
        entries = list(json.load(file).get("cache", {}).values())
    if not entries or any(name not in entry for entry in entries for name in _RECORDED):
        raise UsageError(
            f"{source.path}: is no cache file of Kernel Tuner with the times of each step "
            f"({', '.join(_RECORDED)}); leave it out"
        )
    names = list(ref.landscape.tunable())
    return ScoredSpace(
        [tuple(entry[name] for name in names) for entry in entries],
        RecordedCosts(
            np.array([_objective(entry) for entry in entries]),
            np.array([_cost_s(entry) for entry in entries]),
        ),
    )


def _objective(entry: Mapping[str, Any]) -> float:
    return float("nan") if isinstance(entry["time"], str) else float(entry["time"])


def _cost_s(entry: Mapping[str, Any]) -> float:
    total: float = sum(entry.get("times", ())) + sum(entry[name] for name in _RECORDED)
    return total / _MS_PER_S


@dataclass
class LimitedCourse(Course):
    """A search that ends when its time is spent."""

    space: ScoredSpace | None = None
    recorded_s: float = 0.0

    def note(self, config: Hashable, time_s: float, own_s: float = 0.0) -> None:
        """Note a test; raise BudgetSpent when no time is left for another."""
        assert self.space is not None
        is_new = config not in self.tested
        super().note(config, time_s, own_s)
        costs = self.space.costs
        if is_new:
            self.recorded_s += float(np.nan_to_num(costs.cost_s[self.space.index_of[config]]))
        if self.recorded_s + own_s > costs.budget.last_s * (1 + MARGIN):
            raise BudgetSpent


@dataclass(frozen=True)
class ProtocolTime:
    """The limit of the protocol: the time of random search."""

    def course(self, ref: LandscapeRef) -> Course:
        """Make the course of a search."""
        space = scored_space(ref)
        tests = min(_MORE_TESTS * space.costs.budget.last + 50, len(space.points))
        return LimitedCourse(tests, space=space)


def _timed(course: Course, space: ScoredSpace) -> TimedCourse:
    return TimedCourse([space.index_of[point] for point in course.tested], course.own_s)


@benchmark(
    *RECORDINGS,
    option("--repeats", REPEATS, "of a search"),
    ONLY,
    output("protocol"),
    JOBS,
    kept=": finished searches are saved; the same command continues from there",
)
def main(args: argparse.Namespace) -> Figures:
    """Run the searches that are missing, and score all."""
    chosen, _ = entrants(args.only or ["auto"])
    refs = read_landscapes(recording_files(args.file, args.mapping))
    spaces = {name: scored_space(ref) for name, ref in refs.items()}
    path = args.output.resolve() / "searches.jsonl"
    held, _ = hold(refs, chosen, args.repeats, ProtocolTime(), path, args.jobs)
    for (entrant, reason), where in held.failures.items():
        raise UsageError(f"{entrant} failed on {', '.join(where)}: {reason}")
    scores: dict[str, dict[str, float]] = {}
    for (name, entrant), courses in held.courses.items():
        timed = [_timed(course, spaces[name]) for course in courses.values()]
        scores.setdefault(str(entrant), {})[name] = score(spaces[name].costs, timed)
    for row in scores.values():
        row["mean"] = math.fsum(row.values()) / len(row)
    budgets = {n: (one.costs.budget.last, one.costs.budget.last_s) for n, one in spaces.items()}
    show(
        ("space", "tests of random search", "time, s", *scores),
        [
            (name, *budgets.get(name, ("", "")), *(row[name] for row in scores.values()))
            for name in (*spaces, "mean")
        ],
    )
    return scores


if __name__ == "__main__":
    sys.exit(main())
