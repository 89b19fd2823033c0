"""Rows that no harness writes are refused, each for what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from harness.results import schema
from harness.results.read import check_measurements
from harness.results.reader import read_cells

DATA = Path(__file__).parents[1] / "data"
DIGEST = "ab" * 32
GOOD: dict[str, dict[str, Any]] = json.loads((DATA / "good_rows.json").read_text())
"""A row that harness may have written, by the name of its table."""
FAILED = {"outcome": "timeout", "message": "late", "samples_s": [], "stopped": None}
WORST = {
    "argument": "y", "index": [1], "found": "nan", "expected": 1, "tolerance": 0.5,
    "wrong_count": 1, "count": 4,
}  # fmt: skip
WRONG = {**FAILED, "outcome": "wrong_result", "worst_element": WORST}


def check(table, **changes):
    """Read a row that harness may have written, with these changes, behind one without."""
    good = {"id": 4, **GOOD[table.name]}
    rows = [good, {**good, "id": 5, **changes}]
    with create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table.name} ({', '.join(good)})")
        for row in rows:
            cells = (json.dumps(c) if isinstance(c, (dict, list)) else c for c in row.values())
            places = ", ".join("?" * len(row))
            connection.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({places})", tuple(cells))
        for found in read_cells(connection, table.columns):
            if table is schema.measurements:
                states = [schema.STATES.get(o, schema.FAILED)[0] for o in found["outcome"]]
                check_measurements({**found, "state": states, "time": [2.0, 2.0]})


@pytest.mark.parametrize("name", GOOD)
def test_a_row_of_harness_is_accepted(name):
    table = schema.metadata.tables[name]
    check(table)
    assert set(GOOD[table.name]) | {"id"} == set(table.c.keys())


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (schema.measurements, FAILED),
        (schema.measurements, WRONG),
        (schema.measurements, {**FAILED, "shared_with": DIGEST, "outcome": "wrong_result"}),
        (schema.measurements, {"host_read": ["A"], "warmup_s": [0, 1.5]}),
        (schema.measurements, {"stage": "final", "group_uuid": "it"}),
        (schema.builds, {"registers": 3, "binary_sha256": DIGEST}),
        (schema.runs, {"notes": {"exhausted": True}}),
        (schema.spaces, {"name": "n" * 128}),
        (schema.measurements, {"occasions": [1, 2]}),
    ],
)
def test_what_harness_may_write_is_accepted(table, changes):
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
        (schema.runs, {"campaign": "first"}, "runs 5: campaign is 'first'"),
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
def test_what_harness_cannot_have_written_is_refused(table, changes, reason):
    with pytest.raises(ValueError, match=reason):
        check(table, **changes)


@pytest.mark.parametrize(("length", "text"), [(58, "x" * 58 + "' "), (59, "x" * 59 + r"\.\.\. ")])
def test_a_long_value_is_shortened(length, text):
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
def test_numbers_that_make_no_record_are_refused(changes, reason):
    with pytest.raises(ValueError, match=f"measurements 5: .*{reason}"):
        check(schema.measurements, **changes)
