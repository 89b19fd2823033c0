"""Run every entrant on every landscape with every seed, on all cores."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.arguments import use_one_thread
from benchmarks.peers.entrants import Entrant, prepared
from benchmarks.peers.landscape import Course, Landscape, Peer, landscapes
from benchmarks.recordings import recorded
from benchmarks.search_journal import Journal, Search, code_digest
from harness.measure.processes import Processes, ProcessLost
from harness.recordings.read import RecordingFile
from harness.tuning.progress import Display

_BLOCK = 5  # seeds in a job
_LONGEST_S = 3600.0  # for one job


@dataclass(frozen=True)
class LandscapeRef:
    """A reference to a landscape: the `ordinal`-th of a file."""

    source: RecordingFile
    ordinal: int

    @property
    def landscape(self) -> Landscape:
        """Read the landscape, once in each process."""
        return _landscapes(self.source)[self.ordinal]


@functools.cache
def _landscapes(source: RecordingFile) -> list[Landscape]:
    return landscapes(recorded(source))


@dataclass(frozen=True)
class SearchJob:
    """Searches of one entrant on one landscape with different seeds."""

    ref: LandscapeRef
    entrant: Entrant
    searches: tuple[Search, ...]
    warm_start: tuple[RecordingFile, ...]
    scratch: Path
    journal: Journal


@dataclass
class Held:
    """The results of a contest.

    `courses` hold each seed's best seconds after each test; `failures` hold the landscapes of each
    entrant and message.
    """

    courses: dict[tuple[LandscapeRef, Entrant], dict[int, Sequence[float]]] = field(
        default_factory=dict
    )
    failures: dict[tuple[Entrant, str], set[LandscapeRef]] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """Landscapes, entrants, seeds from 0, and the budget of each search.

    `warm_start` are recordings for `auto` to learn from before its first test.
    """

    refs: Sequence[LandscapeRef]
    entrants: Sequence[Entrant]
    seeds: int
    budget: int
    journal: Journal
    warm_start: tuple[RecordingFile, ...] = ()

    def kept(self) -> int:
        """Count the searches that ended in an earlier run."""
        known = self.journal.read()
        return sum(search in known for _, _, searches in self._parts() for search in searches)

    def hold(self, processes: int, scratch: Path, display: Display) -> Held:
        """Run the searches that did not end in an earlier run, and save each when it ends.

        A search that fails is noted, and the others continue.
        """
        use_one_thread()
        held, todo = Held(), list(self._jobs(self.journal.read(), scratch))
        display.begin_stage("searches", len(todo))
        if todo:
            _run_all(todo, processes, held, display)
        known = self.journal.read()
        for ref, entrant, searches in self._parts():
            held.courses[ref, entrant] = {s.seed: known[s] for s in searches if s in known}
        return held

    def _jobs(self, known: Collection[Search], scratch: Path) -> Iterator[SearchJob]:
        for ref, entrant, searches in self._parts():
            missing = [search for search in searches if search not in known]
            for first in range(0, len(missing), _BLOCK):
                block = tuple(missing[first : first + _BLOCK])
                yield SearchJob(ref, entrant, block, self.warm_start, scratch, self.journal)

    def _parts(self) -> Iterator[tuple[LandscapeRef, Entrant, list[Search]]]:
        """Yield the searches of each landscape and entrant.

        The order is by landscape, so that processes work on the same one.
        """
        digests = tuple(recorded(source).sha256 for source in self.warm_start)
        for ref in self.refs:
            recording, problem = ref.landscape.recorded.sha256, ref.landscape.problem.json
            for entrant in self.entrants:
                taught = digests if entrant.uses_warm_start else ()
                searches = [
                    Search(
                        recording, problem, str(entrant), seed, self.budget, taught, code_digest()
                    )
                    for seed in range(self.seeds)
                ]
                yield ref, entrant, searches


def _run_all(todo: Sequence[SearchJob], processes: int, held: Held, display: Display) -> None:
    with contextlib.closing(Processes(processes)) as pool:
        tasks = [pool.schedule(run, job, timeout_s=_LONGEST_S) for job in todo]
        for job, task in zip(todo, tasks, strict=True):
            try:
                pool.result_of(task)
            except Exception as error:  # a tuner of others may raise anything
                held.failures.setdefault((job.entrant, _reason(error)), set()).add(job.ref)
            display.step(f"{job.entrant} on {job.ref.source.path.name}")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ProcessLost) else f"{type(error).__name__}: {error}"


def run(job: SearchJob) -> None:
    """Run a job in a worker process; save each search when it ends."""
    peer = _peer(job.ref, job.entrant.tuner, job.scratch, job.warm_start)
    for search in job.searches:
        course = Course(search.budget)
        peer.search(job.entrant.technique, search.seed, course)
        job.journal.add(search, course.best_s)


@functools.lru_cache(maxsize=4)
def _peer(
    ref: LandscapeRef, tuner: str, scratch: Path, warm_start: tuple[RecordingFile, ...]
) -> Peer:
    return prepared(tuner, ref.landscape, scratch, warm_start)
