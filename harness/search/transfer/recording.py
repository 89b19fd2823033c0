"""A recording of another device as a teacher: which of its rows tell something of a space."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Input, Outcome, Value, shown
from harness.models.input_features import InputTable
from harness.models.transfer_prior import MOST_ROWS, Lesson
from harness.recordings.recorded import Recorded
from harness.space import Places, Space
from harness.space_file import Parameter


class Teacher:
    """What a recording teaches of the configurations of a space, one lesson an input of its own.

    Which rows those are does not depend on the input that is taught: they are looked up once.
    """

    def __init__(self, space: Space, recorded: Recorded) -> None:
        """Raises UsageError for a recording of another kernel."""
        self.recorded = recorded
        self.parameters = space.parameters
        self._columns = [_column(recorded, parameter) for parameter in space.parameters]
        self._held = _held_values(space, recorded)
        self._dtype = space.places_of([]).dtype
        self._inputs = list(recorded.tables)
        counts = [len(table) for table in recorded.tables.values()]
        self._ends = dict(zip(self._inputs, itertools.accumulate(counts), strict=True))
        self._lessons: dict[Input, Lesson] = {}

    def lessons(self, given: Input) -> list[Lesson]:
        """The lessons of those of its inputs which are most like this one.

        Raises UsageError where nothing of them worked.
        """
        found = [self._lesson(other) for other in self._most_alike(given)]
        working = [lesson for lesson in found if np.isfinite(lesson.times_s).any()]
        if not working:
            known = any(len(lesson.places) for lesson in found)
            which = "of this space worked" if known else "has values of this space's parameters"
            raise UsageError(f"{self.recorded.path}: no recorded configuration {which}")
        return working

    def _most_alike(self, given: Input) -> list[Input]:
        """Its inputs, or of many those most like this one, until a forest has enough to learn
        from; all where their features are not those of this one."""
        rows = len(self._fits)
        if rows <= MOST_ROWS or set(self.recorded.features) != set(given):
            return self._inputs
        nearest = self._table.nearest_first(given)
        return list(until(MOST_ROWS, nearest, lambda other: len(self.recorded.tables[other])))

    @cached_property
    def _table(self) -> InputTable:
        return InputTable(self._inputs)

    @cached_property
    def _places(self) -> Places:
        """All rows of the recording as places in the space; -1 for values that it does not have."""
        theirs = np.concatenate([table.places for table in self.recorded.tables.values()])
        places = np.empty((len(theirs), len(self._columns)), self._dtype)
        for axis, (column, moves) in enumerate(self._columns):
            places[:, axis] = moves[theirs[:, column]]
        return places

    @cached_property
    def _fits(self) -> npt.NDArray[np.bool_]:
        """Which rows are of the space."""
        tables = self.recorded.tables.values()
        ran = [outcome is not Outcome.ILLEGAL for table in tables for outcome in table.outcomes]
        fits: npt.NDArray[np.bool_] = (self._places >= 0).all(axis=1) & np.array(ran, dtype=bool)
        for column, place in self._held.items():
            fits &= np.concatenate([table.places[:, column] for table in tables]) == place
        return fits

    def _lesson(self, given: Input) -> Lesson:
        if given not in self._lessons:
            table, end = self.recorded.tables[given], self._ends[given]
            rows = slice(end - len(table), end)
            fits = self._fits[rows]
            self._lessons[given] = Lesson(self._places[rows][fits], table.times_s[fits], given)
        return self._lessons[given]

    def described(self, space: Space, given: Input) -> str:
        """What was read, in a line; `space` is that of an input which is taught.

        Raises UsageError where there is nothing to teach it.
        """
        recorded, fits = self.recorded, self._fits
        self.lessons(given)
        total, inputs = len(fits), len(self._inputs)
        legal = int(space.are_legal(self._places[fits]).sum())
        if total == legal:
            counted = f"all of them legal on ({given})"
        else:
            counted = f"{fits.sum():,} of them of this space, {legal:,} legal on ({given})"
        across = f" on {inputs:,} inputs" if inputs > 1 else ""
        return (
            f"{recorded.path.name}: {recorded.kind} of {recorded.title} on {recorded.device}; "
            f"{total:,} configurations{across}, {counted}; {self._told_parameters()}; "
            f"{self._told_features(given)}"
        )

    def _told_parameters(self) -> str:
        """Which parameters are matched by name, held at a value, or never vary there."""
        names = [p.name for p in self.parameters]
        theirs = self.recorded.parameters
        pairs = ((theirs[column], place) for column, place in self._held.items())
        held = [f"{p.name}={shown(p.values[place])}" for p, place in pairs]
        constant = [p.name for p in theirs if p.name not in names and len(p.values) == 1]
        parts = [f"matched parameters: {', '.join(names)}"]
        parts += [f"only rows with {', '.join(held)}"] if held else []
        if constant:
            parts.append(f"ignored, since they never vary there: {', '.join(constant)}")
        return "; ".join(parts)

    def _told_features(self, given: Input) -> str:
        theirs = ", ".join(self.recorded.features)
        if set(self.recorded.features) == set(given):
            return f"matched features: {theirs}"
        return f"ignored features: {theirs}, since here they are {', '.join(given)}"


def _column(recorded: Recorded, parameter: Parameter) -> tuple[int, npt.NDArray[np.int64]]:
    """Which of the recording's parameters this is, and from its values' places to ours; -1 for
    values that the space does not have."""
    names = [p.name for p in recorded.parameters]
    if parameter.name not in names:
        raise UsageError(
            f"{recorded.path}: has no parameter {parameter.name}, only {', '.join(names)}; "
            "a search is taught by recordings of the same kernel"
        )
    column = names.index(parameter.name)
    theirs = recorded.parameters[column].values
    return column, np.array(_places_of(parameter.values, theirs), dtype=np.int64)


def _places_of(ours: Sequence[Value], theirs: Sequence[Value]) -> list[int]:
    if isinstance(ours, range):  # of millions of values, perhaps
        keys = [_key(value) for value in theirs]
        whole = [int(k) if isinstance(k, float) and k.is_integer() else None for k in keys]
        return [-1 if k is None or k not in ours else ours.index(k) for k in whole]
    known = {_key(value): place for place, value in enumerate(ours)}
    return [known.get(_key(value), -1) for value in theirs]


def _key(value: Value) -> Value:
    """16 and 16.0 are one value of two files; true and 1 are, too."""
    return float(value) if isinstance(value, (bool, int, float)) else value


def _held_values(space: Space, recorded: Recorded) -> Mapping[int, int]:
    """Parameters that vary in the recording alone: by their columns the place of the value that
    ours has."""
    names = {p.name for p in space.parameters}
    held = {}
    for column, parameter in enumerate(recorded.parameters):
        if parameter.name not in names and len(parameter.values) > 1:
            if parameter.name not in space.default:
                raise UsageError(
                    f"{recorded.path}: has a parameter {parameter.name} that this space lacks; "
                    "a search is taught by recordings of the same kernel"
                )
            value = space.default[parameter.name]
            places = [k for k, v in enumerate(parameter.values) if _key(v) == _key(value)]
            if not places:
                raise UsageError(
                    f"{recorded.path}: {parameter.name} is never {shown(value)}, as it is here"
                )
            held[column] = places[0]
    return held


def until(most: int, inputs: Iterable[Input], rows: Callable[[Input], int]) -> Iterator[Input]:
    """The first of these inputs, until there are so many rows."""
    there = 0
    for given in inputs:
        if there >= most:
            return
        there += rows(given)
        yield given
