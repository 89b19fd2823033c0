"""What recordings and other inputs teach a search: which rows become lessons, and of what."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.models.transfer_prior import Lesson, Taught
from harness.recordings.builder import Builder
from harness.recordings.recorded import Recorded
from harness.recordings.space import ListedSpace
from harness.search.transfer.sources import Teachers, first_legal, told_technique
from harness.space import Space
from harness.space_file import Parameter

HERE = Input({"n": 1024})
BX = Parameter("BX", "power_of_two", (16, 32, 64), "launch", 16)
TILE = Parameter("TILE", "integer", range(1, 5), "source", 1)

Row = tuple[tuple[Value, ...], float | Outcome]
"""The values of a configuration, and its seconds or how it failed."""


def space(*parameters: Parameter) -> Space:
    return Space(parameters or (BX, TILE))


def recorded(
    names: str, rows: Mapping[tuple[Value, ...], Sequence[Row]], features: str = "n"
) -> Recorded:
    """A recording; `rows` are those of each input, by the values of its features."""
    listed = features.split()
    builder = Builder(Path("other.json"), listed, names.split())
    for given, told in rows.items():
        for values, ended in told:
            if isinstance(ended, Outcome):
                builder.add((*given, *values), ended, message="as it is")
            else:
                builder.add((*given, *values), Outcome.OK, (ended, 3 * ended, 2 * ended))
    return builder.finish(
        lambda _name, cells: cells, title="k", kind="test", device="d", sha256="ab" * 32
    )


def taught(
    target: Space,
    given: Input,
    recordings: Sequence[Recorded],
    measured: Mapping[Input, Sequence[Measurement]],
) -> Taught | None:
    return Teachers(recordings).taught(target, given, measured)


def one_lesson(target: Space, recording: Recorded, given: Input = HERE) -> Lesson:
    found = taught(target, given, [recording], {})
    assert found is not None
    (lesson,) = found.lessons
    return lesson


def told(target: Space, lesson: Lesson) -> dict[tuple[Value, ...], float]:
    """The seconds of a lesson by the values of its configurations."""
    values = [tuple(dict(target.decode(p)).values()) for p in lesson.places.tolist()]
    return dict(zip(values, lesson.times_s.tolist(), strict=True))


# -------------------------------------------------------------------------- recordings


def test_what_was_read_is_told_in_a_line() -> None:
    target = Space((BX, TILE), [Expression("BX * TILE <= 32")])
    rows: list[Row] = [((16, 1, 5, 32), 1.0), ((64, 4, 5, 32), 1.0), ((17, 1, 5, 32), 1.0)]
    recording = recorded("BX TILE KIND WARP", {(7, 1): rows, (9, 1): rows}, "n m")
    assert list(Teachers([recording]).describe(target, HERE)) == [
        "other.json: test of k on d; 6 configurations on 2 inputs, 4 of them of this space, 2 "
        "legal on (n=1024); matched parameters: BX, TILE; ignored, since they never vary there: "
        "KIND, WARP; ignored features: n, m, since here they are n"
    ]


def test_rows_that_are_left_aside_are_told_and_the_recording_itself_fits_whole() -> None:
    own = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 1), 1.0)]})
    varied = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 2), 2.0)]})
    one, other = Teachers([varied, own]).describe(ListedSpace(own, OTHER), OTHER)
    assert "; 2 configurations, 1 of them of this space, 1 legal on (n=7); " in one
    assert "; matched parameters: BX; only rows with WARP=1; matched features: n" in one
    assert "; 2 configurations, all of them legal on (n=7); " in other


def test_a_recording_is_looked_up_once_for_all_inputs() -> None:
    teachers = Teachers([recorded("BX TILE", {(n,): [((16, 1), 1.0)] for n in range(9)})])
    found = [teachers.taught(space(), Input({"n": n}), {}) for n in range(3)]
    places = [[id(lesson.places) for lesson in taught.lessons] for taught in found if taught]
    assert len(places) == 3
    assert places[0] == places[1] == places[2]


def test_rows_become_places_by_names_and_values_with_their_median() -> None:
    recording = recorded("TILE BX", {(7,): [((4, 16), 1.0), ((1, 64), 0.5)]})
    found = told(space(), one_lesson(space(), recording))
    assert found == {(16, 4): 2.0, (64, 1): 1.0}


def test_numbers_of_two_files_are_equal_by_what_they_are_not_how_they_are_written() -> None:
    switch = Parameter("FLAG", "boolean", (False, True), "choice", False)
    target = space(BX, TILE, switch)
    recording = recorded("BX TILE FLAG", {(7,): [((16.0, 4.0, 0), 1.0), ((32.0, 1.0, 1), 2.0)]})
    found = told(target, one_lesson(target, recording))
    assert found == {(16, 4, False): 2.0, (32, 1, True): 4.0}


def test_words_are_equal_as_they_are_and_none_is_a_value() -> None:
    target = space(BX, Parameter("KIND", "enum", ("16", None, "row"), "choice", None))
    rows: list[Row] = [((16, "16"), 1.0), ((16, None), 2.0), ((32, 16), 3.0), ((32, "Row"), 4.0)]
    found = told(target, one_lesson(target, recorded("BX KIND", {(7,): rows})))
    assert found == {(16, "16"): 2.0, (16, None): 4.0}


@pytest.mark.parametrize("foreign", [(48, 1), (16, 5), (16, 0), (16, 1.5), (16, "1"), (16, None)])
def test_rows_with_values_that_the_space_does_not_have_are_dropped(
    foreign: tuple[Value, ...],
) -> None:
    recording = recorded("BX TILE", {(7,): [((16, 1), 1.0), (foreign, 2.0)]})
    assert told(space(), one_lesson(space(), recording)) == {(16, 1): 2.0}


def test_a_range_of_a_billion_values_is_never_listed() -> None:
    wide = Parameter("TILE", "integer", range(3, 3 * 10**9, 3), "source", 3)
    target = space(BX, wide)
    recording = recorded("BX TILE", {(7,): [((16, 2_999_999_997), 1.0), ((16, 4), 1.0)]})
    assert told(target, one_lesson(target, recording)) == {(16, 2_999_999_997): 2.0}


def test_failures_are_lessons_and_what_was_illegal_is_none() -> None:
    recording = recorded(
        "BX TILE",
        {(7,): [((16, 1), 1.0), ((16, 2), Outcome.CRASHED), ((16, 3), Outcome.ILLEGAL)]},
    )
    lesson = one_lesson(space(), recording)
    assert told(space(), lesson) == {(16, 1): 2.0, (16, 2): math.inf}
    assert lesson.slowdowns.tolist() == [0.0, 0.0]


def test_what_is_illegal_here_may_teach_of_what_is_not() -> None:
    target = Space((BX, TILE), [Expression("BX * TILE <= 32")])
    recording = recorded("BX TILE", {(7,): [((64, 4), 1.0)]})
    assert told(target, one_lesson(target, recording)) == {(64, 4): 2.0}


def test_each_input_of_a_recording_is_a_lesson() -> None:
    recording = recorded("BX TILE", {(7,): [((16, 1), 1.0)], (9,): [((32, 2), 2.0)]})
    found = taught(space(), HERE, [recording, recording], {})
    assert found is not None
    assert [lesson.given for lesson in found.lessons] == [Input({"n": 7}), Input({"n": 9})] * 2
    assert found.given == HERE


def test_inputs_of_which_nothing_worked_or_fits_are_left_out() -> None:
    recording = recorded(
        "BX TILE",
        {(7,): [((16, 1), Outcome.TIMEOUT)], (8,): [((17, 1), 1.0)], (9,): [((32, 2), 2.0)]},
    )
    assert one_lesson(space(), recording).given == Input({"n": 9})


# ------------------------------------------------------- parameters of one side alone


def test_what_never_varies_in_the_recording_need_not_vary_here() -> None:
    recording = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 1, 32), 2.0)]})
    assert told(space(), one_lesson(space(), recording)) == {(16, 1): 2.0, (32, 1): 4.0}


def test_what_varies_in_the_recording_alone_is_held_where_this_recording_has_it() -> None:
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    listed = ListedSpace(own, Input({"n": 7}))
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 32.0), 3.0), ((16, 2, 64), 4.0)]})
    lesson = one_lesson(listed, other, Input({"n": 7}))
    assert lesson.times_s.tolist() == [6.0]
    assert listed.decode(lesson.places[0].tolist())["WARP"] == 32


@pytest.mark.parametrize(
    ("names", "row", "reason"),
    [
        (
            "BX OTHER",
            (16, 1),
            "other.json: has no parameter TILE, only BX, OTHER; a search is taught by recordings "
            "of the same kernel",
        ),
        (
            "BX TILE",
            (17, 1),
            "other.json: no recorded configuration has values of this space's parameters",
        ),
        ("BX TILE", (16, 1), "other.json: no recorded configuration of this space worked"),
    ],
    ids=["lacks a parameter", "fits nowhere", "failed"],
)
def test_a_recording_that_teaches_nothing_says_why(
    names: str, row: tuple[Value, ...], reason: str
) -> None:
    ended = Outcome.BUILD_FAILED if reason.endswith("worked") else 1.0
    with pytest.raises(UsageError) as error:
        taught(space(), HERE, [recorded(names, {(7,): [(row, ended)]})], {})
    assert str(error.value) == reason


def test_a_recording_that_varies_what_this_kernel_lacks_is_refused() -> None:
    recording = recorded("BX TILE MORE", {(7,): [((16, 1, 1), 1.0), ((16, 1, 2), 1.0)]})
    with pytest.raises(UsageError, match="has a parameter MORE that this space lacks"):
        taught(space(), HERE, [recording], {})


def test_a_recording_that_never_has_a_value_that_is_held_here_says_so() -> None:
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 16), 3.0), ((16, 2, 64), 4.0)]})
    with pytest.raises(UsageError, match=r"other\.json: WARP is never 32, as it is here"):
        taught(ListedSpace(own, Input({"n": 7})), HERE, [other], {})


# ------------------------------------------------------------------------------ inputs


def measured(given: Input, values: Mapping[str, Value], ended: float | Outcome) -> Measurement:
    config = Config(values)
    if isinstance(ended, Outcome):
        return Measurement(config, given, ended, message="as it is")
    timing = Timing((ended,), StopReason.RECORDED)
    return Measurement(config, given, Outcome.OK, timing)


OTHER = Input({"n": 7})


def test_what_was_measured_on_another_input_is_a_lesson() -> None:
    found = taught(
        space(),
        HERE,
        [],
        {
            OTHER: [
                measured(OTHER, {"BX": 16, "TILE": 2}, 1.0),
                measured(OTHER, {"BX": 64, "TILE": 1}, Outcome.WRONG_RESULT),
                measured(OTHER, {"BX": 32, "TILE": 1}, Outcome.ILLEGAL),
                measured(OTHER, {"BX": 128, "TILE": 1}, 1.0),
                measured(OTHER, {"BX": 16}, 1.0),
            ]
        },
    )
    assert found is not None
    (lesson,) = found.lessons
    assert told(space(), lesson) == {(16, 2): 1.0, (64, 1): math.inf}
    assert lesson.given == OTHER


def test_parameters_that_matter_only_on_the_other_input_do_not_set_lessons_apart() -> None:
    pad = Parameter("PAD", "ordered", (0, 1, 2), "source", 0, when=Expression("n > 4096"))
    target = Space((BX, pad), given={"n": 1024})
    rows = [measured(OTHER, {"BX": 16, "PAD": place}, 1.0 + place) for place in range(3)]
    found = taught(target, HERE, [], {OTHER: rows})
    assert found is not None
    assert found.lessons[0].places.tolist() == [[0, 0]] * 3


def test_without_recordings_and_measurements_that_worked_nothing_is_taught() -> None:
    assert taught(space(), HERE, [], {}) is None
    failed = [measured(OTHER, {"BX": 16, "TILE": 2}, Outcome.TIMEOUT)]
    assert taught(space(), HERE, [], {OTHER: failed, Input({"n": 8}): []}) is None


def lessons(given: Input, features: str, *others: tuple[Value, ...]) -> list[Input | None]:
    """The inputs of the lessons of a measurement on n=7 and of recordings of others."""
    rows = {OTHER: [measured(OTHER, {"BX": 16, "TILE": 2}, 1.0)]}
    recordings = [recorded("BX TILE", {other: [((16, 1), 1.0)]}, features) for other in others]
    found = taught(space(), given, recordings, rows)
    assert isinstance(found, Taught)
    return [lesson.given for lesson in found.lessons]


def test_features_are_kept_where_all_lessons_and_the_input_tell_of_the_same() -> None:
    assert lessons(HERE, "n", (9,)) == [Input({"n": 9}), OTHER]


@pytest.mark.parametrize(
    ("given", "features", "others"),
    [
        (HERE, "n m", [(9, 1)]),
        (HERE, "problem_size", [(9,)]),
        (HERE, "", [()]),
        (Input({"n": 1024, "m": 1}), "n", [(9,)]),
    ],
    ids=["more", "other", "none", "fewer"],
)
def test_where_one_tells_of_other_features_none_tells_of_any(
    given: Input, features: str, others: list[tuple[Value, ...]]
) -> None:
    assert lessons(given, features, *others) == [None, None]


# --------------------------------------------------------------------------- and beside


def test_of_the_winners_of_other_inputs_the_first_that_is_legal_here_is_a_start() -> None:
    best = [measured(OTHER, {"BX": bx, "TILE": 1}, 1.0) for bx in (16, 64, 32)]
    narrow = Space([BX, TILE], [Expression("BX >= 32")])
    assert list(first_legal(narrow, [None, *best])) == [Config({"BX": 64, "TILE": 1})]
    assert list(first_legal(narrow, [None, best[0]])) == []


def test_a_run_that_was_taught_by_others_is_another_run() -> None:
    one = recorded("BX", {(7,): [((16,), 1.0)]})
    other = dataclasses.replace(one, sha256="cd" * 32)
    assert told_technique(("A", "B"), []) == "A,B"
    assert told_technique(("A",), [one, other]) == "A (taught by abababab, cdcdcdcd)"
