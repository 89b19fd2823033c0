"""A recording of another device as a source of transfer learning, matched with a space."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Input, Outcome, Value, shown
from harness.models.encoding.columns import nearest_first
from harness.models.transfer_prior import MOST_ROWS, SourceTask
from harness.recordings.recording import Recording
from harness.space import PointArray, Space
from harness.space_file import Parameter


class TransferSource:
    """The rows of a recording that belong to a space, one source task an input of the recording.

    The rows do not depend on the input that is tuned, so they are looked up once.
    """

    def __init__(self, space: Space, recording: Recording) -> None:
        """Match parameters by name. Raises UsageError for a recording of another kernel."""
        self.recording = recording
        self.parameters = space.parameters
        self._columns = [_column(recording, parameter) for parameter in space.parameters]
        self._held = _held_values(space, recording)
        self._dtype = space.encode_all([]).dtype
        self._counts = {other: len(table) for other, table in recording.tables.items()}
        ends = itertools.accumulate(self._counts.values())
        self._ends = dict(zip(self._counts, ends, strict=True))
        self._tasks: dict[Input, SourceTask] = {}

    def tasks(self, problem: Input) -> list[SourceTask]:
        """Return the source tasks of the recorded inputs that are most like this one.

        Raises UsageError where none of their configurations worked.
        """
        found = [self._task(other) for other in most_alike(problem, self._counts)]
        working = [task for task in found if np.isfinite(task.times_s).any()]
        if not working:
            known = any(len(task.positions) for task in found)
            which = "of this space worked" if known else "has values of this space's parameters"
            raise UsageError(f"{self.recording.path}: no recorded configuration {which}")
        return working

    @cached_property
    def _positions(self) -> PointArray:
        """All rows as positions in the space; -1 for values that the space lacks."""
        theirs = np.concatenate([table.positions for table in self.recording.tables.values()])
        positions = np.empty((len(theirs), len(self._columns)), self._dtype)
        for axis, (column, moves) in enumerate(self._columns):
            positions[:, axis] = moves[theirs[:, column]]
        return positions

    @cached_property
    def _fits(self) -> npt.NDArray[np.bool_]:
        """Whether each row belongs to the space."""
        tables = self.recording.tables.values()
        ran = [outcome is not Outcome.ILLEGAL for table in tables for outcome in table.outcomes]
        fits: npt.NDArray[np.bool_] = (self._positions >= 0).all(axis=1) & np.array(ran, dtype=bool)
        for column, position in self._held.items():
            fits &= np.concatenate([table.positions[:, column] for table in tables]) == position
        return fits

    def _task(self, other: Input) -> SourceTask:
        if other not in self._tasks:
            table, end = self.recording.tables[other], self._ends[other]
            rows = slice(end - len(table), end)
            fits = self._fits[rows]
            self._tasks[other] = SourceTask(self._positions[rows][fits], table.times_s[fits], other)
        return self._tasks[other]

    def describe(self, space: Space, problem: Input) -> str:
        """Describe in a line what was read; `space` is that of the input `problem`.

        Raises UsageError where nothing of it can be used.
        """
        recording, fits = self.recording, self._fits
        self.tasks(problem)
        total, inputs = len(fits), len(self._counts)
        legal = int(space.are_legal(self._positions[fits]).sum())
        if total == legal:
            counted = f"all legal on ({problem})"
        else:
            counted = f"{fits.sum():,} belong to this space, {legal:,} are legal on ({problem})"
        across = f" on {inputs:,} inputs" if inputs > 1 else ""
        return (
            f"{recording.path.name}: {recording.kind} of {recording.title} on {recording.device}; "
            f"{total:,} configurations{across}, {counted}; {self._parameters_line()}; "
            f"{self._features_line(problem)}"
        )

    def _parameters_line(self) -> str:
        """List the parameters that are matched by name, held at a value, or constant there."""
        names = [p.name for p in self.parameters]
        theirs = self.recording.parameters
        pairs = ((theirs[column], position) for column, position in self._held.items())
        held = [f"{p.name}={shown(p.values[position])}" for p, position in pairs]
        constant = [p.name for p in theirs if p.name not in names and len(p.values) == 1]
        parts = [f"matched parameters: {', '.join(names)}"]
        parts += [f"only rows with {', '.join(held)}"] if held else []
        if constant:
            parts.append(f"ignored parameters (constant there): {', '.join(constant)}")
        return "; ".join(parts)

    def _features_line(self, problem: Input) -> str:
        theirs = ", ".join(self.recording.features)
        if set(self.recording.features) == set(problem):
            return f"matched features: {theirs}"
        return f"ignored features: {theirs} (this space has {', '.join(problem)})"


def _column(recording: Recording, parameter: Parameter) -> tuple[int, npt.NDArray[np.int64]]:
    """Find a parameter among the recording's, and map the positions of its values to ours; -1 for
    values that the space lacks."""
    names = [p.name for p in recording.parameters]
    if parameter.name not in names:
        raise UsageError(
            f"{recording.path}: has no parameter {parameter.name}, only {', '.join(names)}; "
            "--warm-start needs recordings of the same kernel"
        )
    column = names.index(parameter.name)
    theirs = recording.parameters[column].values
    return column, np.array(_positions_in(parameter.values, theirs), dtype=np.int64)


def _positions_in(ours: Sequence[Value], theirs: Sequence[Value]) -> list[int]:
    if isinstance(ours, range):  # of millions of values, perhaps
        keys = [_key(value) for value in theirs]
        whole = [int(k) if isinstance(k, float) and k.is_integer() else None for k in keys]
        return [-1 if k is None or k not in ours else ours.index(k) for k in whole]
    known = {_key(value): position for position, value in enumerate(ours)}
    return [known.get(_key(value), -1) for value in theirs]


def _key(value: Value) -> Value:
    """Make values comparable: one file has 16 or true where another has 16.0 or 1."""
    return float(value) if isinstance(value, (bool, int, float)) else value


def _held_values(space: Space, recording: Recording) -> Mapping[int, int]:
    """Map the columns of parameters that vary only in the recording to the position of the value
    that this space holds them at."""
    names = {p.name for p in space.parameters}
    held = {}
    for column, parameter in enumerate(recording.parameters):
        if parameter.name not in names and len(parameter.values) > 1:
            if parameter.name not in space.default:
                raise UsageError(
                    f"{recording.path}: has a parameter {parameter.name} that this space lacks; "
                    "--warm-start needs recordings of the same kernel"
                )
            value = space.default[parameter.name]
            keys = list(map(_key, parameter.values))
            if _key(value) not in keys:
                raise UsageError(
                    f"{recording.path}: {parameter.name} is never {shown(value)}, its value in "
                    "this space"
                )
            held[column] = keys.index(_key(value))
    return held


def most_alike(problem: Input, rows: Mapping[Input, int]) -> list[Input]:
    """Choose the inputs most like this one until a forest has enough rows to learn from; all of
    them where their features differ from its own. `rows` counts the measurements of each."""
    if sum(rows.values()) <= MOST_ROWS or any(set(other) != set(problem) for other in rows):
        return list(rows)
    nearest = nearest_first(problem, list(rows))
    before = itertools.accumulate((rows[other] for other in nearest), initial=0)
    return [other for other, total in zip(nearest, before, strict=False) if total < MOST_ROWS]
