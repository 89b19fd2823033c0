"""Every entrant on every landscape with every seed, on all cores."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.entrants import Entrant, prepared
from benchmarks.peers.landscape import Landscape, Peer, landscapes
from benchmarks.recordings import recorded
from benchmarks.search_journal import Journal, Search, code_digest
from harness.measure.processes import Processes, ProcessLost
from harness.recordings.read import RecordingFile
from harness.tuning.progress import Display

_BLOCK = 5  # seeds a job
_LONGEST_S = 3600.0  # of one job


@dataclass(frozen=True)
class Place:
    """A landscape, the `ordinal`-th of its file."""

    source: RecordingFile
    ordinal: int

    @property
    def landscape(self) -> Landscape:
        """Read once a process."""
        return _landscapes(self.source)[self.ordinal]


@functools.cache
def _landscapes(source: RecordingFile) -> list[Landscape]:
    return landscapes(recorded(source))


@dataclass(frozen=True)
class Job:
    """Some searches of one entrant on one landscape, which differ in their seeds."""

    place: Place
    entrant: Entrant
    searches: tuple[Search, ...]
    taught: tuple[RecordingFile, ...]
    scratch: Path
    journal: Journal


@dataclass
class Held:
    """What came of a contest: courses, of each seed the best time after each test in seconds, and
    the failures in words with the places they were on."""

    courses: dict[tuple[Place, Entrant], dict[int, Sequence[float]]] = field(default_factory=dict)
    failures: dict[tuple[Entrant, str], set[Place]] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """Landscapes, entrants, seeds from 0, and the budget of each search.

    `taught` are the recordings from which `auto` may learn before its first test.
    """

    places: Sequence[Place]
    entrants: Sequence[Entrant]
    seeds: int
    budget: int
    journal: Journal
    taught: tuple[RecordingFile, ...] = ()

    def kept(self) -> int:
        """How many of its searches have ended in an earlier run."""
        known = self.journal.read()
        return sum(search in known for _, _, searches in self._parts() for search in searches)

    def hold(self, processes: int, scratch: Path, display: Display) -> Held:
        """Run what has not ended in an earlier run, each search kept as it ends; one that fails
        is noted, and the others go on."""
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = "1"  # before a process loads numpy: there is a process a core
        held, todo = Held(), list(self._jobs(self.journal.read(), scratch))
        display.begin_stage("searches", len(todo))
        if todo:
            _run_all(todo, processes, held, display)
        known = self.journal.read()
        for place, entrant, searches in self._parts():
            held.courses[place, entrant] = {s.seed: known[s] for s in searches if s in known}
        return held

    def _jobs(self, known: Collection[Search], scratch: Path) -> Iterator[Job]:
        for place, entrant, searches in self._parts():
            missing = [search for search in searches if search not in known]
            for first in range(0, len(missing), _BLOCK):
                block = tuple(missing[first : first + _BLOCK])
                yield Job(place, entrant, block, self.taught, scratch, self.journal)

    def _parts(self) -> Iterator[tuple[Place, Entrant, list[Search]]]:
        """Of each landscape and entrant its searches; landscape by landscape, so that processes
        are at the same one."""
        taught = tuple(recorded(source).sha256 for source in self.taught)
        for place in self.places:
            recording, given = place.landscape.recorded.sha256, place.landscape.given.json
            for entrant in self.entrants:
                by = taught if entrant.is_taught else ()
                name, budget = str(entrant), self.budget
                yield (
                    place,
                    entrant,
                    [
                        Search(recording, given, name, seed, budget, by, code_digest())
                        for seed in range(self.seeds)
                    ],
                )


def _run_all(todo: Sequence[Job], processes: int, held: Held, display: Display) -> None:
    with contextlib.closing(Processes(processes)) as pool:
        tasks = [pool.schedule(run, job, timeout_s=_LONGEST_S) for job in todo]
        for job, task in zip(todo, tasks, strict=True):
            try:
                pool.result_of(task)
            except Exception as error:  # a tuner of others may raise anything
                held.failures.setdefault((job.entrant, _told(error)), set()).add(job.place)
            display.step(f"{job.entrant} on {job.place.source.path.name}")


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ProcessLost) else f"{type(error).__name__}: {error}"


def run(job: Job) -> None:
    """A job, in a process of its own; each search is kept as it ends."""
    peer = _peer(job.place, job.entrant.tuner, job.scratch, job.taught)
    for search in job.searches:
        course = peer.search(job.entrant.technique, search.seed, search.budget)
        job.journal.add(search, course.best_s)


@functools.lru_cache(maxsize=4)
def _peer(place: Place, tuner: str, scratch: Path, taught: tuple[RecordingFile, ...]) -> Peer:
    return prepared(tuner, place.landscape, scratch, taught)
