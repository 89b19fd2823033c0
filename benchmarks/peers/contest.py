"""Every entrant on every landscape with every seed, on all cores."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.entrants import Entrant, prepared
from benchmarks.peers.landscape import Landscape, Peer, landscapes
from harness.processes import Processes, ProcessLost
from harness.progress import Display
from harness.recordings.read import Source

_BLOCK = 5  # seeds a job
_LONGEST_S = 3600.0  # of one job

Courses = Mapping[int, Sequence[float]]
"""Of each seed the best time after each test, in seconds."""


@dataclass(frozen=True)
class Job:
    """A block of seeds of one entrant on one landscape, the `ordinal`-th of its file."""

    source: Source
    ordinal: int
    entrant: Entrant
    seeds: tuple[int, ...]
    budget: int
    taught: tuple[Source, ...]
    scratch: Path


@dataclass
class Held:
    """What came of a contest: courses, and the failures in words with the landscapes they were on.

    Landscapes are named by their place in `Contest.places`.
    """

    courses: dict[tuple[int, Entrant], dict[int, Sequence[float]]] = field(default_factory=dict)
    failures: dict[tuple[Entrant, str], set[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """Landscapes, by file and ordinal; entrants; seeds from 0; and the budget of each search.

    `taught` are the recordings from which `auto` may learn before its first test.
    """

    places: Sequence[tuple[Source, int]]
    entrants: Sequence[Entrant]
    seeds: int
    budget: int
    taught: tuple[Source, ...] = ()

    def hold(self, processes: int, scratch: Path, display: Display) -> Held:
        """Run all searches; one that fails is noted, and the others go on."""
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = "1"  # before a process loads numpy: there is a process a core
        held, todo = Held(), list(self._jobs(scratch))
        display.begin_stage("searches", len(todo))
        with contextlib.closing(Processes(processes)) as pool:
            tasks = [pool.schedule(run, job, timeout_s=_LONGEST_S) for _, job in todo]
            for (place, job), task in zip(todo, tasks, strict=True):
                try:
                    found = pool.result_of(task)
                except Exception as error:  # a tuner of others may raise anything
                    told = held.failures.setdefault((job.entrant, _told(error)), set())
                    told.add(place)
                else:
                    held.courses.setdefault((place, job.entrant), {}).update(found)
                display.step(f"{job.entrant} on {job.source.path.name}")
        return held

    def _jobs(self, scratch: Path) -> Iterator[tuple[int, Job]]:
        """Landscape by landscape, so that each process reads a recording once."""
        for place, (source, ordinal) in enumerate(self.places):
            for entrant in self.entrants:
                for first in range(0, self.seeds, _BLOCK):
                    seeds = tuple(range(first, min(first + _BLOCK, self.seeds)))
                    job = Job(source, ordinal, entrant, seeds, self.budget, self.taught, scratch)
                    yield place, job


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ProcessLost) else f"{type(error).__name__}: {error}"


def run(job: Job) -> Courses:
    """A job, in a process of its own."""
    peer = _peer(job.source, job.ordinal, job.entrant.tuner, job.scratch, job.taught)
    technique, budget = job.entrant.technique, job.budget
    return {seed: peer.search(technique, seed, budget).best_s for seed in job.seeds}


@functools.lru_cache(maxsize=4)
def _peer(
    source: Source, ordinal: int, tuner: str, scratch: Path, taught: tuple[Source, ...]
) -> Peer:
    return prepared(tuner, _landscape(source, ordinal), scratch, taught)


@functools.lru_cache(maxsize=1)
def _landscape(source: Source, ordinal: int) -> Landscape:
    return landscapes(source.read())[ordinal]
