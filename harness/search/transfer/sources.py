"""The data that a search learns from before its first test: recordings and other inputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.core.records import Config, Input, Measurement, Outcome
from harness.models.transfer_prior import SourceTask, TransferData
from harness.recordings.recording import Recording
from harness.search.transfer.recording import TransferSource, most_alike
from harness.space import Space


def first_legal(space: Space, best: Iterable[Measurement | None]) -> Iterator[Config]:
    """Yield the first of these configurations that is legal in a space, in its canonical form."""
    configs = (space.canonical(found.config) for found in best if found is not None)
    return itertools.islice(filter(space.is_legal, configs), 1)


def stored_technique(names: Sequence[str], recordings: Iterable[Recording]) -> str:
    """Name a run's technique as the database stores it: a warm start makes it another run."""
    digests = [recording.sha256[:8] for recording in recordings]
    return ",".join(names) + (f" (taught by {', '.join(digests)})" if digests else "")


class TransferSources:
    """Recordings of other devices, matched with the parameters of the spaces that are searched."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.recordings = tuple(recordings)
        self._sources: list[TransferSource] = []

    def of(self, space: Space) -> list[TransferSource]:
        """Match each recording with a space. Raises UsageError for one of another kernel."""
        if any(source.parameters != space.parameters for source in self._sources):
            self._sources = []
        if not self._sources:
            self._sources = [TransferSource(space, recording) for recording in self.recordings]
        return self._sources

    def describe(self, space: Space, problem: Input) -> Iterator[str]:
        """Describe each recording in a line, with what of it is legal on one input.

        Raises UsageError for a recording of which nothing can be used.
        """
        return (source.describe(space, problem) for source in self.of(space))

    def data_for(
        self,
        space: Space,
        problem: Input,
        measured: Mapping[Input, Sequence[Measurement]],
        stored: Sequence[SourceTask] = (),
    ) -> TransferData | None:
        """Gather what recordings, `stored` results of other devices and measurements of other
        inputs say of an input; None where there are none.

        Raises UsageError for a recording of which nothing can be used.
        """
        tasks = [task for source in self.of(space) for task in source.tasks(problem)]
        tasks += stored
        alike = most_alike(problem, {other: len(found) for other, found in measured.items()})
        of_inputs = (task_of(space, other, measured[other]) for other in alike)
        tasks += [task for task in of_inputs if task is not None]
        sources = tuple(_without_foreign_features(tasks, problem))
        return TransferData(problem, sources) if sources else None


def task_of(space: Space, other: Input, measured: Iterable[Measurement]) -> SourceTask | None:
    """Keep the measurements of an input that are points of a space; None where all failed."""
    kept = [m for m in measured if m.outcome is not Outcome.ILLEGAL and space.is_point(m.config)]
    if all(m.outcome is not Outcome.OK for m in kept):
        return None
    positions = space.encode_all([space.canonical(m.config) for m in kept])
    return SourceTask(positions, np.array([m.time_s for m in kept]), other)


def _without_foreign_features(tasks: Sequence[SourceTask], problem: Input) -> Iterator[SourceTask]:
    """Drop the inputs of all tasks where one of them has other features than this input."""
    alike = all(task.problem is not None and set(task.problem) == set(problem) for task in tasks)
    return iter(tasks) if alike else (SourceTask(task.positions, task.times_s) for task in tasks)
