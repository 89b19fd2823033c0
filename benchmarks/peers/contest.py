"""Run every entrant on every landscape with every seed, on all cores, and save each search.

A search is saved when it ends, so an interrupted contest continues from there: a file of JSON
lines, to which the searching processes append, has what each search tested. Its key is everything
that decides its course, with the code of this project.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import harness
from benchmarks.frame import in_processes
from benchmarks.peers.entrants import Entrant, prepared
from benchmarks.peers.landscape import BudgetSpent, Course, Landscape, Peer, landscapes
from benchmarks.recordings import RecordingFile, recorded
from harness.core.errors import UsageError
from harness.measure.process.child import ChildLost

_BLOCK = 5  # seeds in a job


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


def read_landscapes(files: Sequence[RecordingFile]) -> dict[str, LandscapeRef]:
    """Read the landscapes of all files by their names."""
    found: dict[str, LandscapeRef] = {}
    for source in files:
        for ordinal, landscape in enumerate(_landscapes(source)):
            if landscape.name in found:
                raise UsageError(f"{source.path}: two recordings have the name {landscape.name}")
            landscape.check()
            found[landscape.name] = LandscapeRef(source, ordinal)
    return found


class Limit(Protocol):
    """What ends a search; its text is part of the search's key."""

    def course(self, ref: LandscapeRef) -> Course:
        """Make the course of a search, which may raise BudgetSpent."""


@dataclass(frozen=True)
class Tests:
    """A limit of so many tests."""

    count: int

    def course(self, ref: LandscapeRef) -> Course:
        """Make the course of a search."""
        return Course(self.count)


@dataclass(frozen=True)
class Job:
    """Searches of one entrant on one landscape with different seeds."""

    ref: LandscapeRef
    entrant: Entrant
    seeds: tuple[int, ...]
    limit: Limit
    warm_start: tuple[RecordingFile, ...]
    path: Path
    scratch: Path = Path()

    def key(self, seed: int) -> str:
        """Describe a search."""
        landscape = self.ref.landscape
        sources = [recorded(source).sha256[:8] for source in self._sources]
        parts = (landscape.recorded.sha256[:16], landscape.problem.json, self.entrant, self.limit)
        return " ".join(map(str, (*parts, seed, *sources, code_digest())))

    @property
    def _sources(self) -> tuple[RecordingFile, ...]:
        return self.warm_start if self.entrant.uses_warm_start else ()

    def course(self, row: Mapping[str, Any]) -> Course:
        """Make the course of a saved search."""
        times = list(self.ref.landscape.times_s.items())
        course = Course(len(times))
        for index, own_s in zip(row["tested"], row["own_s"], strict=True):
            point, time_s = times[index]
            course.note(point, time_s, own_s)
        return course


def run(job: Job) -> None:
    """Run a job in a worker process; save each search when it ends."""
    peer = _peer(job.ref, job.entrant.tuner, job.scratch, job.warm_start)
    index_of: dict[Hashable, int] = {
        point: index for index, point in enumerate(job.ref.landscape.times_s)
    }
    for seed in job.seeds:
        course = job.limit.course(job.ref)
        with contextlib.suppress(BudgetSpent):
            peer.search(job.entrant.technique, seed, course)
        tested = [index_of[point] for point in course.tested]
        own_s = [round(seconds, 4) for seconds in course.own_s]
        _append(job.path, {"key": job.key(seed), "tested": tested, "own_s": own_s})


@functools.lru_cache(maxsize=4)
def _peer(
    ref: LandscapeRef, tuner: str, scratch: Path, warm_start: tuple[RecordingFile, ...]
) -> Peer:
    return prepared(tuner, ref.landscape, scratch, warm_start)


@dataclass
class Held:
    """The results of a contest: the course of each seed, and the landscapes of each entrant and
    message of a failure."""

    courses: dict[tuple[str, Entrant], dict[int, Course]] = field(default_factory=dict)
    failures: dict[tuple[Entrant, str], set[str]] = field(default_factory=dict)


def hold(
    refs: Mapping[str, LandscapeRef],
    entrants: Sequence[Entrant],
    seeds: int,
    limit: Limit,
    path: Path,
    processes: int,
    warm_start: tuple[RecordingFile, ...] = (),
) -> tuple[Held, int]:
    """Run the searches that did not end in an earlier run; return the results of all, and the
    number of those that did. A search that fails is noted, and the others continue."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    held, known, every = Held(), _read(path), range(seeds)
    names = {ref: name for name, ref in refs.items()}
    jobs = [
        Job(ref, entrant, tuple(every), limit, warm_start, path)
        for ref in refs.values()
        for entrant in entrants
    ]

    def failed(job: Job, error: Exception) -> None:
        reason = str(error) if isinstance(error, ChildLost) else f"{type(error).__name__}: {error}"
        held.failures.setdefault((job.entrant, reason), set()).add(names[job.ref])

    with tempfile.TemporaryDirectory() as scratch:
        missing = list(_missing(jobs, known, Path(scratch)))
        for _ in in_processes(run, missing, processes, _title, failed) if missing else ():
            pass
    rows = _read(path)
    for job in jobs:
        held.courses[names[job.ref], job.entrant] = {
            seed: job.course(rows[key]) for seed in every if (key := job.key(seed)) in rows
        }
    return held, sum(job.key(seed) in known for job in jobs for seed in every)


def _title(job: Job) -> str:
    return f"{job.entrant} on {job.ref.source.path.name}"


def _missing(jobs: Sequence[Job], known: Mapping[str, object], scratch: Path) -> Iterator[Job]:
    for job in jobs:
        seeds = [seed for seed in job.seeds if job.key(seed) not in known]
        for first in range(0, len(seeds), _BLOCK):
            yield replace(job, seeds=tuple(seeds[first : first + _BLOCK]), scratch=scratch)


# -------------------------------------------------------------------------------- the file


def _append(path: Path, row: Mapping[str, object]) -> None:
    """Append a row in one write, so that concurrent processes do not mix their lines. It begins a
    line: the last one may have been cut when a process was killed."""
    with path.open("ab", buffering=0) as file:
        file.write(f"\n{json.dumps(row)}".encode())


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Read all rows by their keys; skip empty lines, and one that was cut."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[row["key"]] = row
    return found


@functools.cache
def code_digest() -> str:
    """Hash the files of the searching code."""
    digest = hashlib.sha256()
    for folder in (Path(harness.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
