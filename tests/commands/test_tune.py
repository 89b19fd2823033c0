"""The tune command as a user runs it: options, interruption, errors, files left behind."""

import dataclasses
import html
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from harness.core.errors import UsageError
from harness.core.records import Input
from harness.search import techniques
from harness.space_file import load_spec
from tests import DATA, ROOT
from tests.helpers.commands import analyse, dispatch, replay, tune
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.replays import (
    REPLAYED,
    REPLAYED_TWO,
    FormulaMeasurer,
    write_recording,
    write_space,
)
from tests.helpers.results_examples import query

MVMUL = (DATA / "small_mvmul.yaml").read_text()


class Replay:
    """Replays a recording with a database in a folder of its own."""

    def __init__(self, folder, text, capsys):
        space, recording = write_recording(folder, text)
        self.space = space
        self.database = str(folder / "results" / "r.db")
        self.words = [str(recording), "--spec", str(space), "--database", self.database]
        self.capsys = capsys

    def __call__(self, *words, code=0):
        """Run the command with more words; return what it prints, or its error."""
        assert replay([*self.words, *words]) == code
        out, err = self.capsys.readouterr()
        return err if code == 2 else out

    def query(self, sql):
        """Query the database."""
        return query(self.database, sql)


@pytest.fixture
def replayed(tmp_path, capsys):
    """Replays a recording of two inputs."""
    return Replay(tmp_path, REPLAYED_TWO, capsys)


class Interfering(FormulaMeasurer):
    """Does something with the database while the fifth test is measured."""

    def __init__(self, interfere):
        super().__init__()
        self._interfere = interfere

    def measure(self, *args):
        """Return the formula's time."""
        measured = super().measure(*args)
        if len(self.asked) == 5:
            self._interfere()
        return measured


@pytest.fixture
def measured(tmp_path):
    """The command line of a space, with a database in a folder of its own."""
    return [str(write_space(tmp_path)), "--database", str(tmp_path / "results" / "r.db")]


def tune_with(measurer, words):
    devices = {"": measurer}, "a test"
    with mock.patch("harness.api.running.open_measurers", return_value=devices):
        return tune([*words, "--test-limit", "8"])


def remove(database):
    """Delete a database, as a person who cleans up."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def replace(database):
    """Put another database in its place."""
    shutil.copy(database, database.with_name("copy.db"))
    os.replace(database.with_name("copy.db"), database)


@pytest.mark.parametrize("change", [remove, replace])
def test_a_database_that_is_gone_ends_tune_at_once_with_an_error(change, measured, capsys):
    database = Path(measured[-1])
    measurer = Interfering(lambda: change(database))
    assert tune_with(measurer, [*measured, "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error.startswith(f"{database} was deleted, moved or replaced while")
    assert err.endswith(f"error: {error}\n")
    assert len(measurer.asked) == 5, "nothing is measured that cannot be stored"


def test_a_moved_database_that_is_put_back_has_lost_nothing(measured, capsys):
    database = Path(measured[-1])
    elsewhere = database.with_name("elsewhere.db")
    assert tune_with(Interfering(lambda: database.rename(elsewhere)), measured) == 2
    elsewhere.rename(database)
    assert tune_with(FormulaMeasurer(), measured) == 0
    assert "4 tests were answered from the database" in capsys.readouterr().out


def test_without_time_to_measure_it_is_no_success(replayed):
    started = time.monotonic()
    message = replayed("--max-time", "0.001", code=1)
    assert time.monotonic() - started < 10
    assert "the time was up" in message
    assert message.rstrip().endswith("--max-time 60.")
    assert replayed.query("select distinct state from tuning_run") == [("ABORTED",)]


def test_a_seed_configuration_is_tested_second(replayed, tmp_path):
    """It may leave out what has a default, such as the flags of another compiler."""
    flags = "flags: {nvcc: {ftz: boolean}}\nlaunch:"
    replayed.space.write_text(replayed.space.read_text().replace("launch:", flags))
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"BLOCK": 16, "TILE": 7}))
    replayed("--seed-configuration", str(seed))
    sql = """
        select parameters from desired_result d join configurations c on c.id = configuration_id
        where tuning_run_id = 1 order by d.id
    """
    second = replayed.query(sql)[1][0]
    assert json.loads(second) == {"BLOCK": 16, "TILE": 7, "CACHE": False}


def test_an_option_that_became_a_command_names_it(capsys):
    for command, option, now in (
        (tune, "--replay=r.csv", "harness replay RECORDING"),
        (dispatch, "--recheck", "harness recheck FOLDER"),
        (analyse, "--kernel-version", "harness analyse DATABASE --all-campaigns"),
    ):
        with pytest.raises(SystemExit):
            command([option])
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{option.partition('=')[0]} is gone: use `{now}`" in error


def test_no_space_is_needed_to_list_what_can_be_asked_for(capsys):
    """The command runs as with nohup, which is obeyed."""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert tune(["--list-techniques"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, ignored)
    listed = capsys.readouterr().out.split()
    assert listed == sorted([*techniques(), "auto", "Predicted", "PredictedKNN"])


SEEDS = {"list": "[1]", "broken": "{", "name": '{"BLOK": 1}', "value": '{"BLOCK": 17}'}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--technique PureRandm", "`PureRandom`"),
        ("--seed-configuration none.json", "none.json does not exist"),
        ("--seed-configuration list.json", "JSON object"),
        ("--seed-configuration broken.json", "JSON object"),
        ("--seed-configuration name.json", "`BLOK` is not a parameter; there are BLOCK"),
        ("--seed-configuration value.json", "BLOCK=17"),
        ("--inputs=m<", "--inputs: "),
        ("--inputs=n>", "cannot be read"),
        ("--inputs=size_n>3", "`size_n`"),
        ("--inputs=nn>3", "`n`?"),
        ("--inputs=n>5000", "m goes from 64 to 4096, n goes from 64 to 4096"),
        ("--inputs=n/(m-64)>1e400", "--inputs: "),
        ("--inputs=m", "not a condition"),
        ("--inputs=m+1", "not a condition"),
        ("--inputs=-n", "not a condition"),
        ("--inputs=7", "not a condition"),
        ("--validate 0.2 -t PureRandom", "PureRandom"),
        (f"--label {'x' * 129}", "129 characters"),
    ],
)
def test_a_command_line_that_cannot_be_carried_out_is_one_error(
    arguments, message, replayed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, text in SEEDS.items():
        Path(f"{name}.json").write_text(text)
    assert message in replayed(*arguments.split(), code=2)


def test_the_next_command_keeps_what_made_this_run(replayed):
    options = ["--seed", "5", "-t", "PureRandom", "--label", "my run", "--test-limit"]
    assert replayed(*options, "9", "--fresh").endswith("with --test-limit 18, without --fresh.\n")
    printed = replayed(*options, "18")
    counts = replayed.query("select count(*) from desired_result group by tuning_run_id")
    assert counts == [(18,)] * 2
    assert "tests were answered from the database" in printed


def test_a_climb_that_ends_names_another_technique(replayed):
    assert "with --technique auto in place of" in replayed(
        "-t", "HillClimb", "--seed", "2", "--test-limit", "70"
    )
    asked = replayed.query("select distinct requestor from desired_result")
    assert asked == [("HillClimb",)]


def test_a_validation_prints_its_curve_and_its_end(replayed):
    message = replayed("--validate=0.01", "--test-limit", "10")
    assert "on 48 reserved samples" in message
    assert "The limit of 20 samples was spent" in message
    assert message.endswith("--test-limit 20.\n")
    assert "below 0.15)" in replayed("--validate", "--test-limit", "10")


def test_selected_inputs_alone_are_tuned(tmp_path, capsys):
    replayed = Replay(tmp_path, REPLAYED, capsys)
    replayed("--inputs", "n < 4096 and m > 64", "--test-limit", "5")
    features = [json.loads(row[0]) for row in replayed.query("select features from inputs")]
    assert features == [{"m": 4096, "n": 64}, {"m": 1024, "n": 64}]
    assert "10 tests were answered from the database" in replayed("--test-limit", "5")


def test_an_unknown_option_gets_the_nearest(replayed, capsys):
    for word, near in (("--tecnique=PureRandom", "--technique"), ("--test", "--test-limit")):
        with pytest.raises(SystemExit, match="2"):
            replay([*replayed.words, word])
        assert f"`{near}`" in capsys.readouterr().err


BROKEN_PROGRAM = """\
name: broken
program: {sources: [main.sh], run: [sh, "{source}", "{A}", "{n}"], time: wall}
parameters: {A: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 1}, {n: 2}]}
"""


def test_a_program_that_does_not_work_fails_and_its_page_says_why(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise UsageError(f"{page} cannot be written")

    measure_programs_here(monkeypatch)
    (tmp_path / "main.sh").write_text("exit 5")
    space, page = tmp_path / "space.yaml", tmp_path / "r.html"
    space.write_text(BROKEN_PROGRAM)
    page.write_text("<!doctype html><!-- Written by harness 0 -->")
    words = [str(space), "--database", str(tmp_path / "r.db"), "--inputs", "n > 0"]
    assert tune([*words, "--report", page]) == 1
    text = html.unescape(page.read_text())
    assert "Nothing was measured." in text
    assert "ended with exit status 5" in text
    assert f"harness tune {space} --database" in text
    assert "--inputs 'n > 0'" in text
    monkeypatch.setattr("harness.report.write_output", full)
    assert tune([*words, "--report", page]) == 1, "that it cannot be written is printed"
    assert f"error: {page} cannot be written" in capsys.readouterr().out


# ---------------------------------------------------------------- as a process of its own


PATIENT_HOST = """
import time

_arguments = arguments

def arguments(features, rng):
    time.sleep(600 if features["m"] == 1001 else 0)
    return _arguments(features, rng)
"""
"""Makes the second input's data until it is killed, and so leaves time for a test."""


def _arguments(tmp_path, *options):
    space = tmp_path / "mvmul.yaml"
    text = MVMUL.replace("ROOT/kernels/mvmul.py", f"{tmp_path}/patient.py")
    space.write_text(text.replace("ROOT", str(ROOT)))
    host = (ROOT / "kernels/mvmul.py").read_text() + PATIENT_HOST
    (tmp_path / "patient.py").write_text(host)
    return [str(space), "--backend", "opencl", "--database", str(tmp_path / "r.db"), *options]


def _start(arguments):
    command = [sys.executable, "-m", "harness.tune", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True,
    )  # fmt: skip


def _count(database):
    """The committed measurements so far; 0 while there is no database yet."""
    try:
        ((count,),) = query(database, "select count(*) from measurements")
    except sqlite3.OperationalError:
        return 0
    return int(count)


def _wait_for_measurements(process, database, count):
    deadline = time.monotonic() + 120
    while _count(database) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the search measures nothing"
        time.sleep(0.03)


@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on_and_who_measures(opencl, tmp_path, capsys):
    database = tmp_path / "r.db"
    first = _start(_arguments(tmp_path, "--repeats", "9", "--precision", "0"))
    _wait_for_measurements(first, database, 2)
    second = tune(_arguments(tmp_path))
    os.kill(first.pid, signal.SIGINT)
    shown, errors = first.communicate(timeout=60)
    refused = capsys.readouterr().err
    assert second == 2
    assert f"process {first.pid}" in refused
    assert "--device" in refused
    assert first.returncode == 130, errors
    assert "Best so far" in shown
    assert "run the same command again to continue" in errors
    assert "Traceback" not in errors + refused
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"__pycache__"} == {"mvmul.yaml", "patient.py", "r.db"}
    assert query(database, "select distinct state from tuning_run") == [("ABORTED",)]


def test_words_of_a_feature_are_listed_where_a_condition_selects_no_input():
    spec = load_spec(ROOT / "spaces" / "mvmul.yaml")
    inputs = tuple(Input({"m": word, "n": 7}) for word in ("narrow", "wide"))
    with pytest.raises(UsageError, match="m is narrow or wide, n is 7"):
        dataclasses.replace(spec, inputs=inputs).with_inputs_where("n > 90")
