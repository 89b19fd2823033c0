"""Recordings of other tuners: each format, their spaces, and untrusted files."""

import gzip
import itertools
import json
import random
import re
from pathlib import Path

import pytest

from harness.core.errors import RecordingError, SpecError, UsageError
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.recordings import files
from harness.recordings.replay import ListedSpace, read_recording, recording_spec
from tests.helpers.commands import dispatch
from tests.helpers.commands import replay as replay_command

GIVEN = Input({"problem_size_x": 64, "problem_size_y": 32})


def cache_of(entries, **changes):
    """A Kernel Tuner cache of two parameters and a constant."""
    listed = {"BX": [32, 16, 64], "TILE": [1, 2, 4], "FIXED": [15]}
    data = {
        "device_name": "a GPU",
        "kernel_name": "a kernel",
        "problem_size": [64, 32],
        "tune_params_keys": list(listed),
        "tune_params": listed,
        "objective": "time",
        "cache": {
            f"{e.get('BX')},{e.get('TILE')},15": {"FIXED": 15, "compile_time": 1.0, **e}
            for e in entries
        },
    }
    return {name: value for name, value in (data | changes).items() if value is not None}


def entry(bx, tile, time, **more):
    return {"BX": bx, "TILE": tile, "time": time, **more}


def config(bx, tile):
    return Config({"BX": bx, "TILE": tile, "FIXED": 15})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.json"


def read(path, data):
    """The recording of JSON data."""
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_recording(path)


def timed(config, *samples_s, problem=GIVEN):
    return Measurement(config, problem, Outcome.OK, Timing(samples_s, StopReason.RECORDED))


def only(recorded):
    (measurement,) = recorded.measurements.values()
    return measurement


def values(recorded):
    return {p.name: (p.kind, list(p.values)) for p in recorded.parameters}


# ---------------------------------------------------------------- Kernel Tuner


def test_cache_gives_parameters_inputs_and_raw_samples_in_seconds(path):
    recorded = read(path, cache_of([entry(16, 2, 2.0, times=[1.0, 3.0]), entry(32, 1, 8.0)]))
    assert values(recorded) == {
        "BX": ("ordered", [16, 32]),
        "TILE": ("ordered", [1, 2]),
        "FIXED": ("ordered", [15]),
    }
    assert list(recorded.measurements.values()) == [
        timed(config(16, 2), 1e-3, 3e-3),
        timed(config(32, 1), 8e-3),
    ]
    assert (recorded.title, recorded.device, recorded.notes) == ("a kernel", "a GPU", ())


@pytest.mark.parametrize(
    "time, outcome, word",
    [
        ("InvalidConfig", Outcome.LAUNCH_FAILED, "InvalidConfig"),
        ("CompilationFailedConfig", Outcome.BUILD_FAILED, "CompilationFailedConfig"),
        ("RuntimeFailedConfig", Outcome.LAUNCH_FAILED, "RuntimeFailedConfig"),
        ({"__error__": "InvalidConfig"}, Outcome.LAUNCH_FAILED, "InvalidConfig"),
        (float("nan"), Outcome.LAUNCH_FAILED, "nan"),
        (1e20, Outcome.LAUNCH_FAILED, "1e+20"),
    ],
)
def test_failed_entry_is_an_outcome_with_a_message(path, time, outcome, word):
    # Samples of a failed entry are of no use: Kernel Tuner leaves some behind.
    measured = only(read(path, cache_of([entry(16, 1, time, times=[1.0])])))
    assert measured == Measurement(config(16, 1), GIVEN, outcome, message=measured.message)
    assert word in measured.message


def test_samples_count_where_the_time_is_their_mean_or_median(path):
    recorded = read(path, cache_of([entry(16, 1, 50.0, times=[1.0, 1.0])]))
    assert only(recorded) == timed(config(16, 1), 50e-3)
    (note,) = recorded.notes
    assert "in 1 entries" in note
    averaged = only(read(path, cache_of([entry(16, 1, 2.0, times=[1.0, 2.0, 9.0])])))
    assert averaged == timed(config(16, 1), 1e-3, 2e-3, 9e-3)


def test_cache_without_keys_takes_the_order_of_the_parameters(path):
    recorded = read(path, cache_of([entry(16, 1, 1.0)], tune_params_keys=None))
    assert [p.name for p in recorded.parameters] == ["BX", "TILE", "FIXED"]


@pytest.mark.parametrize(
    "size, problem",
    [
        (4096, {"problem_size": 4096}),
        ("callable", {"problem_size": "callable"}),
        ([1, 2, 3], {"problem_size_x": 1, "problem_size_y": 2, "problem_size_z": 3}),
        (None, {"recording": "recording"}),
    ],
)
def test_problem_size_is_the_input(path, size, problem):
    recorded = read(path, cache_of([entry(16, 1, 1.0)], problem_size=size))
    assert list(recorded.tables) == [Input(problem)]
    assert recorded.features == tuple(problem)


def test_values_that_are_no_scale_keep_the_order_that_is_listed(path):
    listed = {"BX": ["row", "block", "tile"], "TILE": [True, False], "FIXED": [15]}
    entries = [entry("tile", True, 1.0), entry("row", False, 2.0)]
    recorded = read(path, cache_of(entries, tune_params=listed))
    assert values(recorded)["BX"] == ("enum", ["row", "tile"])
    assert values(recorded)["TILE"] == ("boolean", [False, True])


# -------------------------------------------------------------------------- T4


def result(bx=16, **changes):
    """A T4 result as Kernel Tuner writes it."""
    made = {
        "timestamp": "2024-01-01 00:00:00",
        "configuration": {"BX": bx},
        "times": {"compilation": 10.0, "runtimes": [2.0, 4.0]},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": 3.0, "unit": "ms"}],
        "objectives": ["time"],
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


def t4_of(*results, **more):
    return {"results": list(results), "schema_version": "1.0.0", **more}


def test_t4_of_kernel_tuner_is_in_milliseconds(path):
    found = only(read(path, t4_of(result())))
    assert found.timing == Timing((2e-3, 4e-3), StopReason.RECORDED)


def test_t4_states_its_unit_of_time(path):
    per_s = {"seconds": 1, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
    for unit, count in per_s.items():
        measured = only(read(path, t4_of(result(measurements=[]), metadata={"timeunit": unit})))
        assert measured.time_s == pytest.approx(3 / count)


def test_t4_states_what_failed(path):
    outcomes = {
        "constraints": Outcome.LAUNCH_FAILED,
        "compile": Outcome.BUILD_FAILED,
        "runtime": Outcome.LAUNCH_FAILED,
        "correctness": Outcome.WRONG_RESULT,
        "timeout": Outcome.TIMEOUT,
    }
    for invalidity, outcome in outcomes.items():
        measured = only(read(path, t4_of(result(invalidity=invalidity))))
        assert measured.outcome is outcome
        assert invalidity in measured.message
    assert only(read(path, t4_of(result(correctness=0)))).outcome is Outcome.WRONG_RESULT


# ------------------------------------------------------------------------- CSV

MAPPING = """\
device: GTX 680
parameters: [BX, KIND]
features: [n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no build], crashed: [""]}
"""
HEADER = "n,BX,KIND,run 1,run 2,status,log"


def read_rows(folder, *rows, mapping=MAPPING, header=HEADER):
    """The recording of CSV rows."""
    path = folder / "recording.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    (folder / "recording.mapping.yaml").write_text(mapping)
    return read_recording(path)


def test_a_column_that_the_mapping_does_not_name_is_refused(tmp_path):
    row, header = "64,16,row,1.5,2.5,passed,,NCHW", f"{HEADER},layout"
    with pytest.raises(RecordingError, match=r"layout .*`ignore`"):
        read_rows(tmp_path, row, header=header)
    mapping = f"{MAPPING}ignore: [layout]\n"
    assert len(read_rows(tmp_path, row, header=header, mapping=mapping).measurements) == 1


def test_mapping_names_the_columns(tmp_path):
    recorded = read_rows(tmp_path, "64,16,row,1.5,2.5,passed,", "64,8,tile,,,no build,line 3")
    problem = Input({"n": 64})
    one, other = Config({"BX": 16, "KIND": "row"}), Config({"BX": 8, "KIND": "tile"})
    assert list(recorded.measurements.values()) == [
        timed(one, 1.5e-3, 2.5e-3, problem=problem),
        Measurement(other, problem, Outcome.BUILD_FAILED, message="line 3"),
    ]
    assert values(recorded) == {"BX": ("ordered", [8, 16]), "KIND": ("enum", ["row", "tile"])}
    assert (recorded.device, recorded.features) == ("GTX 680", ("n",))


def test_rows_of_one_configuration_are_samples_and_one_failure_is_all(tmp_path):
    same, failed = "64,16,row,1,2,passed,", "64,16,row,,,,"
    timing = only(read_rows(tmp_path, same, same)).timing
    assert timing == Timing((1e-3, 2e-3, 1e-3, 2e-3), StopReason.RECORDED)
    for rows in itertools.permutations([same, failed]):
        assert only(read_rows(tmp_path, *rows)).outcome is Outcome.CRASHED


def test_column_is_numbers_only_where_all_of_it_is(tmp_path):
    recorded = read_rows(tmp_path, "64,12e4,row,1,1,passed,", "64,9f0c,row,1,1,passed,")
    assert values(recorded)["BX"] == ("enum", ["12e4", "9f0c"])


def test_listed_values_say_what_cells_mean(tmp_path):
    mapping = MAPPING.replace("[BX, KIND]", '{BX: ["1", null], KIND: [2, 4]}')
    rows = ["64,1,2,1,1,passed,", "64,absent,4,1,1,passed,", "64,absent,4.0,2,2,passed,"]
    recorded = read_rows(tmp_path, *rows, mapping=mapping)
    assert values(recorded) == {"BX": ("enum", ["1", None]), "KIND": ("ordered", [2, 4])}
    assert [m.timing and m.timing.count for m in recorded.measurements.values()] == [2, 4]


def test_time_that_is_missing_or_out_of_bounds_is_a_failure(tmp_path):
    mapping = MAPPING.replace("unit: ms", "unit: ms, least: 1.0e-9, most: 1.0e+5")
    for cell in ("", "nan", "0", "200000", "-1"):
        measured = only(read_rows(tmp_path, f"64,16,row,1,{cell},passed,", mapping=mapping))
        assert measured.outcome is Outcome.LAUNCH_FAILED
        assert f"run 2 is {cell or 'empty'}" in measured.message


@pytest.mark.parametrize(
    "row, fact",
    [
        ("64,16,row,fast,1,passed,", ":2: run 1 is 'fast'"),
        ("64,16,row,0,1,passed,", ":2: run 1 is '0'"),
        ("64,16,row,1,1,good,", ":2: status is 'good'"),
        ("64,16,row,1", ":2: has 4 cells, the header has 7"),
    ],
)
def test_row_that_does_not_fit_says_where(tmp_path, row, fact):
    with pytest.raises(RecordingError, match=fact):
        read_rows(tmp_path, row)


@pytest.mark.parametrize(
    "key, change, fact",
    [
        ("times:", "time:", "`times`"),
        ("[BX, KIND]", "[]", "yaml:2: parameters"),
        ("[n]", "n", "yaml:3: features"),
        ("build_failed", "build_fail", "outcome: .*`build_failed`"),
    ],
)
def test_a_mappings_fault_says_where(tmp_path, key, change, fact):
    with pytest.raises(SpecError, match=fact):
        read_rows(tmp_path, "64,16,row,1,1,passed,", mapping=MAPPING.replace(key, change))


def test_csv_without_a_mapping_says_what_to_write(tmp_path):
    path, header = tmp_path / "recording.csv.gz", "WIDTH,true,time 1 (us),outcome"
    path.write_bytes(gzip.compress(f"{header}\n16,row,1.5,ok\n16,tile,,crashed\n".encode()))
    with pytest.raises(UsageError, match="--mapping") as error:
        read_recording(path)
    named, completed = tmp_path / "recording.mapping.yaml", str(error.value).split("\n\n")[1]
    assert str(named) in str(error.value)
    for column, old, new in (
        ("time 1 (us)", "columns: [], unit: ms", 'columns: ["time 1 (us)"], unit: us'),
        ("outcome", "column: null", "column: outcome"),
    ):
        completed = completed.replace(f', "{column}"', "").replace(old, new)
    named.write_text(completed)
    recorded = read_recording(path)
    assert values(recorded) == {"WIDTH": ("ordered", [16]), "true": ("enum", ["row", "tile"])}
    one, other = recorded.measurements.values()
    assert one.timing == Timing((1.5e-6,), StopReason.RECORDED)
    assert other.outcome is Outcome.CRASHED


def test_a_file_that_is_no_mapping_is_named_by_its_kind(tmp_path):
    path, other = tmp_path / "recording.csv", tmp_path / "other"
    path.write_text(f"{HEADER}\n")
    for content, kind in ((b"SQLite format 3\0", "a results database"), (b"{}", "JSON")):
        other.write_bytes(content)
        with pytest.raises(UsageError, match=rf"{other} is {kind}"):
            read_recording(path, other)


def test_yaml_is_no_recording(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(MAPPING)
    with pytest.raises(RecordingError, match="YAML"):
        read_recording(path)


# ------------------------------------------------------------------- untrusted


ONE = [entry(16, 1, 1.0)]
INF = float("inf")
HOURS = {"name": "time", "value": 1, "unit": "h"}


def timed_cache(samples):
    """A cache of one entry with these samples."""
    return cache_of([entry(16, 1, 1.0, times=samples)])


def t4_with(**changes):
    """Two T4 results, of which the second is changed."""
    return t4_of(result(), result(**changes))


@pytest.mark.parametrize(
    "data, fact",
    [
        (cache_of(ONE, tune_params=3), "tune_params: must be a mapping"),
        (cache_of(ONE, tune_params={"BX": 3}), "tune_params: BX: must be a list"),
        (cache_of(ONE, tune_params_keys=[1]), "tune_params_keys: 0: must be a text"),
        (cache_of(ONE, tune_params_keys=[]), "names no parameter"),
        (cache_of(ONE, tune_params_keys=["a/b"]), "'a/b'"),
        (cache_of(ONE, tune_params_keys=["BX", "BX"]), "BX twice"),
        (cache_of(ONE, tune_params_keys=["BX", "OTHER"]), "cache['16,1,15']: has no value of OTH"),
        (cache_of(ONE, problem_size={}), "problem_size: "),
        (cache_of(ONE, cache={}), "holds no measurement"),
        (cache_of(ONE, cache={"1\x1b[2J": 3}), "cache['1\\\\x1b[2J']: must be an object"),
        (cache_of([entry(16, 1, "fast")]), "time: must be a number, or one of InvalidConfig"),
        (cache_of([entry(16, 1, None)]), "time: must be a number, but got nothing"),
        (cache_of([entry(16, 1, 0)]), "cache['16,1,15']: time: must be above 0"),
        (cache_of([entry(16, 1, 10**400)]), "cache['16,1,15']: time: must be a number"),
        (cache_of([entry(16, 1, {"__error__": [1]})]), "time: must be a number, but got [1]"),
        (timed_cache([1.0, "2"]), "times: 1: must be a number"),
        (timed_cache([1.0, -1.0]), "times: 1: must be more than 0"),
        (timed_cache({}), "times: must be a list"),
        (cache_of([entry([1], 1, 1.0)]), "BX: must be a number"),
        (cache_of([entry(INF, 1, 1.0)]), "BX: must be a finite number"),
        (cache_of([entry(10**30, 1, 1.0)]), "BX: must lie between -2**53"),
        (cache_of([entry("a\nb", 1, 1.0)]), "BX: must be a text of one line"),
        (t4_with(configuration=None), "results[1]: needs `configuration`"),
        (t4_with(configuration={"TILE": 1}), "results[1]: has TILE"),
        (t4_with(invalidity="odd"), "results[1]: invalidity: "),
        (t4_with(times=3), "results[1]: times: "),
        (t4_with(times={}, measurements=[]), "neither runtimes"),
        (t4_with(measurements={}), "results[1]: measurements: "),
        (t4_with(measurements=[HOURS]), "the unit of time is h"),
        (t4_of(result(), 3), "results[1]: must be a mapping"),
        ("[]", "neither a Kernel Tuner cache"),
        ('{"results": []}', "results: must not be empty"),
        ('{"results": 1}', "results: must be a list"),
        ("{" * 3, ":1: is not JSON"),
        ('{"cache": {"1": {"BX": 1, "ti', ":1: is not JSON"),
        ("[" * 200_000, "nested too deep"),
        ('{"n": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
)
def test_data_of_another_shape_is_one_clear_error(path, data, fact):
    with pytest.raises(RecordingError, match=re.escape(fact)) as error:
        read(path, data)
    assert str(path) in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 600


def test_bytes_that_are_no_text_are_located(path):
    path.write_bytes(b"{\xff")
    with pytest.raises(RecordingError, match="byte 1"):
        read_recording(path)


PACKED = gzip.compress(json.dumps(cache_of(ONE)).encode())


@pytest.mark.parametrize(
    "packed, fact",
    [
        (PACKED[: len(PACKED) // 2], "damaged or cut short"),
        (b"\x1f\x8b" + b"damaged" * 10, "damaged"),
        (gzip.compress(b"[" + b" " * 1000), "1,000 bytes"),
    ],
)
def test_gzip_that_is_cut_short_damaged_or_a_bomb_is_one_clear_error(
    path, monkeypatch, packed, fact
):
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    path.write_bytes(packed)
    with pytest.raises(RecordingError, match=fact):
        read_recording(path)


def test_many_small_objects_are_refused(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_NESTED", 3)
    with pytest.raises(RecordingError, match="more than 3"):
        read(path, [[], [], []])


def test_what_is_no_recording_is_refused_by_its_kind(tmp_path, path):
    for missing, fact in ((tmp_path, "is not a file"), (tmp_path / "none.json", "does not exist")):
        with pytest.raises(RecordingError, match=fact):
            read_recording(missing)
    path.write_bytes(b"SQLite format 3\0")
    with pytest.raises(RecordingError, match="results database"):
        read_recording(path)
    path.write_text(json.dumps(cache_of(ONE)))
    with pytest.raises(UsageError, match="--mapping"):
        read_recording(path, path)


def test_nothing_of_a_file_commands_the_terminal(tmp_path, path):
    failed = result(invalidity="compile", message="\x1b[2Jone\ntwo")
    found = only(read(path, t4_of(failed, metadata={"device": "\x1b[2J"})))
    assert found.message == "\\x1b[2Jone\ntwo"
    assert read_recording(path).device == "\\x1b[2J"
    found = only(read_rows(tmp_path, "64,16,row,,,no build,\x1b[2J"))
    assert found.message == "\\x1b[2J"
    for row, header in (("64,16,\x1b[2J,1,1,passed,", HEADER), ("", "\x1b[2J")):
        with pytest.raises(RecordingError) as error:
            read_rows(tmp_path, row, header=header)
        assert str(error.value).isprintable()
    for size in ("\x1b[2J", ["\x1b[2J", 4]):
        with pytest.raises(RecordingError) as error:
            read(path, cache_of(ONE, problem_size=size))
        assert str(error.value).isprintable()


# -------------------------------------------------------------------- the space


@pytest.fixture
def recorded(path):
    """Five of nine points: one is invalid, and TILE=4 goes with BX=64 alone."""
    points = [
        (16, 1, 4.0), (16, 2, "InvalidConfig"), (32, 1, 2.0), (64, 1, 3.0), (64, 4, 1.0),
    ]  # fmt: skip
    return read(path, cache_of([entry(*point) for point in points]))


@pytest.fixture
def space(recorded):
    return ListedSpace(recorded, GIVEN)


LEGAL = [(16, 1), (16, 2), (32, 1), (64, 1), (64, 4)]


def test_space_is_what_was_recorded_failed_or_not(space):
    assert list(space) == [config(*point) for point in LEGAL]
    assert (space.count, space.budget(100), space[4]) == (5, 5, config(64, 4))
    assert [p.name for p in space.parameters] == ["BX", "TILE"]
    with pytest.raises(IndexError):
        space[5]


def test_what_a_file_calls_illegal_itself_is_never_proposed(path):
    refused = result(32, invalidity="constraints", outcome="illegal", message="too large")
    recorded = read(path, t4_of(result(16), refused))
    (problem,) = recorded.tables
    space = ListedSpace(recorded, problem)
    assert list(space) == [Config({"BX": 16})]
    assert "too large" in (space.why_illegal(Config({"BX": 32})) or "")


def test_space_says_why_a_configuration_is_not_of_it(space):
    message = {
        config(16, 4): "it is not in the recording",
        config(16, 3): "TILE=3 is not one of its values",
        Config({"BX": 16, "TILE": 1}): "it has no value for FIXED",
        Config({"BX": 16, "TILE": 1, "FIXED": 3}): "FIXED=3 is not one of its values",
    }
    assert {c: space.why_illegal(c) for c in message} == message
    assert all(space.is_legal(config(*point)) for point in LEGAL)


def test_illegal_proposal_becomes_the_nearest_recorded(space):
    nearest_of = {
        (32, 2): {(32, 1), (16, 2)},  # both are half of a scale away
        (16, 4): {(16, 2)},
        (64, 2): {(64, 1), (64, 4)},
        (16, 1): {(16, 1)},
    }
    for illegal, nearest in nearest_of.items():
        near = {space.nearest_legal(config(*illegal), random.Random(seed)) for seed in range(20)}
        assert near == {config(*point) for point in nearest}


def test_nearest_of_all_where_no_single_change_is_recorded(path):
    diagonal = [(16, 1, 7), (32, 2, 8), (64, 4, 9)]
    entries = [entry(bx, tile, 1.0, FIXED=third) for bx, tile, third in diagonal]
    space = ListedSpace(read(path, cache_of(entries)), GIVEN)
    off = Config({"BX": 16, "TILE": 2, "FIXED": 9})
    near = space.nearest_legal(off, random.Random(0))
    assert near == Config({"BX": 32, "TILE": 2, "FIXED": 8})
    assert space.distance(near, off) == 1.0


def test_default_is_the_first_that_worked(path):
    recorded = read(path, cache_of([entry(64, 1, "InvalidConfig"), entry(32, 2, 1.0)]))
    assert ListedSpace(recorded, GIVEN).default == config(32, 2)


def test_other_content_is_another_program(path):
    one = recording_spec(read(path, cache_of([entry(16, 1, 1.0)])))
    same = recording_spec(read(path, cache_of([entry(16, 1, 1.0)])))
    other = recording_spec(read(path, cache_of([entry(16, 1, 2.0)])))
    assert one.space_sha256 == same.space_sha256
    assert one.program_sha256 != other.program_sha256


# ------------------------------------------------------------------ the command


def landscape(path):
    """64 points, of which (16, 1) is best and six fail."""
    points = list(itertools.product([16, 32, 64, 128, 256, 512, 1024, 2048], range(1, 9)))
    entries = [
        entry(bx, tile, "RuntimeFailedConfig" if (bx + tile) % 10 == 3 else 1 + bx * tile / 1000)
        for bx, tile in reversed(points)
    ]
    listed = {"BX": [bx for bx, _ in points], "TILE": list(range(1, 9)), "FIXED": [15]}
    return read(path, cache_of(entries, tune_params=listed))


@pytest.fixture
def replay(path, tmp_path, capsys):
    """Tune the recording with options; return what is printed."""

    def replayed(*options, status=0):
        command = [str(path), "--database", str(tmp_path / "r.db"), *options]
        assert replay_command(command) == status
        return capsys.readouterr().out

    return replayed


def line_with(text, part):
    """The only line that has a part."""
    (line,) = (line for line in text.splitlines() if part in line)
    return line


def test_exhausted_recording_has_reached_its_optimum_and_has_no_kernel_to_dispatch(
    path, tmp_path, replay, capsys
):
    landscape(path)
    message = replay("--test-limit", "99", "--quiet")
    assert " 1.000 " in line_with(message, "64 of 64")
    assert line_with(message, "best on ").endswith(": BX=16, TILE=1")
    assert "6 launch_failed: " in message
    # What this search found does not count for another technique, whose first test is the default,
    # the first of the recording and the slowest.
    message = replay("--quiet", "--test-limit", "1", "--technique", "PureRandom")
    assert " 1.000" not in line_with(message, " 1 of 64")
    assert dispatch([tmp_path / "r.db", "-o", tmp_path / "out"]) == 2
    assert "no kernel" in capsys.readouterr().err


def test_a_small_recording_is_searched_whole(path, replay):
    read(path, cache_of(ONE))
    assert "1.000   1 of 1" in replay("--quiet")
    failures = ("InvalidConfig", "RuntimeFailedConfig", "CompilationFailedConfig")
    read(path, cache_of([entry(16, tile, word) for tile, word in enumerate(failures)]))
    assert "nothing worked" in line_with(replay("--quiet", status=1), "3 of 3")


def test_a_wrong_option_is_refused_before_a_recording_is_read(path, capsys):
    path.write_text('{"cache": x')  # which cannot be read
    for option, message in (
        (["--technique", "PureRandm"], "`PureRandom`"),
        (["--database", str(path)], "--database"),
        (["--inputs", "n <"], "--inputs: "),
        (["--warm-start", str(path), "-t", "PureRandom"], "--technique"),
    ):
        assert replay_command([path, *option]) == 2
        assert message in capsys.readouterr().err
    assert replay_command([path]) == 2
    assert "is not JSON" in capsys.readouterr().err


def test_inputs_choose_among_those_recorded(tmp_path, capsys):
    read_rows(tmp_path, "64,16,row,1,1,passed,", "32,16,row,1,1,passed,", "32,8,row,2,1,passed,")
    command = [str(tmp_path / "recording.csv"), "--inputs", "n < 64", "--quiet"]
    assert replay_command([*command, "--database", tmp_path / "r.db"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" n=")]
    assert [row.split()[0] for row in rows] == ["n=32"]


def test_options_that_do_not_go_together_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    read(Path("r.json"), cache_of(ONE))
    for options, fact in (
        ("r.json --spec s.yaml --mapping m.yaml", "--mapping needs --warm-start"),
        ("r.json --spec space.yaml", "space.yaml does not exist"),
        ("q.json", "did you mean `r.json`"),
    ):
        assert replay_command(options.split()) == 2
        assert fact in capsys.readouterr().err
