"""Rows that no harness writes are refused, each for what is wrong with it."""

import json

import pytest
from sqlalchemy import create_engine

from harness.results import schema
from harness.results.read import check_measurements
from harness.results.reader import read_cells
from tests import DATA

DIGEST = "ab" * 32
GOOD = json.loads((DATA / "good_rows.json").read_text())
"""A row that harness may have written, by the name of its table."""
FAILED = {"outcome": "timeout", "message": "late", "samples_s": [], "stopped": None}
WORST = {
    "argument": "y", "index": [1], "found": "nan", "expected": 1, "tolerance": 0.5,
    "wrong_count": 1, "count": 4,
}  # fmt: skip
WRONG = {**FAILED, "outcome": "wrong_result", "worst_element": WORST}


def check(name, changes):
    """Read a row that harness may have written, with these changes, behind one without."""
    table, good = schema.metadata.tables[name], {"id": 4, **GOOD[name]}
    rows = [good, {**good, "id": 5, **changes}]
    with create_engine("sqlite://").connect() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {name} ({', '.join(good)})")
        for row in rows:
            cells = (json.dumps(c) if isinstance(c, (dict, list)) else c for c in row.values())
            places = ", ".join("?" * len(row))
            connection.exec_driver_sql(f"INSERT INTO {name} VALUES ({places})", tuple(cells))
        for found in read_cells(connection, table.columns):
            if table is schema.measurements:
                states = [schema.STATES.get(o, schema.FAILED)[0] for o in found["outcome"]]
                check_measurements({**found, "state": states, "time": [2.0, 2.0]})


def test_a_row_of_harness_is_accepted():
    for name in GOOD:
        check(name, {})
        assert {"id", *GOOD[name]} == {*schema.metadata.tables[name].c.keys()}


def test_what_harness_may_write_is_accepted():
    cases = [
        ("measurements", FAILED),
        ("measurements", WRONG),
        ("measurements", {**FAILED, "shared_with": DIGEST, "outcome": "wrong_result"}),
        ("measurements", {"host_read": ["A"], "warmup_s": [0, 1.5]}),
        ("measurements", {"stage": "final", "group_uuid": "it"}),
        ("builds", {"registers": 3, "binary_sha256": DIGEST}),
        ("runs", {"notes": {"exhausted": True}}),
        ("spaces", {"name": "n" * 128}),
        ("measurements", {"occasions": [1, 2]}),
    ]
    for name, changes in cases:
        check(name, changes)


def test_what_harness_cannot_have_written_is_refused():
    cases = [
        ("spaces", {"name": None}, "spaces 5: name is None"),
        ("spaces", {"name": 3}, "spaces 5: name is 3"),
        ("spaces", {"title": b"it"}, "spaces 5: title is b'it'"),
        ("spaces", {"constraints": "A > 1"}, "constraints is 'A > 1'"),
        ("spaces", {"sha256": "AB" * 32}, "spaces 5: sha256 is 'ABAB"),
        ("spaces", {"program_sha256": "ab" * 31}, "program_sha256 is 'abab"),
        ("spaces", {"parameters": {"A": {"default": 1, "role": 2}}}, "parameters is"),
        ("spaces", {"parameters": [1]}, "Input should be an object"),
        ("builds", {"compile_s": float("inf")}, "compile_s is inf"),
        ("builds", {"registers": 3.0}, "registers is 3.0"),
        ("environments", {"cache": "hot"}, "environments 5: cache is 'hot'"),
        ("inputs", {"features": [8]}, "inputs 5: "),
        ("configurations", {"parameters": {"A": float("nan")}}, "configurations 5: "),
        ("commands", {"stages": {"final": 3}}, "commands 5: "),
        ("runs", {"campaign": "first"}, "runs 5: campaign is 'first'"),
        ("runs", {"notes": {"facts": {"host": 3}}}, "facts: host: Input should be"),
        ("measurements", {"stage": "it"}, "measurements 5: stage is 'it'"),
        ("measurements", {"warmup_s": ["1"]}, "warmup_s is"),
        ("measurements", {"warmup_s": [1, float("nan")]}, "warmup_s is"),
        ("measurements", {"host_read": [1]}, r"host_read is '\[1\]'"),
        ("measurements", {**FAILED, "message": ""}, "needs a message"),
        ("measurements", {**FAILED, "shared_with": DIGEST}, "is never shared"),
        ("measurements", {**WRONG, "worst_element": {**WORST, "argument": 1}}, "worst_elem"),
        ("measurements", {**WRONG, "worst_element": {**WORST, "found": []}}, "worst_elem"),
    ]
    for name, changes, reason in cases:
        with pytest.raises(ValueError, match=reason):
            check(name, changes)


def test_a_long_value_is_shortened():
    for length, text in [(58, "x" * 58 + "' "), (59, "x" * 59 + r"\.\.\. ")]:
        with pytest.raises(ValueError, match=text):
            check("builds", {"registers": "x" * length})


# ---------------------------------------------------------------------------- samples

SAMPLES_S = [1.0, 2.0, 4.0]


def test_numbers_that_make_no_record_are_refused():
    cases = [
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
    ]
    for changes, reason in cases:
        with pytest.raises(ValueError, match=f"measurements 5: .*{reason}"):
            check("measurements", changes)
