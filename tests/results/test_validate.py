"""Rows that no harness writes are refused, each for what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Table

from harness.core.records import Config, Environment, Input
from harness.results import schema
from harness.results.checksums import numbers_checksum, row_checksum
from harness.results.validate import check_numbers, check_row

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
    schema.inputs: {
        "space_name": "mvmul",
        "digest": Input({"n": 8}).digest,
        "features": {"n": 8},
    },
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
        "median_s": 2.0,
        "mean_s": 2.0,
        "std_s": 1.0,
        "sample_count": 3,
        "stopped": "repeats",
        "message": "",
        "worst_element": None,
        "warmup_s": [1.0],
        "wall_s": 1.0,
        "measured_at": "2026-01-31",
        "turn": None,
        "host_read": None,
        "shared_with": None,
        "occasions": None,
        "numbers_checksum": None,
    },
}
FAILED = {
    "outcome": "timeout",
    "message": "late",
    **dict.fromkeys(("median_s", "mean_s", "std_s", "sample_count", "stopped")),
}
WORST = {
    "argument": "y", "index": [1], "found": "nan", "expected": 1, "tolerance": 0.5,
    "wrong_count": 1, "count": 4,
}  # fmt: skip
WRONG = {**FAILED, "outcome": "wrong_result", "worst_element": WORST}
ODD_NOTE = {"reduced": json.dumps({"winner": {}})}


def row_of(table: Table, **changes: Any) -> dict[str, Any]:
    """A row that harness may have written, with these changes, and no checksum."""
    row = {"id": 5, **GOOD[table], **changes}
    return {**row, "checksum": None} if "checksum" in table.c else row


@pytest.mark.parametrize("table", GOOD, ids=lambda table: table.name)
def test_a_row_of_harness_is_accepted_with_and_without_its_checksum(table: Table) -> None:
    row = row_of(table)
    check_row(table, row)
    if "checksum" in table.c:
        check_row(table, {**row, "checksum": row_checksum(table, row)})
        with pytest.raises(ValueError, match=f"{table.name} 5: its values do not have their check"):
            check_row(table, {**row, "checksum": (row_checksum(table, row) or 0) + 1})


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (schema.measurements, FAILED),
        (schema.measurements, WRONG),
        (schema.measurements, {**FAILED, "shared_with": DIGEST, "outcome": "wrong_result"}),
        (schema.measurements, {"host_read": ["A"], "warmup_s": [0, 1.5]}),
        (schema.measurements, {"stage": "final", "turn": "it"}),
        (schema.builds, {"registers": 3, "binary_sha256": DIGEST}),
        (schema.runs, {"state": "interrupted", "ended_at": "2026-02-01"}),
        (schema.spaces, {"name": "n" * 128}),
    ],
)
def test_what_harness_may_write_is_accepted(table: Table, changes: dict[str, Any]) -> None:
    check_row(table, row_of(table, **changes))


@pytest.mark.parametrize(
    ("table", "changes", "reason"),
    [
        (schema.spaces, {"name": "n" * 129}, "spaces 5: name is 'n"),
        (schema.spaces, {"name": None}, "spaces 5: name is None"),
        (schema.spaces, {"name": 3}, "spaces 5: name is 3"),
        (schema.spaces, {"title": b"it"}, "spaces 5: title is b'it'"),
        (schema.spaces, {"constraints": "A > 1"}, "constraints is 'A > 1'"),
        (schema.spaces, {"constraints": None}, "constraints is None"),
        (schema.spaces, {"sha256": "AB" * 32}, "spaces 5: sha256 is 'ABAB"),
        (schema.spaces, {"program_sha256": "ab" * 31}, "program_sha256 is 'abab"),
        (schema.spaces, {"parameters": {"A": {"default": 1, "role": 2}}}, "the role of A is 2"),
        (schema.spaces, {"parameters": {"A": {"role": "source"}}}, r"KeyError\('default'\)"),
        (schema.spaces, {"parameters": [1]}, "AttributeError"),
        (schema.builds, {"compile_s": 1}, "builds 5: compile_s is 1"),
        (schema.builds, {"compile_s": float("inf")}, "compile_s is inf"),
        (schema.builds, {"compile_s": None}, "compile_s is None"),
        (schema.builds, {"registers": 3.0}, "registers is 3.0"),
        (schema.builds, {"registers": True}, "registers is True"),
        (schema.builds, {"configuration_id": None}, "configuration_id is None"),
        (schema.builds, {"key": "it"}, "builds 5: key is 'it'"),
        (schema.environments, {"device": "other"}, "its fingerprint is .* but its values have"),
        (schema.inputs, {"features": {"n": 9}}, "inputs 5: its digest is"),
        (schema.inputs, {"features": [8]}, r"\[8\] is not an object"),
        (schema.configurations, {"parameters": {"A": 1.0}}, "configurations 5: its digest is"),
        (schema.commands, {"uuid": DIGEST}, "commands 5: uuid is"),
        (schema.commands, {"stages": {"final": 3}}, "commands 5: "),
        (schema.runs, {"uuid": "it"}, "runs 5: uuid is 'it'"),
        (schema.runs, {"state": "done"}, "state is 'done'; there are running, complete, interr"),
        (schema.runs, {"notes": {"host": 3}}, "its note 'host' is no text"),
        (schema.runs, {"notes": ODD_NOTE}, "KeyError"),
        (schema.measurements, {"uuid": "it"}, "measurements 5: uuid is 'it'"),
        (schema.measurements, {"stage": "it"}, "stage is 'it'; there are search, cross"),
        (schema.measurements, {"outcome": "it"}, "'it' is not a valid Outcome"),
        (schema.measurements, {"warmup_s": {}}, "warmup_s is {}"),
        (schema.measurements, {"warmup_s": ["1"]}, "warmup_s is"),
        (schema.measurements, {"warmup_s": [1, float("nan")]}, "warmup_s is"),
        (schema.measurements, {"host_read": [1]}, r"host_read is \[1\]"),
        (schema.measurements, {"shared_with": "it"}, "shared_with is 'it'"),
        (schema.measurements, {**FAILED, "message": ""}, "needs a message"),
        (schema.measurements, {**FAILED, "shared_with": DIGEST}, "is never shared"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "count": 4.0}}, "worst_element"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "index": ["1"]}}, "worst_elem"),
        (
            schema.measurements,
            {**WRONG, "worst_element": {**WORST, "argument": 1}},
            "worst_element",
        ),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "found": []}}, "is no number"),
    ],
)
def test_what_harness_cannot_have_written_is_refused(
    table: Table, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        check_row(table, row_of(table, **changes))


@pytest.mark.parametrize(("length", "text"), [(58, "x" * 58 + "'$"), (59, "x" * 59 + r"\.\.\.$")])
def test_a_long_value_is_shortened(length: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_row(schema.builds, row_of(schema.builds, registers="x" * length))


# ---------------------------------------------------------------------------- samples

SAMPLES_S = (1.0, 2.0, 4.0)


def measured(**changes: Any) -> dict[str, Any]:
    return row_of(schema.measurements, **changes)


def test_a_median_follows_from_its_samples() -> None:
    check_numbers(measured(), SAMPLES_S, {})
    check_numbers(measured(median_s=2.0 * (1 + 0.9e-9)), SAMPLES_S, {})
    check_numbers(measured(**FAILED), (), {})


@pytest.mark.parametrize(
    ("row", "samples_s", "reason"),
    [
        (measured(median_s=2.0 * (1 + 1.4e-9)), SAMPLES_S, "its median and number of samples are"),
        (measured(sample_count=4), SAMPLES_S, "its median and number of samples are"),
        (measured(sample_count=4, median_s=2.0 + 1e-12), SAMPLES_S, "its median and number"),
        (measured(median_s=None), SAMPLES_S, "its median and number of samples are"),
        (measured(**{**FAILED, "median_s": 2.0}), (), "its median and number of samples are"),
        (measured(**FAILED), SAMPLES_S, "samples although its outcome is timeout"),
        (measured(), (), "needs one sample"),
        (measured(stopped="it"), SAMPLES_S, "StopReason"),
        (measured(occasions=[1, 1]), SAMPLES_S, "occasions must hold 3 samples"),
    ],
)
def test_numbers_that_contradict_their_samples_are_refused(
    row: dict[str, Any], samples_s: tuple[float, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=f"measurement 5: .*{reason}"):
        check_numbers(row, samples_s, {})


def test_numbers_have_their_checksum() -> None:
    row = measured(numbers_checksum=numbers_checksum(SAMPLES_S, {"registers": 3.0}))
    check_numbers(row, SAMPLES_S, {"registers": 3.0})
    for observed in ({}, {"registers": 4.0}):
        with pytest.raises(ValueError, match="measurement 5: its samples do not have their check"):
            check_numbers(row, SAMPLES_S, observed)
