"""The data that a search learns from before its first test: recordings, other inputs, and other
devices in the database."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.core.records import Config, Input, Measurement, Outcome
from harness.models.transfer_prior import SourceTask, TransferData
from harness.recordings.recording import Recording
from harness.results import MeasurementRows, RunPlan, Store
from harness.results.notes import DeviceResults, Notes
from harness.results.other_devices import (
    other_devices,
    read_device,
)
from harness.search.transfer.recording import TransferSource, most_alike
from harness.space import Space


def first_legal(space: Space, best: Iterable[Measurement | None]) -> Iterator[Config]:
    """Yield the first of these configurations that is legal in a space, in its canonical form."""
    configs = (space.canonical(found.config) for found in best if found is not None)
    return itertools.islice(filter(space.is_legal, configs), 1)


def stored_technique(names: Sequence[str], recordings: Iterable[Recording]) -> str:
    """Name a run's technique as the database stores it: a warm start makes it another run."""
    digests = [recording.sha256[:8] for recording in recordings]
    return ",".join(names) + (f" (with data of {', '.join(digests)})" if digests else "")


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


class StoredSources:
    """What other devices measured of the program that a campaign tunes.

    A run notes which results it starts from, and how far they went. So it goes on with the same
    ones, however many are added meanwhile.
    """

    def __init__(self, store: Store, wanted: bool, warn: Callable[[str], None]) -> None:
        """`wanted` says whether new runs start from them."""
        self._store = store
        self._wanted = wanted
        self._warn = warn
        self._now: tuple[DeviceResults, ...] | None = None
        self._of_run: dict[Input, tuple[DeviceResults, ...]] = {}
        self._rows: dict[DeviceResults, Mapping[Input, MeasurementRows]] = {}
        self._tasks: dict[tuple[DeviceResults, Input], SourceTask | None] = {}

    def of(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        """Return the results that a run began with, or will begin with."""
        if plan.problem not in self._of_run:
            self._of_run[plan.problem] = self._found(plan)
        return self._of_run[plan.problem]

    def _found(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        store = self._store
        begun = store.notes_of_begun(plan)
        if begun is not None:
            return begun.get("warm_start", ())
        if not self._wanted:
            return ()
        if self._now is None:  # once a command: its inputs start from the same results
            self._now = store.read(
                lambda: other_devices(store.connection, plan.spec, plan.environment)
            )
        return self._now

    def notes(self, plan: RunPlan) -> Notes:
        """Return the note of a run that begins; none where no other device has results."""
        sources = self.of(plan)
        return {"warm_start": sources} if sources else {}

    def tasks(self, plan: RunPlan, space: Space) -> list[SourceTask]:
        """Return what these results teach about a run's input: of each device, the inputs that
        are most like it."""
        found = []
        for source in self.of(plan):
            rows = self._read(plan, source)
            for other in most_alike(plan.problem, {p: len(own) for p, own in rows.items()}):
                if (source, other) not in self._tasks:
                    measured = rows[other].measurements()
                    self._tasks[source, other] = task_of(space, other, measured)
                task = self._tasks[source, other]
                found += [] if task is None else [task]
        return found

    def _read(self, plan: RunPlan, source: DeviceResults) -> Mapping[Input, MeasurementRows]:
        store = self._store
        if source not in self._rows:
            self._rows[source] = store.read(
                lambda: read_device(store.connection, plan.spec, source)
            )
            if not self._rows[source]:
                self._warn(
                    f"the results of {source.device}, from which the search began, are no longer "
                    "in the database; it goes on without them"
                )
        return self._rows[source]


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
