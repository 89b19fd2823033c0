"""The tune command as a user runs it: options, interruption, errors, files left behind."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness.core.errors import UsageError
from harness.core.records import Input
from harness.search import techniques
from harness.space_file import load_spec
from tests.helpers.commands import analyse, dispatch, replay, tune
from tests.helpers.replays import (
    REPLAYED,
    REPLAYED_TWO,
    FormulaMeasurer,
    write_recording,
    write_space,
)
from tests.helpers.results_examples import query

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).parents[2]

MVMUL = (Path(__file__).parents[1] / "data" / "small_mvmul.yaml").read_text()


@pytest.fixture
def replayed(tmp_path: Path) -> list[str]:
    """The command line of a replay in a folder of its own, for two inputs."""
    return replay_words(tmp_path, REPLAYED_TWO)


@pytest.fixture
def replayed_four(tmp_path: Path) -> list[str]:
    """The same for four inputs."""
    return replay_words(tmp_path, REPLAYED)


def replay_words(tmp_path: Path, text: str) -> list[str]:
    space, recording = write_recording(tmp_path, text)
    database = tmp_path / "results" / "r.db"
    return [
        str(recording), "--spec", str(space),
        "--database", str(database),
    ]  # fmt: skip


class Interfering(FormulaMeasurer):
    """Does something with the database while the fifth test is measured."""

    def __init__(self, interfere: Callable[[], object]) -> None:
        super().__init__()
        self._interfere = interfere

    def measure(self, *args: Any) -> Any:
        """Return the formula's time."""
        measured = super().measure(*args)
        if len(self.asked) == 5:
            self._interfere()
        return measured


@pytest.fixture
def measured(tmp_path: Path) -> list[str]:
    """The command line of a space, with a database in a folder of its own."""
    return [str(write_space(tmp_path)), "--database", str(tmp_path / "results" / "r.db")]


def tune_with(measurer: FormulaMeasurer, words: list[str]) -> int:
    devices = {"": measurer}, "a test"
    with mock.patch("harness.api.running.open_measurers", return_value=devices):
        return tune([*words, "--test-limit", "8"])


def remove(database: Path) -> None:
    """Delete a database, as a person who cleans up."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def replace(database: Path) -> None:
    """Put another database in its place."""
    shutil.copy(database, database.with_name("copy.db"))
    os.replace(database.with_name("copy.db"), database)


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("change", [remove, replace])
def test_a_database_that_is_gone_ends_tune_at_once_with_an_error(
    change: Callable[[Path], None], more: list[str], measured: list[str], capsys: Capture
) -> None:
    database = Path(measured[-1])
    measurer = Interfering(lambda: change(database))
    assert tune_with(measurer, [*measured, *more]) == 2
    out, err = capsys.readouterr()
    message = (
        f"{database} was deleted, moved or replaced while harness wrote to it. Its measurements "
        "are lost, also those of earlier commands, unless you put the file back. Then, or to begin "
        "again, run the same command"
    )
    assert err.endswith(f"error: {message}\n")
    assert "All samples" not in out
    assert not more or json.loads(out)["error"] == message
    assert len(measurer.asked) == 5, "nothing is measured that cannot be stored"


def test_a_moved_database_that_is_put_back_has_lost_nothing(
    measured: list[str], capsys: Capture
) -> None:
    database = Path(measured[-1])
    elsewhere = database.with_name("elsewhere.db")
    assert tune_with(Interfering(lambda: database.rename(elsewhere)), measured) == 2
    elsewhere.rename(database)
    assert tune_with(FormulaMeasurer(), measured) == 0
    assert "4 tests were answered from the database" in capsys.readouterr().out


def test_the_report_has_commands_without_passwords(replayed: list[str], tmp_path: Path) -> None:
    """Of two databases the last one counts; pages and databases are passed on."""
    page, words = tmp_path / "x.html", [replayed[0], "--database", "postgresql://me:sesame@host/x"]
    words += ["--inputs", "m > 99 or n > 99", *replayed[1:], "--report", str(page)]
    assert replay(words) == 0
    shown = [word.replace("sesame", "***") for word in words]
    assert html.escape(shlex.join(["python", "-m", "harness", "replay", *shown])) in (
        page.read_text(encoding="utf-8").replace("&#39;", "&#x27;")
    )
    assert query(replayed[-1], "SELECT arguments FROM commands") == [(json.dumps(shown),)]
    assert b"sesame" not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def test_test_limit_technique_label_and_seed_reach_opentuner(replayed: list[str]) -> None:
    options = ["--test-limit", "7", "--technique", "PureRandom", "--label", "mine", "--seed", "3"]
    assert replay([*replayed, *options]) == 0
    counts = query(replayed[-1], "select count(*) from desired_result group by tuning_run_id")
    assert counts == [(7,)] * 2
    assert query(replayed[-1], "select distinct name from tuning_run") == [("mine",)]
    asked = query(replayed[-1], "select distinct requestor from desired_result")
    assert asked == [("seed",), ("PureRandom",)]
    assert query(replayed[-1], "select distinct technique, seed from runs") == [("PureRandom", 3)]
    options = ["-t", "PureRandom", "-t", "UniformGreedyMutation05", "--test-limit", "15"]
    assert replay([*replayed, *options]) == 0
    asked = query(replayed[-1], "select distinct requestor from desired_result")
    assert {("PureRandom",), ("UniformGreedyMutation05",)} <= {*asked}, "two alternate"


def test_a_label_that_opentuner_cannot_store_is_refused(
    replayed: list[str], capsys: Capture
) -> None:
    assert replay([*replayed, "--label", "x" * 129]) == 2
    assert "--label has 129 characters, and OpenTuner stores 128" in capsys.readouterr().err


def test_without_time_to_measure_it_is_no_success(replayed: list[str], capsys: Capture) -> None:
    started = time.monotonic()
    assert replay([*replayed, "--max-time", "0.001"]) == 1
    assert time.monotonic() - started < 10
    message = capsys.readouterr().out
    assert "Nothing was measured, because the time was up" in message
    assert message.rstrip().endswith("run the same command with --max-time 60.")
    assert "Fix what" not in message
    assert query(replayed[-1], "select distinct state from tuning_run") == [("ABORTED",)]


def test_a_seed_configuration_is_tested_second(replayed: list[str], tmp_path: Path) -> None:
    """It may leave out what has a default, such as the flags of another compiler."""
    space = Path(replayed[0])
    flags = "flags: {nvcc: {ftz: boolean}}\nlaunch:"
    space.write_text(space.read_text().replace("launch:", flags))
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"BLOCK": 16, "TILE": 7}))
    assert replay([*replayed, "--seed-configuration", str(seed)]) == 0
    sql = """
        select parameters from desired_result d join configurations c on c.id = configuration_id
        where tuning_run_id = 1 order by d.id
    """
    second = json.loads(str(query(replayed[-1], sql)[1][0]))
    assert second == {"BLOCK": 16, "TILE": 7, "CACHE": False}


def test_an_option_that_became_a_command_names_it(capsys: Capture) -> None:
    for command, option, now in (
        (tune, "--replay=r.csv", "harness replay RECORDING"),
        (dispatch, "--recheck", "harness recheck FOLDER"),
        (analyse, "--kernel-version", "harness analyse DATABASE --all-campaigns"),
    ):
        with pytest.raises(SystemExit):
            command([option])
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{option.partition('=')[0]} is gone: use `{now}`" in error


def test_no_space_is_needed_to_list_what_can_be_asked_for(capsys: Capture) -> None:
    """The command runs as with nohup, which is obeyed."""
    assert tune([]) == 2
    assert "name a space" in capsys.readouterr().err
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert tune(["--list-techniques"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, ignored)
    listed = capsys.readouterr().out.split()
    assert listed == sorted([*techniques(), "auto", "Predicted", "PredictedKNN"])


SEEDS = {"list": "[1]", "broken": "{", "name": '{"BLOK": 1}', "value": '{"BLOCK": 17}'}
NO_CONDITION = "is a value, not a condition; compare it, such as"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--technique", "PureRandm"], "did you mean `PureRandom`?"),
        (["--seed-configuration", "none.json"], "--seed-configuration none.json does not exist"),
        (["--inputs", "m <"], "--inputs: "),
        (["--inputs", "n >"], "cannot be read"),
        (["--inputs", "size_n > 3"], "`size_n` is not a feature of"),
        (["--inputs", "nn > 3"], "did you mean `n`?"),
        (["--inputs", "n > 5000"], "there m goes from 64 to 4096, n goes from 64 to 4096"),
        (["--inputs", "n / (m - 64) > 1e400"], "--inputs: "),
        *(([f"--inputs={value}"], NO_CONDITION) for value in ("m", "m + 1", "-n", "7")),
        (["--seed-configuration", "list.json"], "needs a JSON object"),
        (["--seed-configuration", "broken.json"], "needs a JSON object"),
        (["--seed-configuration", "name.json"], "`BLOK` is not a parameter; there are BLOCK"),
        (["--seed-configuration", "value.json"], "BLOCK=17 is not one of its values"),
        (["--validate", "0.2", "-t", "PureRandom"], "alone, got PureRandom"),
    ],
)
def test_a_command_line_that_cannot_be_carried_out_is_one_error(
    arguments: list[str],
    message: str,
    replayed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SEEDS.items():
        Path(f"{name}.json").write_text(text)
    assert replay([*replayed, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error


def test_the_next_command_keeps_what_made_this_run(replayed: list[str], capsys: Capture) -> None:
    options = ["--seed", "5", "-t", "PureRandom", "--label", "my run", "--fresh", "--test-limit=9"]
    assert replay([*replayed, *options]) == 0
    message = capsys.readouterr().out
    assert message.endswith(
        "To continue the search, run the same command with --test-limit 18, without --fresh.\n"
    )
    options.remove("--fresh")
    assert replay([*replayed, *options, "--test-limit", "18"]) == 0
    counts = query(replayed[-1], "select count(*) from desired_result group by tuning_run_id")
    assert counts == [(18,)] * 2
    assert "tests were answered from the database" in capsys.readouterr().out


def test_a_climb_that_ends_names_another_technique(replayed: list[str], capsys: Capture) -> None:
    assert replay([*replayed, "-t", "HillClimb", "--seed", "2", "--test-limit", "70"]) == 0
    message = capsys.readouterr().out
    assert "HillClimb tested " in message
    assert "To continue with another, run the same command with --technique auto in place of" in (
        message
    )
    asked = query(replayed[-1], "select distinct requestor from desired_result")
    assert asked == [("HillClimb",)]


def test_a_validation_prints_its_curve_and_its_end(replayed: list[str], capsys: Capture) -> None:
    assert replay([*replayed, "--validate=0.01", "--test-limit", "10"]) == 0
    message = capsys.readouterr().out
    assert "on 48 reserved samples" in message
    assert "9 in 10 below" in message
    assert "The limit of 20 samples was spent before the target was reached." in message
    assert message.endswith("run the same command with --test-limit 20.\n")
    assert replay([*replayed, "--validate", "--test-limit", "10"]) == 0
    assert "(target: an interval of the median below 0.15)" in capsys.readouterr().out


def test_selected_inputs_alone_are_tuned(replayed_four: list[str], capsys: Capture) -> None:
    chosen = ["--inputs", "n < 4096 and m > 64"]
    assert replay([*replayed_four, *chosen]) == 0
    message = capsys.readouterr().out
    features = [
        json.loads(str(row[0])) for row in query(replayed_four[-1], "select features from inputs")
    ]
    assert features == [{"m": 4096, "n": 64}, {"m": 1024, "n": 64}]
    assert message.endswith("run the same command with --test-limit 40.\n")
    assert replay(replayed_four) == 0
    assert "40 tests were answered from the database" in capsys.readouterr().out


def test_an_unknown_option_gets_the_nearest(replayed: list[str], capsys: Capture) -> None:
    for word, near in (("--tecnique=PureRandom", "--technique"), ("--test", "--test-limit")):
        with pytest.raises(SystemExit) as exit_:
            replay([*replayed, word])
        assert exit_.value.code == 2
        assert f"did you mean `{near}`?" in capsys.readouterr().err


BROKEN_PROGRAM = """\
name: broken
program: {sources: [main.sh], run: [sh, "{source}", "{A}", "{n}"], time: wall}
parameters: {A: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 1}, {n: 2}]}
"""


def test_a_program_that_does_not_work_fails_and_its_page_says_why(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UsageError(f"{page} cannot be written")

    (tmp_path / "main.sh").write_text("exit 5")
    space, page = tmp_path / "space.yaml", tmp_path / "r.html"
    space.write_text(BROKEN_PROGRAM)
    page.write_text("<!doctype html><!-- Written by harness 0 -->")
    words = [str(space), "--database", str(tmp_path / "r.db"), "--inputs", "n > 0"]
    assert tune([*words, "--report", str(page)]) == 1
    html = page.read_text()
    assert "Nothing was measured." in html
    assert "ended with exit status 5" in html
    assert f"harness tune {space} --database" in html
    assert "--inputs &#39;n &gt; 0&#39;" in html
    monkeypatch.setattr("harness.report.write_output", full)
    assert tune([*words, "--report", str(page)]) == 1, "that it cannot be written is printed"
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


def _arguments(tmp_path: Path, *options: str) -> list[str]:
    space = tmp_path / "mvmul.yaml"
    space.write_text(MVMUL.replace("ROOT", str(ROOT)))
    return [str(space), "--backend", "opencl", "--database", str(tmp_path / "r.db"), *options]


def _endless_arguments(tmp_path: Path, *options: str) -> list[str]:
    arguments = _arguments(tmp_path, *options)
    host, space = tmp_path / "patient.py", Path(arguments[0])
    host.write_text((ROOT / "kernels/mvmul.py").read_text() + PATIENT_HOST)
    space.write_text(space.read_text().replace(f"{ROOT}/kernels/mvmul.py", str(host)))
    return arguments


def _start(arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness.tune", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True,
    )  # fmt: skip


def _count(database: Path) -> int:
    """The committed measurements so far; 0 while there is no database yet."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return int(connection.execute("select count(*) from measurements").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _wait_for_measurements(process: subprocess.Popen[str], database: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while _count(database) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the search measures nothing"
        time.sleep(0.03)


@pytest.mark.slow
@pytest.mark.usefixtures("opencl")
def test_killed_and_run_again_it_loses_and_repeats_nothing(tmp_path: Path, capsys: Capture) -> None:
    database = tmp_path / "r.db"
    first = _start(_arguments(tmp_path))
    _wait_for_measurements(first, database, 3)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = _count(database)
    assert kept >= 3
    assert tune(_arguments(tmp_path)) == 0
    assert "All 4 legal configurations were measured" in capsys.readouterr().out
    with sqlite3.connect(database) as connection:
        (check,) = connection.execute("pragma integrity_check").fetchone()
        searched = connection.execute(
            "select input_id, count(*), count(distinct configuration_id) from measurements "
            "join result using (id) where stage = 'search' group by input_id"
        ).fetchall()
        outcomes = connection.execute("select distinct outcome from measurements").fetchall()
        runs = connection.execute("select count(*) from tuning_run").fetchone()
    assert check == "ok"
    assert [row[1:] for row in searched] == [(4, 4), (4, 4)]
    assert outcomes == [("ok",)]
    assert runs == (2,)


@pytest.mark.slow
@pytest.mark.usefixtures("opencl")
def test_interrupted_it_says_how_to_go_on_and_who_measures(tmp_path: Path, capsys: Capture) -> None:
    database = tmp_path / "r.db"
    first = _start(_endless_arguments(tmp_path, "--repeats", "9", "--precision", "0"))
    _wait_for_measurements(first, database, 2)
    second = tune(_arguments(tmp_path))
    os.kill(first.pid, signal.SIGINT)
    shown, errors = first.communicate(timeout=60)
    refused = capsys.readouterr().err
    assert second == 2
    assert f"process {first.pid}" in refused
    assert "name another device with --device" in refused
    assert first.returncode == 130, errors
    assert "Best so far, by the times of the search:\n    m=" in shown
    assert "all measurements are kept; run the same command again to continue" in errors
    assert "Traceback" not in errors + refused
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"__pycache__"} == {"mvmul.yaml", "patient.py", "r.db"}
    with sqlite3.connect(database) as connection:
        states = connection.execute("select distinct state from tuning_run").fetchall()
    assert states == [("ABORTED",)]


def test_words_of_a_feature_are_listed_where_a_condition_selects_no_input() -> None:
    spec = load_spec(ROOT / "spaces" / "mvmul.yaml")
    inputs = tuple(Input({"m": word, "n": 7}) for word in ("narrow", "wide"))
    with pytest.raises(UsageError, match="m is narrow or wide, n is 7"):
        dataclasses.replace(spec, inputs=inputs).with_inputs_where("n > 90")
