"""What other inputs and other devices teach a search before it begins."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.inputs import nearest_first
from harness.prior import MOST_ROWS, Lesson, Taught
from harness.recordings.recorded import Recorded, Table
from harness.records import Config, Input, Measurement, Outcome, Value, shown
from harness.space import Space
from harness.spec import Parameter


def first_legal(space: Space, best: Iterable[Measurement | None]) -> Iterator[Config]:
    """Of these measurements the first whose configuration is legal in a space, as it is there."""
    configs = (space.canonical(found.config) for found in best if found is not None)
    return itertools.islice(filter(space.is_legal, configs), 1)


def told_technique(names: Sequence[str], recordings: Iterable[Recorded]) -> str:
    """The technique of a run as the database has it: taught by others, it is another one."""
    digests = [recorded.sha256[:8] for recorded in recordings]
    return ",".join(names) + (f" (taught by {', '.join(digests)})" if digests else "")


def taught(
    space: Space,
    given: Input,
    recordings: Iterable[Recorded],
    measured: Mapping[Input, Sequence[Measurement]],
) -> Taught | None:
    """What recordings of other devices and measurements of other inputs teach of an input; None
    where there are none. Raises UsageError for a recording of another kernel."""
    lessons = [x for recorded in recordings for x in _lessons_of_recording(space, given, recorded)]
    alike = _most_alike(given, {other: len(found) for other, found in measured.items()})
    of_inputs = (_lesson_of_input(space, other, measured[other]) for other in alike)
    lessons += [lesson for lesson in of_inputs if lesson is not None]
    told = tuple(_without_foreign_features(lessons, given))
    return Taught(given, told) if told else None


def _lesson_of_input(space: Space, given: Input, measured: Iterable[Measurement]) -> Lesson | None:
    """What was measured on another input, of configurations that are points of the space that
    is taught; None where nothing of it worked."""
    kept = [m for m in measured if m.outcome is not Outcome.ILLEGAL and space.is_point(m.config)]
    if all(m.outcome is not Outcome.OK for m in kept):
        return None
    places = space.places_of([space.canonical(m.config) for m in kept])
    return Lesson(places, np.array([m.time_s for m in kept]), given)


def _most_alike(given: Input, rows: Mapping[Input, int]) -> list[Input]:
    """Of other inputs with so many rows each those most like this one, until a forest has enough
    to learn from; all where their features are not those of this one."""
    if sum(rows.values()) <= MOST_ROWS or any(set(other) != set(given) for other in rows):
        return list(rows)
    nearest = nearest_first(given, list(rows))
    before = itertools.accumulate((rows[other] for other in nearest), initial=0)
    return [other for other, count in zip(nearest, before, strict=False) if count < MOST_ROWS]


def _lessons_of_recording(space: Space, given: Input, recorded: Recorded) -> list[Lesson]:
    """What was recorded on another device, one lesson an input."""
    columns = [_column(recorded, parameter) for parameter in space.parameters]
    held = _held_values(space, recorded)
    found = []
    for other in _most_alike(given, {g: len(table) for g, table in recorded.tables.items()}):
        table = recorded.tables[other]
        places = np.empty((len(table), len(columns)), space.places_of([]).dtype)
        for axis, (column, moves) in enumerate(columns):
            places[:, axis] = moves[table.places[:, column]]
        rows = np.flatnonzero((places >= 0).all(axis=1) & _holds(table, held) & _ran(table))
        found.append(Lesson(places[rows], _times_s(table, rows), other))
    working = [lesson for lesson in found if np.isfinite(lesson.times_s).any()]
    if not working:
        known = any(len(lesson.places) for lesson in found)
        which = "of this space worked" if known else "has values of this space's parameters"
        raise UsageError(f"{recorded.path}: no recorded configuration {which}")
    return working


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


def _held_values(space: Space, recorded: Recorded) -> list[tuple[int, int]]:
    """Parameters that vary in the recording alone: the place of the value that ours has."""
    names = {p.name for p in space.parameters}
    held = []
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
            held.append((column, places[0]))
    return held


def _holds(table: Table, held: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    return np.array(
        np.all([table.places[:, column] == place for column, place in held], axis=0)
        if held
        else np.ones(len(table), dtype=bool)
    )


def _ran(table: Table) -> npt.NDArray[np.bool_]:
    """Whether each row is more than illegal."""
    return np.array([outcome is not Outcome.ILLEGAL for outcome in table.outcomes], dtype=bool)


def _times_s(table: Table, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    medians = (
        statistics.median(table.samples_s[row]) if table.outcomes[row] is Outcome.OK else np.inf
        for row in rows.tolist()
    )
    return np.fromiter(medians, dtype=np.float64, count=len(rows))


def _without_foreign_features(lessons: Sequence[Lesson], given: Input) -> Iterator[Lesson]:
    """The lessons; where one tells of other features than the input has, none tells of any."""
    alike = all(x.given is not None and set(x.given) == set(given) for x in lessons)
    return iter(lessons) if alike else (Lesson(x.places, x.times_s) for x in lessons)
