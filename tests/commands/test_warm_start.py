"""The warm start: a search that learns from another device's results before its first test."""

import itertools
import json
import sqlite3
from pathlib import Path

import pytest

from tests.helpers.commands import export, replay
from tests.helpers.replays import small_space, write_space
from tests.helpers.results_examples import query, tamper

BLOCKS, TILES = (16, 32, 64, 128, 256, 512), range(1, 9)

SPACE = small_space(
    "BLOCK: {type: power_of_two, min: 16, max: 512, default: 16}, "
    "TILE: {type: integer, min: 1, max: 8, default: 1}",
    *(4096, 64),
)


def time_ms(block, tile):
    """Best at BLOCK=128, TILE=5, which nothing beside it gives away."""
    return 1.0 if (block, tile) == (128, 5) else 10 + abs(block - 32) / 16 + tile


def write_cache(path, unit=1.0, **changes):
    """What Kernel Tuner recorded of the kernel on some device."""
    points = list(itertools.product(BLOCKS, TILES))
    data = {
        "device_name": f"device {unit:g}",
        "kernel_name": "kernel",
        "problem_size": [4096],
        "tune_params_keys": ["BLOCK", "TILE"],
        "tune_params": {"BLOCK": list(BLOCKS), "TILE": list(TILES)},
        "objective": "time",
        "cache": {
            f"{b},{t}": {"BLOCK": b, "TILE": t, "time": unit * time_ms(b, t)} for b, t in points
        },
    }
    path.write_text(json.dumps(data | changes))
    return path


def write_recording(path, unit):
    """The same as a recording of ours, on two inputs."""
    lines = ["n,BLOCK,TILE,outcome,time_s,message"]
    for n, block, tile in itertools.product((4096, 64), BLOCKS, TILES):
        lines.append(f"{n},{block},{tile},ok,{unit * time_ms(block, tile)},")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def tuned(capsys):
    """Searches with these words; returns what is printed."""

    def run(*words):
        assert replay(list(words)) == 0
        return "".join(capsys.readouterr())

    return run


@pytest.fixture
def cache(tmp_path):
    return write_cache(tmp_path / "other.json", unit=30)


@pytest.fixture
def replaying(tmp_path):
    """The command line of a search of what Kernel Tuner recorded here."""
    here = write_cache(tmp_path / "here.json")
    return [str(here), "--database", str(tmp_path / "r.db"), "--test-limit", "4"]


@pytest.fixture
def measuring(tmp_path):
    """The command line of a search of a space, on a device that is a recording of ours."""
    space, device = write_space(tmp_path, SPACE), tmp_path / "device.csv"
    write_recording(device, unit=1e-3)
    return f"{device} --spec {space} --database {tmp_path}/r.db --test-limit 4".split()


def rows(command, sql):
    return query(command[command.index("--database") + 1], sql)


def configs_of(command, run=1):
    """The configurations that a run tested, in order."""
    sql = f"""
        select parameters from desired_result d join configurations c on c.id = configuration_id
        where tuning_run_id = {run} order by d.id
    """
    return [json.loads(row[0]) for row in rows(command, sql)]


BEST = {"BLOCK": 128, "TILE": 5}


def test_after_the_default_the_best_of_the_other_device_is_measured_and_the_recording_described(
    replaying, cache, tuned
):
    command = [*replaying, "--warm-start", str(cache)]
    printed = tuned(*command)
    first = configs_of(replaying)
    assert first[1] == BEST
    assert "other.json: Kernel Tuner cache of kernel on device 30; 48 configurations" in printed
    tuned(*command, "--test-limit", "8")
    assert configs_of(replaying)[:4] == first
    assert len(configs_of(replaying)) == 8
    tuned(*replaying)
    assert len(configs_of(replaying, 2)) == 4, "without the recording it is another run"
    techniques = rows(replaying, "select technique from runs order by id")
    assert techniques[0][0].startswith("GaussianProcess (with data of ")
    assert techniques[1] == ("GaussianProcess",)


@pytest.mark.parametrize("form, end", [("t4", "json"), ("csv", "csv")])
def test_an_export_is_a_warm_start_of_every_input(form, end, measuring, tmp_path, tuned):
    tuned(*measuring, "--test-limit", "48", "-t", "UniformRandom")
    exported = str(tmp_path / f"exported.{end}")
    assert export([tmp_path / "r.db", "--format", form, "--output", exported]) == 0
    again = ["--database", str(tmp_path / "again.db")]
    tuned(*measuring, *again, "--warm-start", exported)
    assert configs_of(again)[1] == BEST
    assert BEST in configs_of(again, 2)[:2]


# ------------------------------------------------ other devices of the same database


IN_DATABASE = ("--warm-start", "database")


def on_device(command, device, *options):
    """The command on another device, a recording of ours with this name."""
    path = Path(command[0]).parent / device
    write_recording(path, unit=1e-4)
    return [str(path) if word == command[0] else word for word in [*command, *options]]


@pytest.fixture
def tuned_elsewhere(measuring, tuned):
    """The command line `measuring`, with another device's results in its database."""
    uniform = ("-t", "UniformRandom", "--test-limit", "48")
    tuned(*on_device(measuring, "other.csv", *uniform))
    return measuring


def warm_notes(command):
    """By run of the Gaussian process, the devices that it notes; None without the note."""
    sql = "select notes from runs where technique = 'GaussianProcess' order by id"
    noted = [json.loads(row[0]).get("warm_start") for row in rows(command, sql)]
    return [sources and [source["device"] for source in sources] for sources in noted]


def test_another_device_starts_every_search(tuned_elsewhere, tuned):
    out = tuned(*tuned_elsewhere, *IN_DATABASE)
    assert configs_of(tuned_elsewhere, 3)[1] == BEST
    assert configs_of(tuned_elsewhere, 4)[1] == BEST
    assert warm_notes(tuned_elsewhere) == [["other.csv"]] * 2
    assert f"warm start from the results of other.csv in {tuned_elsewhere[4]}\n" in out
    assert f"harness dispatch {tuned_elsewhere[4]} -o out --device device.csv --spec " in out


def test_without_the_option_the_start_is_cold(tuned_elsewhere, tuned):
    assert "warm start" not in tuned(*tuned_elsewhere)
    assert BEST not in configs_of(tuned_elsewhere, 3)
    assert warm_notes(tuned_elsewhere) == [None, None]


def test_the_same_device_is_no_warm_start(measuring, tuned):
    tuned(*measuring)
    assert "no warm start from" in tuned(*measuring, "--seed", "1", *IN_DATABASE)
    assert warm_notes(measuring) == [None] * 4


def test_a_run_goes_on_as_it_began(measuring, tmp_path, tuned):
    tuned(*measuring)
    first = configs_of(measuring)
    tuned(*on_device(measuring, "other.csv"))
    printed = tuned(*measuring, *IN_DATABASE, "--test-limit", "6")
    assert " warm start from" not in printed.replace("no warm start from", "")
    assert configs_of(measuring)[:4] == first, "it began without the other device"

    third = on_device(measuring, "third.csv")
    tuned(*third, *IN_DATABASE)
    database, copy = measuring[4], str(tmp_path / "copy.db")
    with sqlite3.connect(database) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    # In one of the two another device has measured more meanwhile.
    tuned(*on_device(measuring, "other.csv", "--test-limit", "12"))
    alone = [copy if word == database else word for word in third]
    for command in (third, alone):
        assert "warm start from the results of" in tuned(*command, "--test-limit", "8")
        assert len(configs_of(command, 5)) == 8
    assert configs_of(third, 5) == configs_of(alone, 5)


def test_lost_results_of_another_device_are_one_message(tuned_elsewhere, tuned):
    tuned(*tuned_elsewhere, *IN_DATABASE)
    lost = "json_set(notes, '$.warm_start[0].fingerprint', 'gone')"
    tamper(tuned_elsewhere[4], f"update runs set notes = {lost} where id in (3, 4)")
    printed = tuned(*tuned_elsewhere, "--test-limit", "6")
    assert "the results of other.csv, from which" in printed


def test_values_that_the_space_lacks_are_left_out(tuned_elsewhere, tuned):
    space = Path(tuned_elsewhere[2])
    space.write_text(space.read_text().replace("max: 512", "max: 64"))
    device = Path(tuned_elsewhere[0])
    lines = device.read_text().splitlines()
    fitting = [line for line in lines if line.split(",")[1] in ("BLOCK", "16", "32", "64")]
    device.write_text("\n".join(fitting) + "\n")
    tuned(*tuned_elsewhere, *IN_DATABASE)
    assert all(config["BLOCK"] <= 64 for config in configs_of(tuned_elsewhere, 3))
    assert warm_notes(tuned_elsewhere) == [["other.csv"]] * 2


# --------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "content, message",
    [(None, "other.json does not exist"), ("a,b\n1,2\n", "other.json needs a mapping")],
)
def test_a_file_that_cannot_be_read_is_one_error_before_anything_is_measured(
    content, message, measuring, tmp_path, capsys
):
    other = tmp_path / "other.json"
    if content is not None:
        other.write_text(content)
    assert replay([*measuring, "--warm-start", other]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.db").exists()


TIMED = {"BLOCK": 16, "TILE": 1, "time": 1.0}


@pytest.mark.parametrize(
    "cell, message",
    [
        ({"BLOCK": 16, "UNROLL": 1, "time": 1.0}, "no parameter TILE, only BLOCK, UNROLL"),
        (TIMED | {"UNROLL": 1}, "a parameter UNROLL"),
        (TIMED | {"BLOCK": 1}, "no recorded configuration has values of this space"),
        (TIMED | {"time": "InvalidConfig"}, "no recorded configuration of this space worked"),
    ],
)
def test_a_recording_of_no_use_is_one_error(cell, message, measuring, tmp_path, capsys):
    names = [name for name in cell if name != "time"]
    values = {name: [cell[name], 2] for name in names}
    cells = {"0": cell, "1": {**cell, names[-1]: 2}}
    changes = {"tune_params_keys": names, "tune_params": values, "cache": cells}
    other = write_cache(tmp_path / "other.json", **changes)
    assert replay([*measuring, "--warm-start", other]) == 2
    assert message in capsys.readouterr().err
    assert rows(measuring, "select count(*) from measurements") == [(0,)]


@pytest.mark.parametrize("options", ["-t PureRandom", "-t HillClimb -t PureRandom", "--validate"])
def test_a_technique_that_learns_from_no_recording_is_refused_one(
    options, measuring, cache, capsys
):
    assert replay([*measuring, "--warm-start", cache, *options.split()]) == 2
    assert "add --technique GaussianProcess" in capsys.readouterr().err


def test_beside_others_the_learner_has_the_warm_start(measuring, cache, tuned):
    options = ["-t", "PureRandom", "-t", "GaussianProcess", "--warm-start", str(cache)]
    tuned(*measuring, *options)
    assert BEST in configs_of(measuring)


@pytest.mark.parametrize("options, parallelism", [([], 1), (["--parallelism", "3"], 3)])
def test_nothing_is_built_for_a_recording_so_each_proposal_follows_from_all_results(
    options, parallelism, measuring, tuned
):
    tuned(*measuring, *options)
    assert set(rows(measuring, "select parallelism from runs")) == {(parallelism,)}
