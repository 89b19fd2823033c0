"""Transfer learning: which rows of recordings and of other inputs become source tasks."""

from __future__ import annotations

import dataclasses
import math
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType

import pytest

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.models.transfer_prior import MOST_ROWS
from harness.recordings.recording import RecordedOutcome, RecordingBuilder, typed
from harness.recordings.replay import ListedSpace
from harness.search.transfer import TransferSources
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

HERE, OTHER = Input({"n": 1024}), Input({"n": 7})
BX = Parameter("BX", "power_of_two", (16, 32, 64), "launch", 16)
TILE = Parameter("TILE", "integer", range(1, 5), "source", 1)

NARROW = ConstrainedSpace((BX, TILE), [Expression("BX * TILE <= 32")])

Row = tuple[tuple[Value, ...], float | Outcome]
"""The values of a configuration, and its seconds or how it failed."""


def space(*parameters):
    return ConstrainedSpace(parameters or (BX, TILE))


def recorded(names, rows, features="n"):
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
    target,
    problem,
    recordings=(),
    measured=MappingProxyType({}),
):
    data = TransferSources(recordings).data_for(target, problem, measured)
    assert data is not None
    return data


def one_task(target, recording, problem=HERE):
    (task,) = data_for(target, problem, [recording]).sources
    return task


def seconds(target, task):
    """The seconds of a source task by the values of its configurations."""
    values = [tuple(dict(target.decode(p)).values()) for p in task.positions.tolist()]
    return dict(zip(values, task.times_s.tolist(), strict=True))


# -------------------------------------------------------------------------- recordings


def test_a_recording_is_described_in_a_line():
    rows: list[Row] = [((16, 1, 5, 32), 1.0), ((64, 4, 5, 32), 1.0), ((17, 1, 5, 32), 1.0)]
    recording = recorded("BX TILE KIND WARP", {(7, 1): rows, (9, 1): rows}, "n m")
    (line,) = TransferSources([recording]).describe(NARROW, HERE)
    assert "; 6 configurations on 2 inputs, 4 belong to this space, 2 are legal on (n=1024)" in line
    assert line.endswith("ignored features: n, m")


def test_rows_that_are_left_aside_are_counted_and_the_recording_itself_fits_whole():
    own = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 1), 1.0)]})
    varied = recorded("BX WARP", {(7,): [((16, 1), 1.0), ((32, 2), 2.0)]})
    first, second = TransferSources([varied, own]).describe(ListedSpace(own, OTHER), OTHER)
    assert "; 2 configurations, 1 belong to this space, 1 are legal on (n=7); " in first
    assert first.endswith("WARP=1")
    assert second.endswith("; 2 configurations, all legal on (n=7)")


def test_a_recording_is_looked_up_once_for_all_inputs():
    sources = TransferSources([recorded("BX TILE", {(n,): [((16, 1), 1.0)] for n in range(9)})])
    looked_up = set()
    for n in range(3):
        data = sources.data_for(space(), Input({"n": n}), {})
        assert data is not None
        looked_up.add(tuple(id(task.positions) for task in data.sources))
    assert len(looked_up) == 1


SWITCH = Parameter("FLAG", "boolean", (False, True), "choice", False)
KIND = Parameter("KIND", "enum", ("16", None, "row"), "choice", None)
WIDE = Parameter("TILE", "integer", range(3, 3 * 10**9, 3), "source", 3)
FOREIGN: list[tuple[Value, ...]] = [(48, 1), (16, 5), (16, 0), (16, 1.5), (16, "1"), (16, None)]


@pytest.mark.parametrize(
    ("target", "names", "rows", "expected"),
    [
        # by names, with the median of three samples
        (space(), "TILE BX", [((4, 16), 1.0), ((1, 64), 0.5)], {(16, 4): 2.0, (64, 1): 1.0}),
        # numbers are equal however they are written, words as they are, and None is a value
        (
            space(BX, TILE, SWITCH),
            "BX TILE FLAG",
            [((16.0, 4.0, 0), 1.0), ((32.0, 1.0, 1), 2.0)],
            {(16, 4, False): 2.0, (32, 1, True): 4.0},
        ),
        (
            space(BX, KIND),
            "BX KIND",
            [((16, "16"), 1.0), ((16, None), 2.0), ((32, 16), 3.0), ((32, "Row"), 4.0)],
            {(16, "16"): 2.0, (16, None): 4.0},
        ),
        # what the space lacks is dropped, and a range of a billion values never listed
        (
            space(),
            "BX TILE",
            [((16, 1), 1.0), *((values, 2.0) for values in FOREIGN)],
            {(16, 1): 2.0},
        ),
        (
            space(BX, WIDE),
            "BX TILE",
            [((16, 2_999_999_997), 1.0), ((16, 4), 1.0)],
            {(16, 2_999_999_997): 2.0},
        ),
        # failures are rows, and what is illegal here, but not what was illegal there
        (
            space(),
            "BX TILE",
            [((16, 1), 1.0), ((16, 2), Outcome.CRASHED), ((16, 3), Outcome.ILLEGAL)],
            {(16, 1): 2.0, (16, 2): math.inf},
        ),
        (NARROW, "BX TILE", [((64, 4), 1.0)], {(64, 4): 2.0}),
        # what never varies in the recording need not vary here
        (
            space(),
            "BX TILE WARP",
            [((16, 1, 32), 1.0), ((32, 1, 32), 2.0)],
            {(16, 1): 2.0, (32, 1): 4.0},
        ),
    ],
)
def test_rows_become_positions_by_names_and_values(target, names, rows, expected):
    task = one_task(target, recorded(names, {(7,): rows}))
    assert seconds(target, task) == expected
    assert len(task.slowdowns) == len(expected)


def test_each_input_of_a_recording_is_a_source_task():
    recording = recorded("BX TILE", {(7,): [((16, 1), 1.0)], (9,): [((32, 2), 2.0)]})
    data = data_for(space(), HERE, [recording, recording])
    assert [task.problem for task in data.sources] == [Input({"n": 7}), Input({"n": 9})] * 2
    assert data.problem == HERE


def test_inputs_of_which_nothing_worked_or_fits_are_left_out():
    recording = recorded(
        "BX TILE",
        {(7,): [((16, 1), Outcome.TIMEOUT)], (8,): [((17, 1), 1.0)], (9,): [((32, 2), 2.0)]},
    )
    assert one_task(space(), recording).problem == Input({"n": 9})


# ------------------------------------------------------- parameters of one side alone


def test_what_varies_in_the_recording_alone_is_fixed_where_this_recording_has_it():
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    listed = ListedSpace(own, Input({"n": 7}))
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 32.0), 3.0), ((16, 2, 64), 4.0)]})
    task = one_task(listed, other, Input({"n": 7}))
    assert task.times_s.tolist() == [6.0]
    assert listed.decode(task.positions[0].tolist())["WARP"] == 32


def test_a_recording_that_never_has_a_value_that_is_fixed_here_says_so():
    own = recorded("BX TILE WARP", {(7,): [((16, 1, 32), 1.0), ((32, 2, 32), 2.0)]})
    other = recorded("BX TILE WARP", {(7,): [((16, 1, 16), 3.0), ((16, 2, 64), 4.0)]})
    with pytest.raises(UsageError, match="WARP is never 32"):
        data_for(ListedSpace(own, Input({"n": 7})), HERE, [other])


# ------------------------------------------------------------------------------ inputs


def measured(problem, values, ended):
    config = Config(values)
    if isinstance(ended, Outcome):
        return Measurement(config, problem, ended, message="as it is")
    timing = Timing((ended,), StopReason.RECORDED)
    return Measurement(config, problem, Outcome.OK, timing)


def test_measurements_of_another_input_are_a_source_task():
    rows = [
        measured(OTHER, {"BX": 16, "TILE": 2}, 1.0),
        measured(OTHER, {"BX": 64, "TILE": 1}, Outcome.WRONG_RESULT),
        measured(OTHER, {"BX": 32, "TILE": 1}, Outcome.ILLEGAL),
        measured(OTHER, {"BX": 128, "TILE": 1}, 1.0),
        measured(OTHER, {"BX": 16}, 1.0),
    ]
    (task,) = data_for(space(), HERE, measured={OTHER: rows}).sources
    assert seconds(space(), task) == {(16, 2): 1.0, (64, 1): math.inf}
    assert task.problem == OTHER


def test_parameters_that_matter_only_on_the_other_input_do_not_set_source_rows_apart():
    pad = Parameter("PAD", "ordered", (0, 1, 2), "source", 0, when=Expression("n > 4096"))
    target = ConstrainedSpace((BX, pad), given={"n": 1024})
    rows = [measured(OTHER, {"BX": 16, "PAD": position}, 1.0 + position) for position in range(3)]
    (task,) = data_for(target, HERE, measured={OTHER: rows}).sources
    assert task.positions.tolist() == [[0, 0]] * 3


def test_without_recordings_and_measurements_that_worked_there_is_no_data():
    failed = [measured(OTHER, {"BX": 16, "TILE": 2}, Outcome.TIMEOUT)]
    for rows in ({}, {OTHER: failed, Input({"n": 8}): []}):
        assert TransferSources([]).data_for(space(), HERE, rows) is None


def problems(problem, features, *others):
    """The inputs of the source tasks: a measurement on n=7 and recordings of others."""
    rows = {OTHER: [measured(OTHER, {"BX": 16, "TILE": 2}, 1.0)]}
    recordings = [recorded("BX TILE", {other: [((16, 1), 1.0)]}, features) for other in others]
    return [task.problem for task in data_for(space(), problem, recordings, rows).sources]


def test_features_count_where_all_tasks_and_the_input_have_the_same():
    assert problems(HERE, "n", (9,)) == [Input({"n": 9}), OTHER]
    for problem, features, values in (
        (HERE, "n m", (9, 1)),
        (HERE, "problem_size", (9,)),
        (HERE, "", ()),
        (Input({"n": 1024, "m": 1}), "n", (9,)),
    ):
        assert problems(problem, features, values) == [None, None]


# --------------------------------------------------------------------------- both


def test_a_run_with_a_warm_start_is_another_run():
    one = recorded("BX", {(7,): [((16,), 1.0)]})
    other = dataclasses.replace(one, sha256="cd" * 32)
    assert TransferSources([]).technique(("A", "B")) == "A,B"
    assert TransferSources([one, other]).technique(["A"]) == "A (with data of abababab, cdcdcdcd)"


def test_of_many_rows_the_inputs_most_alike_fill_a_forest():
    def chosen(counts, other="n"):
        rows = {}
        for n, count in counts.items():
            problem = Input({other if n == 2 else "n": n})
            rows[problem] = [measured(problem, {"BX": 16, "TILE": 2}, 1.0)] * count
        tasks = data_for(space(), HERE, measured=rows).sources
        return [task.problem and task.problem["n"] for task in tasks]

    rows = {2: 9, 64: 9, 1000: MOST_ROWS - 1}
    assert chosen(rows) == [1000, 64]
    assert chosen({**rows, 1000: MOST_ROWS}) == [1000]
    assert chosen({2: 1, 1000: MOST_ROWS - 1}) == [2, 1000], "all fit"
    assert len(chosen(rows, other="m")) == 3, "features differ"
