"""Replays of a space: databases, CSV files, and files that are refused."""

import csv
import dataclasses

import pytest

from harness.core.errors import RecordingError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.recordings import csv_file
from harness.recordings.replay import open_replay
from harness.space import ConstrainedSpace
from tests.helpers.commands import replay
from tests.helpers.replays import SPACE, make_spec, write_recording
from tests.helpers.results_examples import begin_search, make_plan, opened, tamper

FLAGS = """\
flags:
  nvcc: {maxrregcount: {min: 32, max: 40, step: 8}, use_fast_math: boolean}
  opencl: {cl-mad-enable: boolean}
"""
FEATURES = {"m": 64, "n": 4096}
VALUES = {
    "BLOCK": 64, "TILE": 2, "UNROLL": 1, "DEPTH": 8, "LAYOUT": "row", "CACHE": False,
}  # fmt: skip
CONFIG = Config(VALUES)
CELLS = {**FEATURES, **VALUES, "CACHE": "false", "time_s": 1e-3}


@pytest.fixture
def spec(tmp_path):
    return make_spec(tmp_path)


@pytest.fixture
def flag_spec(tmp_path):
    return make_spec(tmp_path, SPACE + FLAGS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.csv"


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), restval="")
        writer.writeheader()
        writer.writerows(rows)


def only(recording):
    (measurement,) = recording.measurements.values()
    return measurement


# ------------------------------------------------------------------------ CSV


def test_columns_may_stand_in_any_order_with_others_between(path, spec):
    cells = {"remark": "x", **dict(reversed(CELLS.items()))}
    write_csv(path, [cells])
    assert only(open_replay(path, spec)).config == CONFIG


@pytest.mark.parametrize(
    "name, text",
    [
        ("BLOCK", "64.0"), ("BLOCK", " 64 "), ("BLOCK", "6.4e1"), ("UNROLL", "1.0"),
        ("CACHE", "False"), ("m", "64.0"), ("n", "4.096e3"),
    ],
)  # fmt: skip
def test_values_may_be_as_spreadsheets_write(path, spec, name, text):
    write_csv(path, [{**CELLS, name: text}])
    measurement = only(open_replay(path, spec))
    assert (measurement.config, measurement.input) == (CONFIG, Input(FEATURES))


WORDS = SPACE.replace("features: [m, n]", "features: [m, n, matrix]").replace(
    "[{m: 64, n: 4096}, {m: 4096, n: 64}]",
    '[{m: 64, n: 4096, matrix: "1e3"}, {m: 4096, n: 64, matrix: dense}]',
)


def test_feature_may_be_a_word(tmp_path, capsys):
    space, recording = write_recording(
        tmp_path, WORDS.replace("max: 64,", "max: 8,").replace("[row, column, block]", "[row]")
    )
    words = ["--spec", str(space), "--test-limit", "3", "--quiet", "--technique", "PureRandom"]
    assert replay([recording, *words, "--database", tmp_path / "results.db"]) == 0
    output = capsys.readouterr().out
    assert "matrix=1e3" in output
    assert "matrix=dense" in output


def test_word_of_another_input_is_read_and_escapes_are_refused(path, tmp_path):
    spec = make_spec(tmp_path, WORDS)
    write_csv(path, [{**CELLS, "matrix": "sparse"}])
    assert only(open_replay(path, spec)).input == Input({**FEATURES, "matrix": "sparse"})
    write_csv(path, [{**CELLS, "matrix": "\x1b[2J"}])
    with pytest.raises(RecordingError, match="printable") as error:
        open_replay(path, spec)
    assert str(error.value).isprintable()


def test_byte_order_mark_and_empty_lines_are_passed_over(path, spec):
    write_csv(path, [CELLS])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\r\n\r\n"))
    assert only(open_replay(path, spec)).config == CONFIG


def test_recorded_failure_keeps_its_reason(path, spec):
    failed = {**CELLS, "time_s": "", "outcome": "timeout", "message": "after 30 s"}
    write_csv(path, [failed])
    measurement = only(open_replay(path, spec))
    assert measurement == Measurement(
        CONFIG, Input(FEATURES), Outcome.TIMEOUT, message="after 30 s"
    )


def test_number_that_is_no_number_says_where(path, spec):
    for text in ("", "fast", "-1", "0", "nan", "inf", "1e999"):
        write_csv(path, [CELLS, {**CELLS, "time_s": text}])
        with pytest.raises(RecordingError, match=f"{path}:3: time_s is '{text}'"):
            open_replay(path, spec)


@pytest.mark.parametrize(
    "changes, fact",
    [
        ({"m": "wide"}, ":2: m is 'wide'"),
        ({"BLOCK": 65}, ":2: BLOCK is '65', .*: 16, 32, 64, 128"),
        ({"BLOCK": "²"}, ":2: BLOCK is '²'"),
        ({"LAYOUT": "r\0w"}, ": "),  # Python 3.10's csv module refuses the line
        ({"UNROLL": 9}, ":2: UNROLL is '9', .*: 1 to 8 by 1"),
        ({"UNROLL": "9" * 10_000}, ":2: UNROLL is '9999"),
        ({"CACHE": 0}, ":2: CACHE is '0', .*: false, true"),
        ({"outcome": "good"}, ":2: outcome is 'good'"),
    ],
)
def test_cell_that_does_not_fit_says_where(path, spec, changes, fact):
    write_csv(path, [{**CELLS, **changes}])
    with pytest.raises(RecordingError, match=fact) as error:
        open_replay(path, spec)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


HEADER = ",".join(CELLS)


@pytest.mark.parametrize(
    "text, fact",
    [
        ("", ": is empty"),
        ("{}", "results database or a CSV file"),
        ("m;n;BLOCK;time_s\n1;2;3;4\n", "columns m;n;BLOCK;time_s"),
        ("m,n,BLOCK\n", ":1: lacks TILE, UNROLL, DEPTH, LAYOUT, CACHE, time_s"),
        ("\xff\xfe\0m", "is not CSV text"),
        ('m,n,"BLOCK\n' + "x" * 200_000, "cut short: field larger than"),
        (f"{HEADER},time_s\n", "time_s twice"),
        (f"{HEADER}\n", "holds no measurement"),
        (f"{HEADER}\n64,4096,6", ":2: has 3 cells, the header has 9"),
    ],
)
def test_text_that_is_no_recording_is_one_clear_error(path, spec, text, fact):
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordingError, match=fact) as error:
        open_replay(path, spec)
    assert len(str(error.value)) < 600


def test_huge_recording_is_refused(path, spec, monkeypatch):
    monkeypatch.setattr(csv_file, "MAX_ROWS", 3)
    write_csv(path, [CELLS] * 3)
    assert open_replay(path, spec)
    write_csv(path, [CELLS] * 4)
    with pytest.raises(RecordingError, match="3 rows"):
        open_replay(path, spec)


# ---------------------------------------------------------------------- flags


@pytest.mark.parametrize("text", ["", "absent", "Absent"])
def test_flag_columns_show_the_compiler(path, flag_spec, text):
    write_csv(path, [{**CELLS, "maxrregcount": text, "use_fast_math": "True"}])
    recording = open_replay(path, flag_spec)
    assert recording.compiler == "nvcc"
    config = Config({**VALUES, "maxrregcount": None, "use_fast_math": True})
    assert only(recording).config == config
    space = ConstrainedSpace.of(flag_spec, Input(FEATURES), None, recording.compiler)
    assert space.is_legal(config)


def test_recording_without_flags_has_no_compiler(path, flag_spec):
    write_csv(path, [CELLS])
    recording = open_replay(path, flag_spec)
    assert recording.compiler is None
    assert only(recording).config == CONFIG


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"use_fast_math": "true", "cl_mad_enable": "true"},
         "nvcc and opencl"),
        ({"use_fast_math": "true"}, "lacks maxrregcount"),
    ],
)  # fmt: skip
def test_flags_are_all_those_of_one_compiler(path, flag_spec, flags, message):
    write_csv(path, [{**CELLS, **flags}])
    with pytest.raises(RecordingError, match=message):
        open_replay(path, flag_spec)


# ------------------------------------------------------------------ databases

DEVICE = Environment("cuda", "a GPU", "CUDA", "1.0", "nvcc 13")


def record(database, spec, *measurements, campaign=1):
    """A database with these measurements."""
    plan = make_plan(Input(FEATURES), spec=spec, environment=DEVICE, campaign=campaign)
    with opened(database) as store:
        search = begin_search(store, plan)
        for measurement in measurements:
            search.test(measurement)


def timed(config, *samples_s):
    return Measurement(config, Input(FEATURES), Outcome.OK, Timing(samples_s))


@pytest.fixture
def database(tmp_path):
    return tmp_path / "recorded.db"


def test_database_is_replayed_as_it_was_measured(database, spec):
    failed = Measurement(
        Config({**VALUES, "TILE": 1}), Input(FEATURES), Outcome.TIMEOUT, message="after 30 s"
    )
    record(database, spec, timed(CONFIG, 2e-3, 1e-3), failed)
    recording = open_replay(database, spec)
    assert list(recording.measurements.values()) == [timed(CONFIG, 2e-3, 1e-3), failed]
    assert recording.environment.backend == "replay"
    assert recording.environment.device == "a GPU"


def test_last_campaign_is_replayed(database, spec):
    record(database, spec, timed(CONFIG, 1e-3), campaign=1)
    record(database, spec, timed(CONFIG, 5e-3), campaign=2)
    first = "(SELECT id FROM runs WHERE campaign = 1)"
    start = "start_date = '2001-01-01 00:00:00'"
    tamper(database, f"UPDATE tuning_run SET {start} WHERE id IN {first}")
    assert only(open_replay(database, spec)).time_s == 5e-3


def test_recorded_flags_show_the_compiler(database, flag_spec):
    config = Config({**VALUES, "maxrregcount": 32, "use_fast_math": False})
    record(database, flag_spec, timed(config, 1e-3))
    recording = open_replay(database, flag_spec)
    assert recording.compiler == "nvcc"
    problem = Input(FEATURES)
    space = ConstrainedSpace.of(flag_spec, problem, None, recording.compiler)
    assert space.is_legal(config)
    assert recording.measure(space, problem, config, None).time_s == 1e-3


def test_a_database_of_something_else_is_refused(database, spec):
    record(database, spec)
    with pytest.raises(RecordingError, match="no measurement of formula"):
        open_replay(database, spec)
    record(database, spec, timed(Config({"OLD": 1}), 1e-3))
    with pytest.raises(RecordingError, match="OLD"):
        open_replay(database, spec)
    changed = dataclasses.replace(spec, functions=("another",))
    with pytest.raises(RecordingError, match="none of formula"):
        open_replay(database, changed)


# ------------------------------------------------------------------- replaying


def test_a_configuration_that_was_not_recorded_fails_and_says_so(path, spec):
    write_csv(path, [CELLS])
    measurer = open_replay(path, spec)
    problem = Input(FEATURES)
    space = ConstrainedSpace.of(spec, problem, measurer.limits)
    other = Config({**VALUES, "TILE": 1})
    found = measurer.measure_interleaved(space, problem, [CONFIG, other], rounds=3)
    assert [m.outcome for m in found] == [Outcome.OK, Outcome.LAUNCH_FAILED]
    assert "the recording has no measurement of (BLOCK=64, TILE=1" in found[1].message


def test_recording_with_other_content_is_another_environment(path, spec):
    write_csv(path, [CELLS])
    first = open_replay(path, spec).environment
    assert open_replay(path, spec).environment == first
    write_csv(path, [{**CELLS, "time_s": 2e-3}])
    assert open_replay(path, spec).environment.fingerprint != first.fingerprint
    assert first.device == "recording.csv"
