"""What a search learns from before its first test: recordings, other inputs, and other devices in
the database. Of each, the configurations that are points of the searched space become a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Input, Measurement, Outcome, Value, shown
from harness.models.columns import nearest_first
from harness.models.transfer_prior import MOST_ROWS, SourceTask, TransferData
from harness.recordings.recording import Recording
from harness.results import MeasurementRows, RunPlan, Store
from harness.results.campaigns import other_devices, read_device
from harness.results.notes import DeviceResults, Notes
from harness.space import Space
from harness.space_file import Parameter


class TransferSources:
    """Recordings of other devices, and the inputs of a campaign that were searched before."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.recordings = tuple(recordings)
        self._matched: list[_MatchedRecording] = []

    def technique(self, names: Sequence[str]) -> str:
        """Name a run's technique as the database stores it: a warm start makes it another run."""
        name = ",".join(names)
        if not self.recordings:
            return name
        digests = ", ".join(recording.sha256[:8] for recording in self.recordings)
        return f"{name} (with data of {digests})"

    def describe(self, space: Space, problem: Input) -> Iterator[str]:
        """Describe each recording in a line, with what of it is legal on one input.

        Raises UsageError for a recording of another kernel, or of which nothing can be used.
        """
        return (recording.describe(space, problem) for recording in self._matches(space))

    def data_for(
        self,
        space: Space,
        problem: Input,
        measured: Mapping[Input, Sequence[Measurement]],
        stored: Sequence[SourceTask] = (),
    ) -> TransferData | None:
        """Gather what recordings, `stored` results of other devices and measurements of other
        inputs say of an input; None where there are none. Raises UsageError as `describe` does."""
        tasks: list[SourceTask] = []
        for recording in self._matches(space):
            tasks += recording.tasks(problem)
        tasks += stored
        counts = {other: len(measurements) for other, measurements in measured.items()}
        tasks += _alike(problem, counts, lambda other: _task(space, other, measured[other]))
        if not tasks:
            return None
        if any(task.problem is None or set(task.problem) != set(problem) for task in tasks):
            tasks = [SourceTask(task.positions, task.times_s) for task in tasks]
        return TransferData(problem, tuple(tasks))

    def _matches(self, space: Space) -> list[_MatchedRecording]:
        if not self._matched or self._matched[0].parameters != space.parameters:
            self._matched = [_MatchedRecording(space, recording) for recording in self.recordings]
        return self._matched


class StoredSources:
    """What other devices measured of the program that a campaign tunes.

    A run notes which results it starts from, and how far they went. So it goes on with the same
    ones, however many are added meanwhile.
    """

    def __init__(self, store: Store, wanted: bool, warn: Callable[[str], None]) -> None:
        """`wanted` says whether new runs start from them."""
        self._store, self._wanted, self._warn = store, wanted, warn
        self._now: tuple[DeviceResults, ...] | None = None
        self._rows: dict[DeviceResults, Mapping[Input, MeasurementRows]] = {}
        self._tasks: dict[tuple[DeviceResults, Input], SourceTask | None] = {}

    def of(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        """Return the results that a run began with, or will begin with."""
        store = self._store
        run = store.begun(plan)
        if run is not None:
            return run.notes.get("warm_start", ())
        if self._now is None:  # once: all inputs start from the same results
            self._now = ()
            if self._wanted:
                self._now = store.read(
                    lambda: other_devices(store.connection, plan.spec, plan.environment)
                )
        return self._now

    def notes(self, plan: RunPlan) -> Notes:
        """Return the note of a run that begins; none where no other device has results."""
        sources = self.of(plan)
        if not sources:
            return {}
        return {"warm_start": sources}

    def tasks(self, plan: RunPlan, space: Space) -> list[SourceTask]:
        """Return what these results teach about a run's input: of each device, the inputs that
        are most like it."""
        tasks: list[SourceTask] = []
        for source in self.of(plan):
            rows = self._read(plan, source)
            counts = {other: len(measured) for other, measured in rows.items()}
            tasks += _alike(plan.problem, counts, partial(self._task, space, source))
        return tasks

    def _task(self, space: Space, source: DeviceResults, other: Input) -> SourceTask | None:
        """Return what a device measured on an input, which is looked up once."""
        if (source, other) not in self._tasks:
            measured = self._rows[source][other].measurements()
            self._tasks[source, other] = _task(space, other, measured)
        return self._tasks[source, other]

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


def _alike(
    problem: Input, counts: Mapping[Input, int], task: Callable[[Input], SourceTask | None]
) -> list[SourceTask]:
    """Make the tasks of the inputs most like this one until a forest has enough rows to learn from;
    of all where their features are not its own. `counts` has the measurements of each."""
    others = list(counts)
    total = sum(counts.values())
    if total > MOST_ROWS and all(set(other) == set(problem) for other in others):
        total = 0
        nearest = nearest_first(problem, others)
        others = []
        while total < MOST_ROWS:
            others.append(nearest[len(others)])
            total += counts[others[-1]]
    tasks = map(task, others)
    return [made for made in tasks if made is not None]


def _task(space: Space, other: Input, measured: Iterable[Measurement]) -> SourceTask | None:
    """Make a task of the measurements of an input that are points of a space; None where none of
    them worked."""
    configs = []
    times_s = []
    for measurement in measured:
        if measurement.outcome is not Outcome.ILLEGAL and space.is_point(measurement.config):
            configs.append(space.canonical(measurement.config))
            times_s.append(measurement.time_s)
    if not np.isfinite(times_s).any():
        return None
    return SourceTask(space.encode_all(configs), np.array(times_s), other)


class _MatchedRecording:
    """The rows of a recording that are points of a space, whose parameters have the same names.

    They do not depend on the input that is tuned, so they are looked up once.
    """

    def __init__(self, space: Space, recording: Recording) -> None:
        """Raises UsageError for a recording of another kernel."""
        self.recording = recording
        self.parameters = space.parameters
        moves = [_moves(recording, parameter) for parameter in space.parameters]
        self._fixed = _fixed_positions(space, recording)
        self._tasks: dict[Input, SourceTask] = {}
        for other, table in recording.tables.items():
            points = np.empty((len(table), len(moves)), space.dtype)
            for axis, (column, positions) in enumerate(moves):
                points[:, axis] = positions[table.positions[:, column]]
            fits = np.zeros(len(table), dtype=bool)
            fits[table.legal] = True
            fits &= (points >= 0).all(axis=1)
            for column, position in self._fixed.items():
                fits &= table.positions[:, column] == position
            self._tasks[other] = SourceTask(points[fits], table.times_s[fits], other)

    def tasks(self, problem: Input) -> list[SourceTask]:
        """Return the tasks of the recorded inputs that are most like this one.

        Raises UsageError where none of their configurations worked.
        """
        counts = {other: len(table) for other, table in self.recording.tables.items()}
        tasks = _alike(problem, counts, self._tasks.get)
        tasks = [task for task in tasks if np.isfinite(task.times_s).any()]
        if not tasks:
            which = "has values of this space's parameters"
            if any(len(task.positions) for task in self._tasks.values()):
                which = "of this space worked"
            raise UsageError(f"{self.recording.path}: no recorded configuration {which}")
        return tasks

    def describe(self, space: Space, problem: Input) -> str:
        """Describe in a line what was read; `space` is that of the input `problem`.

        Raises UsageError where nothing of it can be used.
        """
        recording = self.recording
        self.tasks(problem)
        total = sum(map(len, recording.tables.values()))
        points = np.concatenate([task.positions for task in self._tasks.values()])
        legal = int(space.are_legal(points).sum())
        counted = f"{len(points):,} belong to this space, {legal:,} are legal on ({problem})"
        if total == legal:
            counted = f"all legal on ({problem})"
        across = ""
        if len(self._tasks) > 1:
            across = f" on {len(self._tasks):,} inputs"
        parts = [
            f"{recording.path.name}: {recording.kind} of {recording.title} on {recording.device}",
            f"{total:,} configurations{across}, {counted}",
        ]
        fixed = []
        for column, position in self._fixed.items():
            parameter = recording.parameters[column]
            fixed.append(f"{parameter.name}={shown(parameter.values[position])}")
        if fixed:
            parts.append(f"only rows with {', '.join(fixed)}")
        if set(recording.features) != set(problem):
            parts.append(f"ignored features: {', '.join(recording.features)}")
        return "; ".join(parts)


def _moves(recording: Recording, parameter: Parameter) -> tuple[int, npt.NDArray[np.int64]]:
    """Find a parameter among the recording's, and map the positions of its values to ours; -1 for
    values that the space lacks."""
    names = [p.name for p in recording.parameters]
    if parameter.name not in names:
        raise UsageError(
            f"{recording.path}: has no parameter {parameter.name}, only {', '.join(names)}; "
            "--warm-start needs recordings of the same kernel"
        )
    column = names.index(parameter.name)
    keys = [_key(value) for value in recording.parameters[column].values]
    ours = parameter.values
    position_of: dict[Value, int]
    if isinstance(ours, range):  # of millions of values, perhaps
        position_of = {}
        for key in keys:
            if isinstance(key, float) and key.is_integer() and int(key) in ours:
                position_of[key] = ours.index(int(key))
    else:
        position_of = {_key(value): position for position, value in enumerate(ours)}
    positions = [position_of.get(key, -1) for key in keys]
    return column, np.array(positions, dtype=np.int64)


def _key(value: Value) -> Value:
    """Make values comparable: one file has 16 or true where another has 16.0 or 1."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    return value


def _fixed_positions(space: Space, recording: Recording) -> Mapping[int, int]:
    """Map the columns of parameters that vary in the recording alone to the position of the value
    that they have in this space."""
    names = {p.name for p in space.parameters}
    fixed = {}
    for column, parameter in enumerate(recording.parameters):
        if parameter.name in names or len(parameter.values) == 1:
            continue
        if parameter.name not in space.default:
            raise UsageError(
                f"{recording.path}: has a parameter {parameter.name} that this space lacks; "
                "--warm-start needs recordings of the same kernel"
            )
        value = space.default[parameter.name]
        keys = [_key(recorded) for recorded in parameter.values]
        if _key(value) not in keys:
            raise UsageError(
                f"{recording.path}: {parameter.name} is never {shown(value)}, its value in "
                "this space"
            )
        fixed[column] = keys.index(_key(value))
    return fixed
