"""Transfer learning: which rows of recordings and of other inputs become source tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import pytest

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.models.transfer_prior import MOST_ROWS, SourceTask, TransferData
from harness.recordings.recording import RecordedOutcome, Recording, RecordingBuilder, typed
from harness.recordings.replay import ListedSpace
from harness.search.transfer import TransferSources
from harness.space import ConstrainedSpace, Space
from harness.space_file import Parameter

HERE = Input({"n": 1024})
BX = Parameter("BX", "power_of_two", (16, 32, 64), "launch", 16)
TILE = Parameter("TILE", "integer", range(1, 5), "source", 1)

Row = tuple[tuple[Value, ...], float | Outcome]
"""The values of a configuration, and its seconds or how it failed."""


def space(*parameters: Parameter) -> Space:
    return ConstrainedSpace(parameters or (BX, TILE))


def recorded(
    names: str, rows: Mapping[tuple[Value, ...], Sequence[Row]], features: str = "n"
) -> Recording:
    """A recording; `rows` are those of each input, by the values of its features."""
    listed = features.split()
    readers = dict.fromkeys([*listed, *names.split()], itemgetter(1))
    builder = RecordingBuilder(Path("other.json"), listed, names.split(), readers)
    for features_, table in rows.items():
        for values, ended in table:
            if isinstance(ended, Outcome):
                outcome = RecordedOutcome(ended, message="as it is")
            else:
                outcome = RecordedOutcome(Outcome.OK, (ended, 3 * ended, 2 * ended))
            builder.add(list(map(typed, (*features_, *values))), outcome)
    return builder.finish(title="k", kind="test", device="d", sha256="ab" * 32)


def data_for(
    target: Space,
    problem: Input,
    recordings: Sequence[Recording],
    measured: Mapping[Input, Sequence[Measurement]],
) -> TransferData | None:
    return TransferSources(recordings).data_for(target, problem, measured)


def one_task(target: Space, recording: Recording, problem: Input = HERE) -> SourceTask:
    found = data_for(target, problem, [recording], {})
    assert found is not None
    (task,) = found.sources
    return task


def seconds(target: Space, task: SourceTask) -> dict[tuple[Value, ...], float]:
    """The seconds of a source task by the values of its configurations."""
    values = [tuple(dict(target.decode(p)).values()) for p in task.positions.tolist()]
    return dict(zip(values, task.times_s.tolist(), strict=True))


# -------------------------------------------------------------------------- recordings


def test_a_recording_is_described_in_a_line() -> None:
    target = ConstrainedSpace((BX, TILE), [Expression("BX * TILE <= 32")])
    rows: list[Row] = [((16, 1, 5, 32), 1.0), ((64, 4, 5, 32), 1.0), ((17, 1, 5, 32), 1.0)]
    recording = recorded("BX TILE KIND WARP", {(7, 1): rows, (9, 1): rows}, "n m")
    assert list(TransferSources([recording]).describe(target, HERE)) == [
        "other.json: test of k on d; 6 configurations on 2 inputs, 4 belong to this space, 2 "
        "are legal on (n=1024); ignored features: n, m"
    ]


def test_rows_that_are_left_aside_are_counted_and_the_recording_itself_fits_whole() -> None:
    own = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 1), 1.0)]})
    varied = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 2), 2.0)]})
    one, other = TransferSources([varied, own]).describe(ListedSpace(own, OTHER), OTHER)
    assert "; 2 configurations, 1 belong to this space, 1 are legal on (n=7); " in one
    assert one.endswith("; only rows with WARP=1")
    assert other.endswith("; 2 configurations, all legal on (n=7)")


def test_a_recording_is_looked_up_once_for_all_inputs() -> None:
    sources = TransferSources([recorded("BX TILE", {(n,): [((16, 1), 1.0)] for n in range(9)})])
    found = [sources.data_for(space(), Input({"n": n}), {}) for n in range(3)]
    positions = [[id(task.positions) for task in data.sources] for data in found if data]
    assert len(positions) == 3
    assert positions[0] == positions[1] == positions[2]


def test_rows_become_positions_by_names_and_values_with_their_median() -> None:
    recording = recorded("TILE BX", {(7,): [((4, 16), 1.0), ((1, 64), 0.5)]})
    found = seconds(space(), one_task(space(), recording))
    assert found == {(16, 4): 2.0, (64, 1): 1.0}


def test_numbers_of_two_files_are_equal_by_what_they_are_not_how_they_are_written() -> None:
    switch = Parameter("FLAG", "boolean", (False, True), "choice", False)
    target = space(BX, TILE, switch)
    recording = recorded("BX TILE FLAG", {(7,): [((16.0, 4.0, 0), 1.0), ((32.0, 1.0, 1), 2.0)]})
    found = seconds(target, one_task(target, recording))
    assert found == {(16, 4, False): 2.0, (32, 1, True): 4.0}


def test_words_are_equal_as_they_are_and_none_is_a_value() -> None:
    target = space(BX, Parameter("KIND", "enum", ("16", None, "row"), "choice", None))
    rows: list[Row] = [((16, "16"), 1.0), ((16, None), 2.0), ((32, 16), 3.0), ((32, "Row"), 4.0)]
    found = seconds(target, one_task(target, recorded("BX KIND", {(7,): rows})))
    assert found == {(16, "16"): 2.0, (16, None): 4.0}


@pytest.mark.parametrize("foreign", [(48, 1), (16, 5), (16, 0), (16, 1.5), (16, "1"), (16, None)])
def test_rows_with_values_that_the_space_lacks_are_dropped(foreign: tuple[Value, ...]) -> None:
    recording = recorded("BX TILE", {(7,): [((16, 1), 1.0), (foreign, 2.0)]})
    assert seconds(space(), one_task(space(), recording)) == {(16, 1): 2.0}


def test_a_range_of_a_billion_values_is_never_listed() -> None:
    wide = Parameter("TILE", "integer", range(3, 3 * 10**9, 3), "source", 3)
    target = space(BX, wide)
    recording = recorded("BX TILE", {(7,): [((16, 2_999_999_997), 1.0), ((16, 4), 1.0)]})
    assert seconds(target, one_task(target, recording)) == {(16, 2_999_999_997): 2.0}


def test_failures_are_source_rows_and_illegal_configurations_are_not() -> None:
    recording = recorded(
        "BX TILE", {(7,): [((16, 1), 1.0), ((16, 2), Outcome.CRASHED), ((16, 3), Outcome.ILLEGAL)]}
    )
    task = one_task(space(), recording)
    assert seconds(space(), task) == {(16, 1): 2.0, (16, 2): math.inf}
    assert task.slowdowns.tolist() == [0.0, 0.0]


def test_configurations_that_are_illegal_here_are_source_rows() -> None:
    target = ConstrainedSpace((BX, TILE), [Expression("BX * TILE <= 32")])
    recording = recorded("BX TILE", {(7,): [((64, 4), 1.0)]})
    assert seconds(target, one_task(target, recording)) == {(64, 4): 2.0}


def test_each_input_of_a_recording_is_a_source_task() -> None:
    recording = recorded("BX TILE", {(7,): [((16, 1), 1.0)], (9,): [((32, 2), 2.0)]})
    found = data_for(space(), HERE, [recording, recording], {})
    assert found is not None
    assert [task.problem for task in found.sources] == [Input({"n": 7}), Input({"n": 9})] * 2
    assert found.problem == HERE


def test_inputs_of_which_nothing_worked_or_fits_are_left_out() -> None:
    recording = recorded(
        "BX TILE",
        {(7,): [((16, 1), Outcome.TIMEOUT)], (8,): [((17, 1), 1.0)], (9,): [((32, 2), 2.0)]},
    )
    assert one_task(space(), recording).problem == Input({"n": 9})


# ------------------------------------------------------- parameters of one side alone


def test_what_never_varies_in_the_recording_need_not_vary_here() -> None:
    recording = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 1, 32), 2.0)]})
    assert seconds(space(), one_task(space(), recording)) == {(16, 1): 2.0, (32, 1): 4.0}


def test_what_varies_in_the_recording_alone_is_held_where_this_recording_has_it() -> None:
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    listed = ListedSpace(own, Input({"n": 7}))
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 32.0), 3.0), ((16, 2, 64), 4.0)]})
    task = one_task(listed, other, Input({"n": 7}))
    assert task.times_s.tolist() == [6.0]
    assert listed.decode(task.positions[0].tolist())["WARP"] == 32


def test_a_recording_that_never_has_a_value_that_is_held_here_says_so() -> None:
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 16), 3.0), ((16, 2, 64), 4.0)]})
    with pytest.raises(UsageError, match=r"other\.json: WARP is never 32, its value in this space"):
        data_for(ListedSpace(own, Input({"n": 7})), HERE, [other], {})


# ------------------------------------------------------------------------------ inputs


def measured(problem: Input, values: Mapping[str, Value], ended: float | Outcome) -> Measurement:
    config = Config(values)
    if isinstance(ended, Outcome):
        return Measurement(config, problem, ended, message="as it is")
    timing = Timing((ended,), StopReason.RECORDED)
    return Measurement(config, problem, Outcome.OK, timing)


OTHER = Input({"n": 7})


def test_measurements_of_another_input_are_a_source_task() -> None:
    found = data_for(
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
    (task,) = found.sources
    assert seconds(space(), task) == {(16, 2): 1.0, (64, 1): math.inf}
    assert task.problem == OTHER


def test_parameters_that_matter_only_on_the_other_input_do_not_set_source_rows_apart() -> None:
    pad = Parameter("PAD", "ordered", (0, 1, 2), "source", 0, when=Expression("n > 4096"))
    target = ConstrainedSpace((BX, pad), given={"n": 1024})
    rows = [measured(OTHER, {"BX": 16, "PAD": position}, 1.0 + position) for position in range(3)]
    found = data_for(target, HERE, [], {OTHER: rows})
    assert found is not None
    assert found.sources[0].positions.tolist() == [[0, 0]] * 3


def test_without_recordings_and_measurements_that_worked_there_is_no_data() -> None:
    assert data_for(space(), HERE, [], {}) is None
    failed = [measured(OTHER, {"BX": 16, "TILE": 2}, Outcome.TIMEOUT)]
    assert data_for(space(), HERE, [], {OTHER: failed, Input({"n": 8}): []}) is None


def problems(problem: Input, features: str, *others: tuple[Value, ...]) -> list[Input | None]:
    """The inputs of the source tasks: a measurement on n=7 and recordings of others."""
    rows = {OTHER: [measured(OTHER, {"BX": 16, "TILE": 2}, 1.0)]}
    recordings = [recorded("BX TILE", {other: [((16, 1), 1.0)]}, features) for other in others]
    found = data_for(space(), problem, recordings, rows)
    assert isinstance(found, TransferData)
    return [task.problem for task in found.sources]


def test_features_are_kept_where_all_tasks_and_the_input_have_the_same() -> None:
    assert problems(HERE, "n", (9,)) == [Input({"n": 9}), OTHER]


@pytest.mark.parametrize(
    ("problem", "features", "others"),
    [
        (HERE, "n m", [(9, 1)]),
        (HERE, "problem_size", [(9,)]),
        (HERE, "", [()]),
        (Input({"n": 1024, "m": 1}), "n", [(9,)]),
    ],
    ids=["more", "other", "none", "fewer"],
)
def test_where_one_task_has_other_features_all_features_are_dropped(
    problem: Input, features: str, others: list[tuple[Value, ...]]
) -> None:
    assert problems(problem, features, *others) == [None, None]


# --------------------------------------------------------------------------- and beside


def test_a_run_with_a_warm_start_is_another_run() -> None:
    one = recorded("BX", {(7,): [((16,), 1.0)]})
    other = dataclasses.replace(one, sha256="cd" * 32)
    assert TransferSources([]).technique(("A", "B")) == "A,B"
    assert TransferSources([one, other]).technique(["A"]) == "A (with data of abababab, cdcdcdcd)"


def test_of_many_rows_the_inputs_most_alike_fill_a_forest() -> None:
    def chosen(counts: Mapping[int, int], other: str = "n") -> list[Input | None]:
        rows = {Input({other if n == 2 else "n": n}): k for n, k in counts.items()}
        known = {p: [measured(p, {"BX": 16, "TILE": 2}, 1.0)] * k for p, k in rows.items()}
        found = data_for(space(), HERE, [], known)
        assert found is not None
        return [task.problem and task.problem["n"] for task in found.sources]

    rows = {2: 9, 64: 9, 1000: MOST_ROWS - 1}
    assert chosen(rows) == [1000, 64]
    assert chosen({**rows, 1000: MOST_ROWS}) == [1000]
    assert chosen({2: 1, 1000: MOST_ROWS - 1}) == [2, 1000], "all fit"
    assert len(chosen(rows, other="m")) == 3, "features differ"
