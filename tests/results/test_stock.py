"""A database that OpenTuner made without harness is imported by `merge`.

OpenTuner 0.8.8 made `data/stock_opentuner.db` from its tutorial's matrix product (mmm_tuner.py) and
flags of g++, with 16 tests a size. It is without the name of the machine, the path of the database,
and the configurations that no test refers to.
"""

import pickle
import shutil
import sys
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from harness.core.errors import ResultsError
from harness.core.plain_pickle import load_compressed
from harness.core.records import Config, Outcome
from harness.results import reading, schema, stock, writing
from harness.results.opentuner import stock_rows
from harness.results.view import read_results
from tests import DATA
from tests.helpers.commands import analyse, dispatch, merge, recheck
from tests.helpers.results_examples import (
    PICKLED,
    SPEC,
    Planted,
    count,
    make_config,
    make_failed,
    make_ok,
    make_plan,
    query,
    tamper,
    write,
)
from tests.helpers.results_examples import merge as merge_databases

STOCK = DATA / "stock_opentuner.db"
SIZES = (32, 64, 96, 128, 192, 256, 384)


@pytest.fixture
def database(tmp_path):
    return Path(shutil.copy(STOCK, tmp_path / "stock.db"))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A database into which OpenTuner's was merged."""
    return imported_from(STOCK, tmp_path_factory.mktemp("imported"))


def imported_from(database, folder):
    assert merge([folder / "all.db", database]) == 0
    return folder / "all.db"


def results(database):
    (found,) = read_results(str(database))
    return found


def test_every_result_is_a_measurement_with_one_sample(imported):
    stored = results(imported)
    assert [dict(problem) for problem in stored.measured] == [{"size": size} for size in SIZES]
    sql = (
        "SELECT input_class.size, data, time, requestor FROM result "
        "JOIN input ON input.id = input_id JOIN input_class ON input_class.id = input_class_id "
        "JOIN configuration ON configuration.id = result.configuration_id "
        "JOIN desired_result ON result_id = result.id GROUP BY result.id"
    )
    recorded = []
    for size, data, time_s, requestor in query(STOCK, sql):
        values = {name.replace("-", "_"): value for name, value in load_compressed(data).items()}
        recorded.append((size, Config(values), time_s, requestor))
    measured = [(row.measurement, row.requestor) for row in stored.rows]
    assert [(m.input["size"], m.config, m.time_s, by) for m, by in measured] == recorded
    assert {m.timing and m.timing.count for m, _ in measured} == {1}


def test_the_machine_is_the_environment_and_the_first_seed_the_default(imported):
    campaign = results(imported).campaign
    environment = campaign.environment
    assert environment.backend == "opentuner"
    assert environment.platform.startswith("a machine, 2 cores, ")
    assert (environment.driver, environment.compiler) == ("not recorded", "not recorded")
    assert campaign.default == Config({"BLOCK_SIZE": 10, "opt_level": 0, "unroll_loops": "default"})
    assert campaign.space_name == "mmm_block"


def test_a_tree_is_learnt_from_several_sizes(imported, capsys):
    assert analyse([imported]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "results of OpenTuner alone (objective MinimizeTime)" in out
    assert "from a tree (Starchart)" in out


def counts(database):
    """The rows of OpenTuner's tables, but those that nobody reads."""
    return {name: count(database, name) for name in stock.NAMES if not name.startswith("bandit")}


def test_merged_again_and_grown_it_is_there_once(tmp_path, database):
    out, last = tmp_path / "out.db", "(SELECT max(id) FROM result)"
    ended = "UPDATE tuning_run SET end_date = '2000-01-01 00:00:00.000000'"
    before = f"DELETE FROM desired_result WHERE result_id = {last}"
    tamper(database, f"{before}; DELETE FROM result WHERE id = {last}; {ended}")
    for source in (database, STOCK, STOCK):
        assert merge([out, source]) == 0
    assert counts(out) == counts(STOCK)
    assert count(out, "measurements") == count(STOCK, "result")
    assert results(out).is_recorded


@pytest.mark.parametrize("dropped", [[schema.measurements], reversed(schema.OURS)])
def test_without_our_tables_a_database_is_one_of_opentuner(tmp_path, dropped):
    ours, second = tmp_path / "ours.db", SPEC.inputs[1]
    failed = make_failed(Outcome.TIMEOUT, 2)
    write(ours, make_ok(1, [1e-3, 2e-3, 4e-3]), failed)
    write(ours, make_ok(3, [5e-3], second), plan=make_plan(second))
    tamper(ours, "".join(f"DROP TABLE {table.name};" for table in dropped))
    stored = results(imported_from(ours, tmp_path))
    assert stored.campaign.space_name == SPEC.name
    measured = list(stored.rows.measurements())
    assert [(m.input, m.config, m.outcome) for m in measured] == [
        (SPEC.inputs[0], make_config(1), Outcome.OK),
        (SPEC.inputs[0], make_config(2), Outcome.TIMEOUT),
        (second, make_config(3), Outcome.OK),
    ]
    assert [m.time_s for m in measured] == [2e-3, float("inf"), 5e-3]


def test_results_of_several_machines_are_not_mixed(tmp_path, database):
    tamper(
        database,
        "INSERT INTO machine (id, name) VALUES (9, 'another');"
        "UPDATE result SET machine_id = 9 WHERE id = (SELECT max(id) FROM result)",
    )
    with pytest.raises(ResultsError, match="2 machines"):
        merge_databases(tmp_path / "out.db", database)


def test_other_commands_say_how_to_import_it(database):
    before = database.read_bytes()
    for door in (reading, writing):
        with pytest.raises(ResultsError, match=r"merge NEW.db .*stock.db"), door(str(database)):
            pass
        assert database.read_bytes() == before


# ---------------------------------------------------------------------------- untrusted


def refusal(database, change, capsys):
    """What `merge` says of a copy of OpenTuner's database that was changed."""
    shutil.copy(STOCK, database)
    tamper(database, change)
    assert merge([database.with_name("all.db"), database]) == 2
    return capsys.readouterr().err


def test_pickled_code_is_refused(database, capsys):
    planted = database.with_name("planted")
    data = pickle.dumps(Planted(planted)).hex()
    for table, columns in PICKLED.items():
        for column in columns:
            change = f"UPDATE {table} SET {column} = x'{data}' WHERE id = 1"
            message = refusal(database, change, capsys)
            assert f"{table} 1: {column}: a pickle of" in message
            assert "mkdir" in message
    assert not planted.exists()


def test_what_opentuner_cannot_have_written_is_damage(database, capsys):
    for change in (
        "UPDATE result SET time = 'fast'",
        "UPDATE result SET configuration_id = 999",
        "UPDATE result SET tuning_run_id = NULL",
        "UPDATE result SET collection_date = 'soon'",
        "UPDATE machine SET cores = 'two'",
        "UPDATE program SET name = x'00'",
        "DELETE FROM input",
        "UPDATE configuration SET data = x'5d2e'",  # a list
    ):
        assert "stock.db is damaged: " in refusal(database, change, capsys)


# ------------------------------------------------------------------------------- values


def test_a_dispatcher_is_written_that_only_chooses(imported, tmp_path, capsys):
    out = tmp_path / "out"
    assert dispatch([imported, "-o", out, "--choice", "tree"]) == 0
    assert recheck([out]) == 2
    assert "results of OpenTuner alone" in capsys.readouterr().err
    header = (out / "mmm_block.h").read_text()
    assert "const char *unroll_loops;" in header
    sys.path.insert(0, str(out))
    try:
        import mmm_block
    finally:
        sys.path.remove(str(out))
    assert mmm_block.select(128)["opt_level"] in (1, 2, 3)
    assert not (out / "mmm_block" / "kernels").exists()


class Row(dict):
    """A row whose other cells are empty."""

    def __missing__(self, name):
        return None


def rows_of(*data, result=MappingProxyType({}), problem=MappingProxyType({}), size=64):
    """The rows of a record with a result for each configuration's data."""
    moment = datetime(2020, 1, 1)
    own = {"tuning_run_id": 1, "input_id": 1, "machine_id": 1, "collection_date": moment}
    tables = {
        "program": [Row(id=1, project="p", name="p")],
        "program_version": [Row(id=1, program_id=1, version="1")],
        "configuration": [],
        "machine": [Row(id=1)],
        "input_class": [Row(id=1, program_id=1, name="fixed", size=size)],
        "input": [Row(id=1, input_class_id=1, **problem)],
        "tuning_run": [Row(id=1, program_version_id=1, uuid="a", start_date=moment)],
        "result": [],
        "desired_result": [],
    }
    for number, value in enumerate(data, start=1):
        tables["configuration"].append(Row(id=number, data=pickle.dumps(value, 2)))
        cells = {"id": number, "configuration_id": number, "state": "OK", **own, **result}
        tables["result"].append(Row(cells))
    return stock_rows({name: {row["id"]: row for row in rows} for name, rows in tables.items()})


def test_configurations_have_plain_values():
    cases = [
        ({"unroll-loops": "on", "n": 3}, {"unroll_loops": "on", "n": 3}),
        ({"order": [2, 0], "a": {"b": True}}, {"order_0": 2, "order_1": 0, "a_b": True}),
        ({"x);import os#": 1, "3d": 2}, {"x__import_os_": 1, "_3d": 2}),
        ({"flag": None, "size": np.int64(4)}, {"flag": None, "size": 4}),
    ]
    for data, expected in cases:
        (row,) = rows_of(data)["configurations"]
        assert row["parameters"] == expected


def test_other_data_are_no_configuration():
    for data in [[1], {"a-b": 1, "a_b": 2}, {"a": float("nan")}]:
        with pytest.raises(ValueError, match="configuration 1"):
            rows_of(data)


def test_states_are_outcomes():
    cases = [
        ({"state": "TIMEOUT"}, "timeout", "TIMEOUT"),
        ({"state": "ERROR", "time": 1.0}, "crashed", "ERROR"),
        ({"time": float("inf")}, "crashed", "inf"),
        ({"time": 0.0}, "crashed", "0.0"),
        ({}, "crashed", "None"),
    ]
    for cells, outcome, fact in cases:
        (row,) = rows_of({}, result=cells)["measurements"]
        assert row["outcome"] == outcome
        assert row["message"].endswith(fact)


def test_other_objectives_are_observations():
    cells = {"time": 2, "accuracy": 0.5, "size": float("inf")}
    (found,) = rows_of({}, result=cells)["measurements"]
    assert (found["samples_s"], found["observed"]) == ((2.0,), {"accuracy": 0.5})


def test_features_of_an_input():
    cases = [
        ({}, 64, {"size": 64}),
        ({}, -1, {"input": "fixed"}),
        ({"path": "a.c"}, -1, {"path": "a.c"}),
        ({"path": '{"m": 16, "x": 0.5, "is_big": true}'}, -1, {"m": 16, "x": 0.5, "is_big": True}),
        ({"path": '{"m": [1]}'}, -1, {"path": '{"m": [1]}'}),
        ({"path": "[1]"}, -1, {"path": "[1]"}),
        ({"path": '{"m":16,"shape":"tall"}'}, -1, {"m": 16, "shape": "tall"}),
        ({"path": "[" * 10**5}, -1, {"path": "[" * 10**5}),
        ({"extra": pickle.dumps({"m": 3, "x": [1]}, 2)}, None, {"m": 3}),
        ({"extra": pickle.dumps(7, 2)}, 5, {"size": 5, "extra": 7}),
    ]
    for problem, size, expected in cases:
        (row,) = rows_of({}, problem=problem, size=size)["inputs"]
        assert row["features"] == expected


def test_parameters_are_described_by_their_values():
    cases = [
        ([3, 1, 2, 1], "ordered", [1, 2, 3]),
        ([True, False], "boolean", [False, True]),
        (["b", "a"], "enum", ["a", "b"]),
        ([16, None, 8], "enum", [None, 8, 16]),
    ]
    for values, kind, ordered in cases:
        (space,) = rows_of(*({"p": value} for value in values))["spaces"]
        found = space["parameters"]["p"]
        assert (found["kind"], found["default"], found["values"]) == (kind, values[0], ordered)
