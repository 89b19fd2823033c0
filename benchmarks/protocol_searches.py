"""Searches within the time of the protocol, on spaces whose recordings state what a test cost."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.entrants import Entrant, prepared
from benchmarks.peers.landscape import BudgetSpent, Course, Landscape, Peer, Point, landscapes
from benchmarks.protocol_score import MARGIN, RecordedCosts
from benchmarks.recordings import recorded
from harness.core.errors import UsageError
from harness.recordings.read import RecordingFile

_MS_PER_S = 1e3
_RECORDED = ("compile_time", "verification_time", "strategy_time", "framework_time")
_MORE_TESTS = 3  # than random search needs; the time ends a search


@dataclass(frozen=True)
class ScoredSpace:
    """A landscape with its recorded costs; `points` are in the order of the costs."""

    landscape: Landscape
    points: Sequence[Point]
    costs: RecordedCosts

    @functools.cached_property
    def index_of(self) -> Mapping[Hashable, int]:
        """The index of each configuration."""
        return {point: index for index, point in enumerate(self.points)}


@functools.cache
def scored_space(source: RecordingFile) -> ScoredSpace:
    """Read the one landscape of a cache file of Kernel Tuner, with what each test cost."""
    (landscape,) = landscapes(recorded(source))
    landscape.check()
    opened = gzip.open if source.path.suffix == ".gz" else open
    with opened(source.path, "rt", encoding="utf-8") as file:
        entries = list(json.load(file).get("cache", {}).values())
    if not entries or any(name not in entry for entry in entries for name in _RECORDED):
        raise UsageError(
            f"{source.path}: is no cache file of Kernel Tuner with the times of each step "
            f"({', '.join(_RECORDED)}); leave it out"
        )
    names = list(landscape.tunable())
    return ScoredSpace(
        landscape,
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
class ScoreJob:
    """Searches of one technique on one space with different seeds."""

    source: RecordingFile
    entrant: Entrant
    seeds: tuple[int, ...]
    scratch: Path
    output: Path


def run(job: ScoreJob) -> None:
    """Run a job in a worker process; append each search to the file when it ends."""
    space = scored_space(job.source)
    peer = _peer(job.source, job.entrant.tuner, job.scratch)
    for seed in job.seeds:
        tests = min(_MORE_TESTS * space.costs.budget.last + 50, len(space.points))
        course = LimitedCourse(tests, space=space)
        with contextlib.suppress(BudgetSpent):
            peer.search(job.entrant.technique, seed, course)
        row = {
            "space": space.landscape.name,
            "technique": str(job.entrant),
            "seed": seed,
            "tested": [space.index_of[point] for point in course.tested],
            "own_s": [round(seconds, 4) for seconds in course.own_s],
        }
        with job.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@functools.lru_cache(maxsize=4)
def _peer(source: RecordingFile, tuner: str, scratch: Path) -> Peer:
    return prepared(tuner, scored_space(source).landscape, scratch, ())
