"""What a search learns from before its first test: recordings, other inputs, and other devices in
the database. Of each, the configurations that are points of the searched space become a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Input, Measurement, Outcome, Value, shown
from harness.models.columns import nearest_first
from harness.models.transfer_prior import MOST_ROWS, SourceTask, TransferData
from harness.recordings.recording import RecordedTable, Recording
from harness.results import MeasurementRows, RunPlan, Store
from harness.results.campaigns import other_devices, read_device
from harness.results.notes import DeviceResults, Notes
from harness.space import PointArray, Space
from harness.space_file import Parameter


class TransferSources:
    """Recordings of other devices, and the inputs of a campaign that were searched before."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.recordings = tuple(recordings)
        self._matched: list[_MatchedRecording] = []

    def technique(self, names: Sequence[str]) -> str:
        """Name a run's technique as the database stores it: a warm start makes it another run."""
        digests = [recording.sha256[:8] for recording in self.recordings]
        return ",".join(names) + (f" (with data of {', '.join(digests)})" if digests else "")

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
        tasks = [task for source in self._matches(space) for task in source.tasks(problem)]
        counts = {other: len(source) for other, source in measured.items()}
        tasks += stored
        tasks += _alike(problem, counts, lambda other: _task(space, other, measured[other]))
        if any(task.problem is None or set(task.problem) != set(problem) for task in tasks):
            tasks = [SourceTask(task.positions, task.times_s) for task in tasks]
        return TransferData(problem, tuple(tasks)) if tasks else None

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
        if self._now is None and self._wanted:  # once: all inputs start from the same results
            self._now = store.read(
                lambda: other_devices(store.connection, plan.spec, plan.environment)
            )
        return self._now or ()

    def notes(self, plan: RunPlan) -> Notes:
        """Return the note of a run that begins; none where no other device has results."""
        sources = self.of(plan)
        return {"warm_start": sources} if sources else {}

    def tasks(self, plan: RunPlan, space: Space) -> list[SourceTask]:
        """Return what these results teach about a run's input: of each device, the inputs that
        are most like it."""
        tasks: list[SourceTask] = []
        for source in self.of(plan):
            rows = self._read(plan, source)

            def task(other: Input, source: DeviceResults = source) -> SourceTask | None:
                if (source, other) not in self._tasks:
                    measured = self._rows[source][other].measurements()
                    self._tasks[source, other] = _task(space, other, measured)
                return self._tasks[source, other]

            tasks += _alike(plan.problem, {other: len(own) for other, own in rows.items()}, task)
        return tasks

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


def _most_alike(problem: Input, rows: Mapping[Input, int]) -> list[Input]:
    """Choose the inputs most like this one until a forest has enough rows to learn from; all of
    them where their features differ from its own. `rows` counts the measurements of each."""
    if sum(rows.values()) <= MOST_ROWS or any(set(other) != set(problem) for other in rows):
        return list(rows)
    chosen, total = [], 0
    for other in nearest_first(problem, list(rows)):
        if total < MOST_ROWS:
            chosen.append(other)
        total += rows[other]
    return chosen


def _alike(
    problem: Input, rows: Mapping[Input, int], task: Callable[[Input], SourceTask | None]
) -> list[SourceTask]:
    """Make the tasks of the most alike inputs on which anything worked."""
    return [
        task_found for task_found in map(task, _most_alike(problem, rows)) if task_found is not None
    ]


def _task(space: Space, other: Input, measured: Iterable[Measurement]) -> SourceTask | None:
    """Keep the measurements of an input that are points of a space; None where all failed."""
    kept = [m for m in measured if m.outcome is not Outcome.ILLEGAL and space.is_point(m.config)]
    if all(m.outcome is not Outcome.OK for m in kept):
        return None
    positions = space.encode_all([space.canonical(m.config) for m in kept])
    return SourceTask(positions, np.array([m.time_s for m in kept]), other)


class _MatchedRecording:
    """The rows of a recording that are points of a space, whose parameters have the same names.

    They do not depend on the input that is tuned, so they are looked up once.
    """

    def __init__(self, space: Space, recording: Recording) -> None:
        """Raises UsageError for a recording of another kernel."""
        self.recording, self.parameters = recording, space.parameters
        self._moves = [_moves(recording, parameter) for parameter in space.parameters]
        self._fixed = _fixed_positions(space, recording)
        self._points: dict[Input, tuple[PointArray, npt.NDArray[np.bool_]]] = {
            other: self._matching(table, space.encode_all([]).dtype)
            for other, table in recording.tables.items()
        }

    def _matching(
        self, table: RecordedTable, dtype: np.dtype[np.signedinteger]
    ) -> tuple[PointArray, npt.NDArray[np.bool_]]:
        """Return the points of a table, and which of its rows they are."""
        points = np.empty((len(table), len(self._moves)), dtype)
        for axis, (column, moves) in enumerate(self._moves):
            points[:, axis] = moves[table.positions[:, column]]
        fits = np.zeros(len(table), dtype=bool)
        fits[table.legal] = (points[table.legal] >= 0).all(axis=1)
        for column, position in self._fixed.items():
            fits &= table.positions[:, column] == position
        return points[fits], fits

    def tasks(self, problem: Input) -> list[SourceTask]:
        """Return the tasks of the recorded inputs that are most like this one.

        Raises UsageError where none of their configurations worked.
        """
        counts = {other: len(fits) for other, (_, fits) in self._points.items()}
        tasks = _alike(problem, counts, self._task)
        if not tasks:
            known = any(len(points) for points, _ in self._points.values())
            which = "of this space worked" if known else "has values of this space's parameters"
            raise UsageError(f"{self.recording.path}: no recorded configuration {which}")
        return tasks

    def _task(self, other: Input) -> SourceTask | None:
        points, fits = self._points[other]
        times_s = self.recording.tables[other].times_s[fits]
        return SourceTask(points, times_s, other) if np.isfinite(times_s).any() else None

    def describe(self, space: Space, problem: Input) -> str:
        """Describe in a line what was read; `space` is that of the input `problem`.

        Raises UsageError where nothing of it can be used.
        """
        recording, inputs = self.recording, len(self._points)
        self.tasks(problem)
        total = sum(map(len, recording.tables.values()))
        fitting = sum(len(points) for points, _ in self._points.values())
        legal = sum(int(space.are_legal(points).sum()) for points, _ in self._points.values())
        if total == legal:
            counted = f"all legal on ({problem})"
        else:
            counted = f"{fitting:,} belong to this space, {legal:,} are legal on ({problem})"
        across = f" on {inputs:,} inputs" if inputs > 1 else ""
        parts = (
            f"{recording.path.name}: {recording.kind} of {recording.title} on {recording.device}",
            f"{total:,} configurations{across}, {counted}",
            *self._differences(problem),
        )
        return "; ".join(parts)

    def _differences(self, problem: Input) -> Iterator[str]:
        """Say what of the recording does not count, since this space lacks it."""
        theirs = self.recording.parameters
        fixed = [
            f"{theirs[column].name}={shown(theirs[column].values[position])}"
            for column, position in self._fixed.items()
        ]
        if fixed:
            yield f"only rows with {', '.join(fixed)}"
        if set(self.recording.features) != set(problem):
            yield f"ignored features: {', '.join(self.recording.features)}"


def _moves(recording: Recording, parameter: Parameter) -> tuple[int, npt.NDArray[np.int64]]:
    """Find a parameter among the recording's, and map the positions of its values to ours; -1 for
    values that the space lacks."""
    names = [p.name for p in recording.parameters]
    if parameter.name not in names:
        raise UsageError(
            f"{recording.path}: has no parameter {parameter.name}, only {', '.join(names)}; "
            "--warm-start needs recordings of the same kernel"
        )
    column, ours = names.index(parameter.name), parameter.values
    keys = [_key(value) for value in recording.parameters[column].values]
    if isinstance(ours, range):  # of millions of values, perhaps
        whole = [int(k) if isinstance(k, float) and k.is_integer() else None for k in keys]
        positions = [-1 if k is None or k not in ours else ours.index(k) for k in whole]
    else:
        known = {_key(value): position for position, value in enumerate(ours)}
        positions = [known.get(key, -1) for key in keys]
    return column, np.array(positions, dtype=np.int64)


def _key(value: Value) -> Value:
    """Make values comparable: one file has 16 or true where another has 16.0 or 1."""
    return float(value) if isinstance(value, (bool, int, float)) else value


def _fixed_positions(space: Space, recording: Recording) -> Mapping[int, int]:
    """Map the columns of parameters that vary in the recording alone to the position of the value
    that they have in this space."""
    names = {p.name for p in space.parameters}
    fixed = {}
    for column, parameter in enumerate(recording.parameters):
        if parameter.name not in names and len(parameter.values) > 1:
            if parameter.name not in space.default:
                raise UsageError(
                    f"{recording.path}: has a parameter {parameter.name} that this space lacks; "
                    "--warm-start needs recordings of the same kernel"
                )
            value, keys = space.default[parameter.name], list(map(_key, parameter.values))
            if _key(value) not in keys:
                raise UsageError(
                    f"{recording.path}: {parameter.name} is never {shown(value)}, its value in "
                    "this space"
                )
            fixed[column] = keys.index(_key(value))
    return fixed
