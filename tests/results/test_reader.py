"""Rows that no harness writes are refused, each for what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Table, create_engine

from harness.core.records import Config, Environment, Input
from harness.results import schema
from harness.results.read import check_measurements
from harness.results.reader import read_cells

DIGEST, UUID = "ab" * 32, "cd" * 16
ENVIRONMENT = {
    "backend": "opencl", "device": "d", "platform": "p", "driver": "1", "compiler": "c",
    "cache": "warm"
}  # fmt: skip
GOOD: dict[Table, dict[str, Any]] = {
    schema.environments: {**ENVIRONMENT, "fingerprint": Environment(**ENVIRONMENT).fingerprint},
    schema.spaces: {
        "sha256": DIGEST,
        "program_sha256": DIGEST,
        "name": "mvmul",
        "title": "",
        "parameters": {"BLOCK": {"kind": "enum", "role": "launch", "default": 1, "values": [1]}},
        "constraints": [],
    },
    schema.inputs: {"space_name": "mvmul", "digest": Input({"n": 8}).digest, "features": {"n": 8}},
    schema.configurations: {"digest": Config({"A": 1}).digest, "parameters": {"A": 1}},
    schema.commands: {
        "uuid": UUID,
        "space_id": 1,
        "environment_id": 1,
        "campaign": 1,
        "started_at": "2026-01-31",
        "ended_at": None,
        "inputs": [{"n": 8}],
        "left_out": [],
        "stages": {},
        "arguments": ["space.yaml"],
    },
    schema.runs: {
        "uuid": UUID,
        "tuning_run_id": None,
        "space_id": 1,
        "environment_id": 1,
        "input_id": 1,
        "campaign": 1,
        "label": "",
        "technique": "auto",
        "seed": 0,
        "parallelism": 1,
        "test_limit": 5,
        "state": "complete",
        "started_at": "2026-01-31",
        "ended_at": None,
        "harness_version": "1",
        "seeds": [],
        "notes": {},
    },
    schema.builds: {
        "environment_id": 1,
        "key": DIGEST,
        "configuration_id": 1,
        "options": "",
        "compiler": "c",
        "compile_s": 0.5,
        "binary_sha256": None,
        "registers": None,
        "shared_bytes": 0,
        "spill_bytes": None,
        "log": "",
    },
    schema.measurements: {
        "uuid": UUID,
        "run_id": 1,
        "input_id": 1,
        "configuration_id": 1,
        "build_id": None,
        "stage": "search",
        "outcome": "ok",
        "samples_s": [1.0, 2.0, 4.0],
        "median_s": 2.0,
        "mean_s": 2.0,
        "std_s": 1.0,
        "sample_count": 3,
        "stopped": "repeats",
        "message": "",
        "worst_element": None,
        "warmup_s": [1.0],
        "observed": {"occupancy": 0.5},
        "wall_s": 1.0,
        "measured_at": "2026-01-31",
        "group_uuid": None,
        "host_read": None,
        "shared_with": None,
        "occasions": None,
    },
}
FAILED = {
    "outcome": "timeout",
    "message": "late",
    "samples_s": [],
    **dict.fromkeys(("median_s", "mean_s", "std_s", "sample_count", "stopped")),
}
WORST = {
    "argument": "y", "index": [1], "found": "nan", "expected": 1, "tolerance": 0.5,
    "wrong_count": 1, "count": 4,
}  # fmt: skip
WRONG = {**FAILED, "outcome": "wrong_result", "worst_element": WORST}


def check(table: Table, **changes: Any) -> None:
    """Read a row that harness may have written, with these changes, behind one without."""
    good = {"id": 4, **GOOD[table]}
    rows = [good, {**good, "id": 5, **changes}]
    with create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table.name} ({', '.join(good)})")
        for row in rows:
            cells = (json.dumps(c) if isinstance(c, (dict, list)) else c for c in row.values())
            places = ", ".join("?" * len(row))
            connection.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({places})", tuple(cells))
        for found in read_cells(connection, table.columns):
            if table is schema.measurements:
                check_measurements(found)


@pytest.mark.parametrize("table", GOOD, ids=lambda table: table.name)
def test_a_row_of_harness_is_accepted(table: Table) -> None:
    check(table)
    assert set(GOOD[table]) | {"id"} == set(table.c.keys())


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (schema.measurements, FAILED),
        (schema.measurements, WRONG),
        (schema.measurements, {**FAILED, "shared_with": DIGEST, "outcome": "wrong_result"}),
        (schema.measurements, {"host_read": ["A"], "warmup_s": [0, 1.5]}),
        (schema.measurements, {"stage": "final", "group_uuid": "it"}),
        (schema.builds, {"registers": 3, "binary_sha256": DIGEST}),
        (schema.runs, {"state": "interrupted", "ended_at": "2026-02-01"}),
        (schema.spaces, {"name": "n" * 128}),
    ],
)
def test_what_harness_may_write_is_accepted(table: Table, changes: dict[str, Any]) -> None:
    check(table, **changes)


@pytest.mark.parametrize(
    ("table", "changes", "reason"),
    [
        (schema.spaces, {"name": None}, "spaces 5: name is None"),
        (schema.spaces, {"name": 3}, "spaces 5: name is 3"),
        (schema.spaces, {"title": b"it"}, "spaces 5: title is b'it'"),
        (schema.spaces, {"constraints": "A > 1"}, "constraints is 'A > 1'"),
        (schema.spaces, {"sha256": "AB" * 32}, "spaces 5: sha256 is 'ABAB"),
        (schema.spaces, {"program_sha256": "ab" * 31}, "program_sha256 is 'abab"),
        (schema.spaces, {"parameters": {"A": {"default": 1, "role": 2}}}, "parameters is"),
        (schema.spaces, {"parameters": [1]}, "Input should be an object"),
        (schema.builds, {"compile_s": float("inf")}, "compile_s is inf"),
        (schema.builds, {"registers": 3.0}, "registers is 3.0"),
        (schema.environments, {"cache": "hot"}, "environments 5: cache is 'hot'"),
        (schema.inputs, {"features": [8]}, "inputs 5: "),
        (schema.configurations, {"parameters": {"A": float("nan")}}, "configurations 5: "),
        (schema.commands, {"stages": {"final": 3}}, "commands 5: "),
        (schema.runs, {"state": "done"}, "runs 5: state is 'done'"),
        (schema.runs, {"notes": {"facts": {"host": 3}}}, "facts: host: Input should be"),
        (schema.measurements, {"stage": "it"}, "measurements 5: stage is 'it'"),
        (schema.measurements, {"warmup_s": ["1"]}, "warmup_s is"),
        (schema.measurements, {"warmup_s": [1, float("nan")]}, "warmup_s is"),
        (schema.measurements, {"host_read": [1]}, r"host_read is '\[1\]'"),
        (schema.measurements, {**FAILED, "message": ""}, "needs a message"),
        (schema.measurements, {**FAILED, "shared_with": DIGEST}, "is never shared"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "argument": 1}}, "worst_elem"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "found": []}}, "worst_elem"),
    ],
)
def test_what_harness_cannot_have_written_is_refused(
    table: Table, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        check(table, **changes)


@pytest.mark.parametrize(("length", "text"), [(58, "x" * 58 + "' "), (59, "x" * 59 + r"\.\.\. ")])
def test_a_long_value_is_shortened(length: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check(schema.builds, registers="x" * length)


# ---------------------------------------------------------------------------- samples

SAMPLES_S = [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({**FAILED, "samples_s": SAMPLES_S}, "its outcome is timeout, with 3 samples"),
        ({"samples_s": []}, "its outcome is ok, with 0 samples"),
        ({"stopped": None}, "its outcome is ok"),
        ({"samples_s": [1.0, -2.0]}, "1: Input should be greater than 0"),
        ({"samples_s": [1.0, "2.0"]}, "1: Input should be a valid number"),
        ({"samples_s": [float("nan")]}, "0: Input should be a finite number"),
        ({"occasions": [1, 1]}, "its occasions are"),
        ({"occasions": [3, 0]}, "its occasions are"),
        ({"occasions": [1, 2.0]}, "occasions is"),
        ({"observed": {"occupancy": None}}, "occupancy: Input should be a valid number"),
    ],
)
def test_numbers_that_make_no_record_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"measurements 5: .*{reason}"):
        check(schema.measurements, **changes)


def test_samples_of_occasions_are_accepted() -> None:
    check(schema.measurements, occasions=[1, 2])
