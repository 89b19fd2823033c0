"""What other inputs and other devices teach a search before it begins."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from harness.core.records import Config, Input, Measurement, Outcome
from harness.models.input_features import nearest_first
from harness.models.transfer_prior import MOST_ROWS, Lesson, Taught
from harness.recordings.recorded import Recorded
from harness.search.transfer.recording import Teacher, until
from harness.space import Space


def first_legal(space: Space, best: Iterable[Measurement | None]) -> Iterator[Config]:
    """Of these measurements the first whose configuration is legal in a space, as it is there."""
    configs = (space.canonical(found.config) for found in best if found is not None)
    return itertools.islice(filter(space.is_legal, configs), 1)


def told_technique(names: Sequence[str], recordings: Iterable[Recorded]) -> str:
    """The technique of a run as the database has it: taught by others, it is another one."""
    digests = [recorded.sha256[:8] for recorded in recordings]
    return ",".join(names) + (f" (taught by {', '.join(digests)})" if digests else "")


class Teachers:
    """Recordings of other devices, and what they teach of a space whose parameters stay."""

    def __init__(self, recordings: Iterable[Recorded]) -> None:
        self.recordings = tuple(recordings)
        self._teachers: list[Teacher] = []

    def of(self, space: Space) -> list[Teacher]:
        """Each as a teacher of a space. Raises UsageError for a recording of another kernel."""
        if any(teacher.parameters != space.parameters for teacher in self._teachers):
            self._teachers = []
        if not self._teachers:
            self._teachers = [Teacher(space, recorded) for recorded in self.recordings]
        return self._teachers

    def describe(self, space: Space, given: Input) -> Iterator[str]:
        """What each of them was read as, in a line, beside one input that is taught.

        Raises UsageError for one that teaches nothing.
        """
        return (teacher.described(space, given) for teacher in self.of(space))

    def taught(
        self, space: Space, given: Input, measured: Mapping[Input, Sequence[Measurement]]
    ) -> Taught | None:
        """What the recordings and measurements of other inputs teach of an input; None where
        there are none. Raises UsageError for a recording that teaches nothing."""
        lessons = [lesson for teacher in self.of(space) for lesson in teacher.lessons(given)]
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
    return list(until(MOST_ROWS, nearest_first(given, list(rows)), rows.__getitem__))


def _without_foreign_features(lessons: Sequence[Lesson], given: Input) -> Iterator[Lesson]:
    """The lessons; where one tells of other features than the input has, none tells of any."""
    alike = all(x.given is not None and set(x.given) == set(given) for x in lessons)
    return iter(lessons) if alike else (Lesson(x.places, x.times_s) for x in lessons)
