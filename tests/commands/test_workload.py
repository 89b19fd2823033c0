"""Workloads: how often each input came, read from recorded and from written files."""

import json
import re
from dataclasses import replace

import pytest

from harness.api.request import read_request
from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Input
from harness.options.tune import TuneOptions
from harness.space_file import Constraint, load_spec
from harness.space_file.workload import read_workload
from tests.helpers.commands import replay, tune
from tests.helpers.replays import RECORDED, write_recording
from tests.helpers.results_examples import query

RECORDED_LINES = """\
# workload of recorded
m,n,calls,choice
64,64,5,0
4096,64,3,1
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A space and its recording."""
    return write_recording(tmp_path_factory.mktemp("recorded"), RECORDED)


@pytest.fixture
def spec(recorded):
    """A space with the features m and n."""
    return replace(load_spec(recorded[0]), name="recorded")


def read(folder, spec, text):
    """Read a text as a workload."""
    path = folder / "calls.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_workload(path, spec.name, spec.features, spec.inputs)


def test_lines_of_many_processes_add_up_and_repeat_headers(tmp_path, spec):
    found = read(tmp_path, spec, RECORDED_LINES * 3)
    assert found.calls == {Input({"m": 64, "n": 64}): 15, Input({"m": 4096, "n": 64}): 9}
    assert (found.total, found.notes) == (24, ())


def test_a_person_writes_features_in_any_order_and_calls(tmp_path, spec):
    found = read(tmp_path, spec, "calls, n, m\r\n\r\n 7, 8 ,16\r\n")
    assert found.calls == {Input({"m": 16, "n": 8}): 7}


def test_the_most_frequent_inputs_cover_a_share(tmp_path, spec):
    found = read(tmp_path, spec, "m,n,calls\n1,1,2\n2,2,90\n3,3,5\n4,4,3\n")
    assert [one["m"] for one in found.most_frequent(0.9)] == [2]
    assert [one["m"] for one in found.most_frequent(0.95)] == [2, 3]
    assert len(found.most_frequent(1)) == 4
    assert found.weights([Input({"m": 3, "n": 3}), Input({"m": 9, "n": 9})]) == [0.05, 0]


def test_a_line_that_was_cut_off_is_left_out_and_noted(tmp_path, spec):
    found = read(tmp_path, spec, f"{RECORDED_LINES}64,64,9\n64,6\n\n64,64,2,1\n")
    assert found.total == 10
    assert found.notes == (f"{tmp_path / 'calls.csv'}: 2 lines cut off and left out: line 5, 6",)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "`m,n,calls`"),
        ("m,n,calls\n", "has no calls"),
        ("# workload of other\nm,n,calls\n", "calls.csv:1: is a workload of other"),
        ("m,calls\n1,2\n", "calls.csv:1: lacks the feature `n`"),
        ("m,n\n1,2\n", "calls.csv:1: lacks the column `calls`"),
        ("m,n,m,calls\n1,2,1,3\n", "`m` is there twice"),
        ("m,n,calls,calls\n1,2,3,3\n", "`calls` is there twice"),
        ("m,n,cals\n1,2,3\n", "`calls`?"),
        ("m,n,calls\n1,2,0\n", "calls.csv:2: `calls` must be a whole number from 1, got `0`"),
        ("m,n,calls\n1,2,-3\n", "got `-3`"),
        ("m,n,calls\n1,2,\n", "got nothing"),
        ("m,n,calls\n1,2.5,3\n", "calls.csv:2: `n` must be a whole number of 64 bits, got `2.5`"),
        (f"m,n,calls\n1,{'9' * 19},3\n", "64 bits"),
        (f"m,n,calls\n1,2,{'9' * 5000}\n", "`calls`"),
        ("m,n,calls\n1,\x1b[2J,3\n", "got `\\x1b[2J`"),
        ("m,n,calls\n\0,1,2\n", "got `\\x00`"),
        (b"m,n,calls\n\xff\xfe,1,2\n", "UTF-8"),
    ],
)
def test_what_is_no_workload_is_one_error(tmp_path, spec, text, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        read(tmp_path, spec, text)


def test_fractions_and_words_are_read_as_the_space_writes_them(tmp_path, spec):
    known = (Input({"m": 0.5, "n": "wide"}), Input({"m": 1, "n": "a, b"}))
    spec = replace(spec, inputs=known)
    found = read(tmp_path, spec, 'm,n,calls\n1,"a, b",2\n2,wide,3\n0.1,?,4\n')
    assert found.calls == {known[1]: 2, Input({"m": 2.0, "n": "wide"}): 3}
    assert (found.unnamed, found.total) == (4, 9)
    assert "4 calls had a value that the dispatcher could not name" in found.notes[0]
    with pytest.raises(UsageError, match="`nan`"):
        read(tmp_path, spec, "m,n,calls\nnan,wide,2\n")


@pytest.mark.parametrize("word", ["\x1b[2J", "a\u2028b", "\u202etxt", "a\x85b"])
def test_a_word_that_is_not_printable_is_refused(tmp_path, spec, word):
    """A database with such an input could not be read any more."""
    words = replace(spec, inputs=(Input({"m": "half", "n": 1}),))
    with pytest.raises(UsageError, match=r"calls\.csv:2: `m`"):
        read(tmp_path, words, f"m,n,calls\n{word},1,3\n")


def test_tune_takes_the_inputs_that_cover_the_calls_and_those_of_the_database(
    tmp_path, recorded, capsys
):
    space, recording = recorded
    one, other = load_spec(space).inputs
    database, calls = tmp_path / "r.db", tmp_path / "calls.csv"
    words = [str(recording), "--spec", str(space), "--database", str(database)]
    words += ["--test-limit", "2", "--inputs-from", str(calls)]
    calls.write_text(f"m,n,calls\n{one['m']},{one['n']},1\n{other['m']},{other['n']},9\n")
    assert replay([*words, "--cover", "0.9"]) == 0
    assert f"{calls}: tuning 1 of 2 inputs, with 90.0% of 10 calls" in capsys.readouterr().out
    assert inputs_of(database) == [other]
    calls.write_text(f"m,n,calls\n{one['m']},{one['n']},1\n")
    assert replay(words) == 0
    message = capsys.readouterr().out
    assert "tuning 1 of 1 input, with 100.0% of 1 call" in message
    assert "1 earlier input of the database" in message
    assert set(inputs_of(database)) == {one, other}


def request_of(spec, calls, **options):
    database = str(calls.with_name("none.db"))
    return read_request(
        TuneOptions(space=spec, inputs_from=calls, cover=1.0, database=database, **options)
    )


def test_inputs_without_the_default_are_left_out(tmp_path, spec):
    refusing = (Constraint(Expression("BLOCK <= m * n"), 1, spec.path),)
    spec, calls = replace(spec, constraints=refusing), tmp_path / "calls.csv"
    calls.write_text("m,n,calls\n64,64,6\n1,1,3\n64,0,1\n")
    request = request_of(spec, calls)
    assert request.inputs == (Input({"m": 64, "n": 64}),)
    left_out, tuned = request.notices
    assert left_out.startswith("2 inputs with 40.0% of the calls left out")
    assert "(m=1, n=1): `BLOCK <= m * n`" in left_out
    assert "with 60.0% of 10 calls" in tuned
    calls.write_text("m,n,calls\n64,0,1\n")
    with pytest.raises(UsageError, match="any input"):
        request_of(spec, calls)


def test_the_most_frequent_inputs_that_launch_are_tuned(tmp_path, spec):
    calls = tmp_path / "calls.csv"
    calls.write_text("m,n,calls\n64,64,2\n64,128,5\n64,256,3\n64,0,10\n")
    request = request_of(spec, calls, most_inputs=2)
    assert "`ceil_div(n, BLOCK)` = 0" in request.notices[0]
    assert [problem["n"] for problem in request.inputs] == [128, 256]
    assert "2 of 3 inputs, with 40.0% of 20 calls" in request.notices[-1]


def inputs_of(database):
    """Return the inputs that a database holds."""
    return [Input(json.loads(row[0])) for row in query(database, "select features from inputs")]


@pytest.mark.parametrize(
    "words, message",
    [
        ("--cover 0.9", "--inputs-from"),
        ("--inputs-from nowhere.csv", "nowhere.csv does not exist"),
        ("--most-inputs 9", "--inputs-from"),
    ],
)
def test_options_of_a_workload_that_do_not_fit_are_one_error(recorded, words, message, capsys):
    assert tune([recorded[0], *words.split()]) == 2
    assert message in capsys.readouterr().err
