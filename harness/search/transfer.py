"""What a search learns from before its first test: recordings, other inputs, and other devices in
the database. Of each, the configurations that are points of the searched space become a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Input, Measurement, Outcome, Value, shown
from harness.models.columns import nearest_first
from harness.models.transfer_prior import MOST_ROWS, SourceTask, TransferData
from harness.recordings.recording import Recording
from harness.results import MeasurementRows, RunPlan, Store
from harness.results.campaigns import other_devices, read_device
from harness.results.notes import DeviceResults
from harness.space import Space
from harness.space_file import Parameter


class TransferSources:
    """What the searches of a campaign learn from: recordings, the inputs that were searched before,
    and what other devices measured of the same program.

    A run notes from which results of other devices it starts, and how far they went. So it goes on
    with the same ones, however many are added meanwhile.
    """

    def __init__(
        self,
        recordings: Iterable[Recording],
        store: Store | None = None,
        learns_from_devices: bool = False,
        warn: Callable[[str], None] = print,
    ) -> None:
        """The `store` has the other devices; new runs start from them if they are wanted."""
        self._recordings = tuple(recordings)
        self._matched: list[_MatchedRecording] = []
        self._store = store
        self._is_wanted = learns_from_devices
        self._warn = warn
        self._devices: tuple[DeviceResults, ...] | None = None  # of new runs
        self._rows: dict[DeviceResults, Mapping[Input, MeasurementRows]] = {}
        self._tasks: dict[tuple[DeviceResults, Input], SourceTask | None] = {}

    def technique(self, names: Sequence[str]) -> str:
        """Name a run's technique as the database stores it: a warm start makes it another run."""
        name = ",".join(names)
        if not self._recordings:
            return name
        digests = ", ".join(recording.sha256[:8] for recording in self._recordings)
        return f"{name} (with data of {digests})"

    def describe(self, space: Space, problem: Input) -> Iterator[str]:
        """Describe each recording in a line, with what of it is legal on one input.

        Raises UsageError for a recording of another kernel, or of which nothing can be used.
        """
        return (recording.describe(space, problem) for recording in self._matches(space))

    def devices(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        """Return the results of other devices that a run began with, or will begin with."""
        store = self._store
        if store is None:
            return ()
        run = store.begun(plan)
        if run is not None:
            return run.notes.get("warm_start", ())
        if self._is_wanted and self._devices is None:  # once: all inputs start from the same
            self._devices = store.transact(
                lambda: other_devices(store.connection, plan.spec, plan.environment)
            )
        return self._devices or ()

    def data_for(
        self,
        space: Space,
        problem: Input,
        measured: Mapping[Input, Sequence[Measurement]],
        plan: RunPlan | None = None,
    ) -> TransferData | None:
        """Gather what recordings, the other devices of a planned run and measurements of other
        inputs say of an input; None where there are none. Raises UsageError as `describe` does."""
        tasks: list[SourceTask] = []
        for recording in self._matches(space):
            tasks += recording.tasks(problem)
        if plan is not None:
            for source in self.devices(plan):
                tasks += self._of_device(source, plan, space)
        tasks += _alike(problem, measured, lambda other: _task(space, other, measured[other]))
        if not tasks:
            return None
        if any(task.problem is None or set(task.problem) != set(problem) for task in tasks):
            tasks = [SourceTask(task.positions, task.times_s) for task in tasks]
        return TransferData(problem, tuple(tasks))

    def _matches(self, space: Space) -> list[_MatchedRecording]:
        if not self._matched:  # the spaces of all inputs have the same parameters
            self._matched = [_MatchedRecording(space, recording) for recording in self._recordings]
        return self._matched

    def _of_device(self, source: DeviceResults, plan: RunPlan, space: Space) -> list[SourceTask]:
        """Return what another device measured; rows and tasks are looked up once."""
        store = self._store
        assert store is not None
        if source not in self._rows:
            rows = store.transact(lambda: read_device(store.connection, plan.spec, source))
            self._rows[source] = rows
            if not rows:
                self._warn(
                    f"the results of {source.device}, from which the search began, are no longer "
                    "in the database; it goes on without them"
                )
        measured = self._rows[source]

        def task(other: Input) -> SourceTask | None:
            if (source, other) not in self._tasks:
                made = _task(space, other, measured[other].measurements())
                self._tasks[source, other] = made
            return self._tasks[source, other]

        return _alike(plan.problem, measured, task)


def _alike(
    problem: Input, measured: Mapping[Input, Sized], task: Callable[[Input], SourceTask | None]
) -> list[SourceTask]:
    """Make the tasks of the inputs most like this one until a forest has enough rows to learn from;
    of all where their features are not its own. `measured` has the rows of each."""
    others = list(measured)
    total = sum(map(len, measured.values()))
    if total > MOST_ROWS and all(set(other) == set(problem) for other in others):
        total = 0
        nearest = nearest_first(problem, others)
        others = []
        while total < MOST_ROWS:
            others.append(nearest[len(others)])
            total += len(measured[others[-1]])
    return [made for made in map(task, others) if made is not None]


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
        names = [parameter.name for parameter in recording.parameters]
        positions: dict[int, npt.NDArray[np.int64]] = {}  # by column, those of its values here
        for parameter in space.parameters:
            if parameter.name not in names:
                raise self._of_another_kernel(
                    f"no parameter {parameter.name}, only {', '.join(names)}"
                )
            column = names.index(parameter.name)
            values = recording.parameters[column].values
            positions[column] = _positions(values, parameter.values)
        # Of parameters that vary in the recording alone, the column and value in this space.
        self._fixed: dict[int, int] = {}
        for column, parameter in enumerate(recording.parameters):
            if column not in positions and len(parameter.values) > 1:
                self._fixed[column] = self._fixed_position(space, parameter)
        self._tasks: dict[Input, SourceTask] = {}
        for other, table in recording.tables.items():
            points = np.empty((len(table), len(positions)), space.dtype)
            for axis, (column, position_of) in enumerate(positions.items()):
                points[:, axis] = position_of[table.positions[:, column]]
            fits = np.zeros(len(table), dtype=bool)
            fits[table.legal] = True
            fits &= (points >= 0).all(axis=1)
            for column, position in self._fixed.items():
                fits &= table.positions[:, column] == position
            self._tasks[other] = SourceTask(points[fits], table.times_s[fits], other)

    def _of_another_kernel(self, has: str) -> UsageError:
        return UsageError(
            f"{self.recording.path}: has {has}; --warm-start needs recordings of the same kernel"
        )

    def _fixed_position(self, space: Space, parameter: Parameter) -> int:
        """Return the position of a parameter's value in this space among those recorded."""
        if parameter.name not in space.default:
            raise self._of_another_kernel(f"a parameter {parameter.name} that this space lacks")
        value = space.default[parameter.name]
        keys = [_key(recorded) for recorded in parameter.values]
        if _key(value) not in keys:
            raise UsageError(
                f"{self.recording.path}: {parameter.name} is never {shown(value)}, its value in "
                "this space"
            )
        return keys.index(_key(value))

    def tasks(self, problem: Input) -> list[SourceTask]:
        """Return the tasks of the recorded inputs that are most like this one.

        Raises UsageError where none of their configurations worked.
        """
        tasks = _alike(problem, self.recording.tables, self._tasks.get)
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
        text = (
            f"{recording.path.name}: {recording.kind} of {recording.title} on {recording.device}; "
            f"{total:,} configurations{across}, {counted}"
        )
        fixed: list[str] = []
        for column, position in self._fixed.items():
            parameter = recording.parameters[column]
            fixed.append(f"{parameter.name}={shown(parameter.values[position])}")
        if fixed:
            text += f"; only rows with {', '.join(fixed)}"
        if set(recording.features) != set(problem):
            text += f"; ignored features: {', '.join(recording.features)}"
        return text


def _positions(recorded: Sequence[Value], ours: Sequence[Value]) -> npt.NDArray[np.int64]:
    """Map values to their positions among ours; -1 for those that we lack."""
    position_of: dict[Value, int] = {}
    keys = [_key(value) for value in recorded]
    if isinstance(ours, range):  # of millions of values, perhaps
        for key in keys:
            if isinstance(key, float) and key.is_integer() and int(key) in ours:
                position_of[key] = ours.index(int(key))
    else:
        position_of = {_key(value): position for position, value in enumerate(ours)}
    return np.array([position_of.get(key, -1) for key in keys], dtype=np.int64)


def _key(value: Value) -> Value:
    """Make values comparable: one file has 16 or true where another has 16.0 or 1."""
    return float(value) if isinstance(value, (bool, int, float)) else value
