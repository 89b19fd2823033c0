"""The warm start: a search that learns from another device's results before its first test."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import export, replay
from tests.helpers.replays import small_space, write_space
from tests.helpers.results_examples import query

Capture = pytest.CaptureFixture[str]

BLOCKS, TILES = (16, 32, 64, 128, 256, 512), range(1, 9)

SPACE = small_space(
    "BLOCK: {type: power_of_two, min: 16, max: 512, default: 16}, "
    "TILE: {type: integer, min: 1, max: 8, default: 1}",
    *(4096, 64),
)

Point = tuple[int, int]


def time_ms(block: int, tile: int) -> float:
    """Best at BLOCK=128, TILE=5, which nothing beside it gives away."""
    return 1.0 if (block, tile) == (128, 5) else 10 + abs(block - 32) / 16 + tile


def write_cache(path: Path, unit: float = 1.0, **changes: Any) -> Path:
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


def write_recording(path: Path, unit: float) -> None:
    """The same as a recording of ours, on two inputs."""
    lines = ["n,BLOCK,TILE,outcome,time_s,message"]
    for n, block, tile in itertools.product((4096, 64), BLOCKS, TILES):
        lines.append(f"{n},{block},{tile},ok,{unit * time_ms(block, tile)},")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return write_cache(tmp_path / "other.json", unit=30)


@pytest.fixture
def replaying(tmp_path: Path) -> list[str]:
    """The command line of a search of what Kernel Tuner recorded here."""
    here = write_cache(tmp_path / "here.json")
    return [str(here), "--database", str(tmp_path / "r.db"), "--test-limit", "4"]


@pytest.fixture
def measuring(tmp_path: Path) -> list[str]:
    """The command line of a search of a space, on a device that is a recording of ours."""
    space, device = write_space(tmp_path, SPACE), tmp_path / "device.csv"
    write_recording(device, unit=1e-3)
    return [
        str(device), "--spec", str(space),
        "--database", str(tmp_path / "r.db"), "--test-limit", "4",
    ]  # fmt: skip


def rows(command: Sequence[str], sql: str) -> list[tuple[Any, ...]]:
    return query(command[command.index("--database") + 1], sql)


def configs_of(command: Sequence[str], run: int = 1) -> list[Mapping[str, Any]]:
    """The configurations that a run tested, in order."""
    sql = f"""
        select parameters from desired_result d join configurations c on c.id = configuration_id
        where tuning_run_id = {run} order by d.id
    """
    return [json.loads(row[0]) for row in rows(command, sql)]


BEST = {"BLOCK": 128, "TILE": 5}


def test_after_the_default_the_best_of_the_other_device_is_measured_and_the_recording_described(
    replaying: list[str], cache: Path, capsys: Capture
) -> None:
    assert replay([*replaying, "--warm-start", str(cache)]) == 0
    assert configs_of(replaying)[1] == BEST
    assert (
        "warm start from other.json: Kernel Tuner cache of kernel on device 30; 48 configurations, "
        "all legal on (problem_size_x=4096)\n"
    ) in capsys.readouterr().out


def test_every_input_of_a_space_has_the_warm_start(measuring: list[str], cache: Path) -> None:
    assert replay([*measuring, "--warm-start", str(cache)]) == 0
    assert BEST in configs_of(measuring, 1)[:2]
    assert BEST in configs_of(measuring, 2)[:2]


@pytest.mark.parametrize("form", ["t4", "csv"])
def test_an_export_is_a_warm_start(form: str, measuring: list[str], tmp_path: Path) -> None:
    assert replay([*measuring, "--test-limit", "48", "-t", "UniformRandom"]) == 0
    exported = tmp_path / f"exported.{'json' if form == 't4' else 'csv'}"
    database = str(tmp_path / "r.db")
    assert export([database, "--format", form, "--output", str(exported)]) == 0
    again = ["--database", str(tmp_path / "again.db")]
    assert replay([*measuring, *again, "--warm-start", str(exported)]) == 0
    assert configs_of(again)[1] == BEST


def test_the_same_command_goes_on_and_without_the_recording_it_is_another_run(
    replaying: list[str], cache: Path, capsys: Capture
) -> None:
    command = [*replaying, "--warm-start", str(cache)]
    assert replay(command) == 0
    again = "To continue the search, run the same command with --test-limit 8."
    assert again in capsys.readouterr().out
    first = configs_of(replaying)
    assert replay([*command, "--test-limit", "8"]) == 0
    assert configs_of(replaying)[:4] == first
    assert len(configs_of(replaying)) == 8
    assert replay(replaying) == 0
    assert len(configs_of(replaying, 2)) == 4
    techniques = [row[0] for row in rows(replaying, "select technique from runs order by id")]
    assert techniques[0].startswith("GaussianProcess (with data of ")
    assert techniques[1] == "GaussianProcess"


# ------------------------------------------------ other devices of the same database


IN_DATABASE = ("--warm-start", "database")


def on_device(command: Sequence[str], device: str, *options: str) -> list[str]:
    """The command on another device, a recording of ours with this name."""
    path = Path(command[0]).parent / device
    write_recording(path, unit=1e-4)
    return [str(path) if word == command[0] else word for word in [*command, *options]]


@pytest.fixture
def tuned_elsewhere(measuring: list[str]) -> list[str]:
    """The command line `measuring`, with another device's results in its database."""
    uniform = ("-t", "UniformRandom", "--test-limit", "48")
    assert replay(on_device(measuring, "other.csv", *uniform)) == 0
    return measuring


def warm_notes(command: Sequence[str]) -> list[Any]:
    """By run of the Gaussian process, the devices that it notes; None without the note."""
    sql = "select notes from runs where technique = 'GaussianProcess' order by id"
    noted = [json.loads(row[0]).get("warm_start") for row in rows(command, sql)]
    return [sources and [source["device"] for source in sources] for sources in noted]


def test_another_device_starts_every_search(tuned_elsewhere: list[str], capsys: Capture) -> None:
    capsys.readouterr()
    assert replay([*tuned_elsewhere, *IN_DATABASE]) == 0
    assert configs_of(tuned_elsewhere, 3)[1] == BEST
    assert configs_of(tuned_elsewhere, 4)[1] == BEST
    assert warm_notes(tuned_elsewhere) == [["other.csv"]] * 2
    database = tuned_elsewhere[4]
    out = capsys.readouterr().out
    assert f"warm start from the results of other.csv in {database}" in out.splitlines()
    assert f"harness dispatch {database} -o out --device device.csv --spec " in out


def test_without_the_option_the_start_is_cold(tuned_elsewhere: list[str], capsys: Capture) -> None:
    capsys.readouterr()
    assert replay(tuned_elsewhere) == 0
    assert "warm start" not in capsys.readouterr().out
    assert BEST not in configs_of(tuned_elsewhere, 3)
    assert warm_notes(tuned_elsewhere) == [None, None]


def test_the_same_device_is_no_warm_start(measuring: list[str], capsys: Capture) -> None:
    assert replay(measuring) == 0
    assert replay([*measuring, "--seed", "1", *IN_DATABASE]) == 0
    assert "no warm start from" in capsys.readouterr().out
    assert warm_notes(measuring) == [None] * 4


def test_a_run_goes_on_as_it_began(measuring: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert replay(on_device(measuring, "other.csv")) == 0
    database = Path(measuring[4])
    assert replay([*measuring, *IN_DATABASE]) == 0
    copy = tmp_path / "copy.db"
    with sqlite3.connect(database) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    # In one of the two the other device has measured more meanwhile, and a third one began.
    assert replay(on_device(measuring, "other.csv", "--test-limit", "40")) == 0
    assert replay(on_device(measuring, "third.csv")) == 0
    alone = [str(copy) if word == str(database) else word for word in measuring]
    for command in (measuring, alone):
        capsys.readouterr()
        assert replay([*command, "--test-limit", "12"]) == 0
        assert "warm start from the results of other.csv in" in capsys.readouterr().out
        assert len(configs_of(command, 3)) == 12
    assert configs_of(measuring, 3) == configs_of(alone, 3)
    assert configs_of(measuring, 4) == configs_of(alone, 4)


def test_a_run_that_began_without_others_goes_on_so(measuring: list[str], capsys: Capture) -> None:
    assert replay(measuring) == 0
    first = configs_of(measuring)
    assert replay(on_device(measuring, "other.csv")) == 0
    capsys.readouterr()
    assert replay([*measuring, *IN_DATABASE, "--test-limit", "8"]) == 0
    assert "warm start from" not in capsys.readouterr().out.replace("no warm start from", "")
    assert configs_of(measuring)[:4] == first
    assert len(configs_of(measuring)) == 8


def test_lost_results_of_another_device_are_one_message(
    tuned_elsewhere: list[str], capsys: Capture
) -> None:
    assert replay([*tuned_elsewhere, *IN_DATABASE]) == 0
    with sqlite3.connect(tuned_elsewhere[4]) as connection:
        for run_id in (3, 4):
            (text,) = connection.execute(f"select notes from runs where id = {run_id}").fetchone()
            notes = json.loads(text)
            (source,) = notes["warm_start"]
            notes["warm_start"] = [source | {"fingerprint": "0" * 64}]
            connection.execute(
                "update runs set notes = ? where id = ?", (json.dumps(notes), run_id)
            )
    capsys.readouterr()
    assert replay([*tuned_elsewhere, "--test-limit", "6"]) == 0
    assert (
        "the results of other.csv, from which the search began, are no longer in the database; it "
        "goes on without them"
    ) in "".join(capsys.readouterr())


def test_values_that_the_space_lacks_are_left_out(tuned_elsewhere: list[str]) -> None:
    space = Path(tuned_elsewhere[2])
    space.write_text(space.read_text().replace("max: 512", "max: 64"))
    device = Path(tuned_elsewhere[0])
    lines = device.read_text().splitlines()
    fitting = [line for line in lines if line.split(",")[1] in ("BLOCK", "16", "32", "64")]
    device.write_text("\n".join(fitting) + "\n")
    assert replay([*tuned_elsewhere, *IN_DATABASE]) == 0
    assert all(config["BLOCK"] <= 64 for config in configs_of(tuned_elsewhere, 3))
    assert warm_notes(tuned_elsewhere) == [["other.csv"]] * 2


# --------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "other.json does not exist"),
        ("a,b\n1,2\n", "other.json needs a mapping, a small YAML file that describes its columns"),
    ],
    ids=["missing", "CSV"],
)
def test_a_file_that_cannot_be_read_is_one_error_before_anything_is_measured(
    content: str | None, message: str, measuring: list[str], tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other.json"
    if content is not None:
        other.write_text(content)
    assert replay([*measuring, "--warm-start", str(other)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert not (tmp_path / "r.db").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tune_params_keys": ["BLOCK", "UNROLL"]},
         "other.json: has no parameter TILE, only BLOCK, UNROLL; --warm-start needs "
         "recordings of the same kernel"),
        ({"tune_params_keys": ["BLOCK", "TILE", "UNROLL"]},
         "other.json: has a parameter UNROLL that this space lacks; --warm-start needs "
         "recordings of the same kernel"),
        ({"BLOCK": 1}, "other.json: no recorded configuration has values of this space's"),
        ({"time": "InvalidConfig"}, "other.json: no recorded configuration of this space worked"),
    ],
    ids=["lacks a parameter", "has one more", "fits nowhere", "failed"],
)  # fmt: skip
def test_a_recording_of_no_use_is_one_error(
    changes: Mapping[str, Any], message: str, measuring: list[str], tmp_path: Path, capsys: Capture
) -> None:
    entries = [
        {"BLOCK": 16 + k % 2 * 16, "TILE": 1 + k, "UNROLL": k, "time": 1.0} for k in range(2)
    ]
    names = changes.get("tune_params_keys", ["BLOCK", "TILE"])
    cells = [{**entry, **changes} for entry in entries]
    other = write_cache(
        tmp_path / "other.json",
        tune_params_keys=names,
        tune_params={name: sorted({cell[name] for cell in cells}) for name in names},
        cache={
            str(k): {n: v for n, v in cell.items() if n in (*names, "time")}
            for k, cell in enumerate(cells)
        },
    )
    assert replay([*measuring, "--warm-start", str(other)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert rows(measuring, "select count(*) from measurements") == [(0,)]


@pytest.mark.parametrize(
    "options", [["-t", "PureRandom"], ["-t", "HillClimb", "-t", "PureRandom"], ["--validate"]]
)
def test_a_technique_that_learns_from_no_recording_is_refused_one(
    options: list[str], measuring: list[str], cache: Path, capsys: Capture
) -> None:
    assert replay([*measuring, "--warm-start", str(cache), *options]) == 2
    error = capsys.readouterr().err
    assert "--warm-start needs --technique GaussianProcess, which learns from it; the" in error
    assert "add --technique GaussianProcess" in error


def test_beside_others_the_learner_has_the_warm_start(measuring: list[str], cache: Path) -> None:
    options = ["-t", "PureRandom", "-t", "GaussianProcess", "--warm-start", str(cache)]
    assert replay([*measuring, *options]) == 0
    assert BEST in configs_of(measuring)


# ------------------------------------------------------------------------- parallelism


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], 1),
        (["--parallelism", "3"], 3),
    ],
)
def test_nothing_is_built_for_a_recording_so_each_proposal_follows_from_all_results(
    options: list[str], expected: int, measuring: list[str]
) -> None:
    assert replay([*measuring, *options]) == 0
    assert set(rows(measuring, "select parallelism from runs")) == {(expected,)}
