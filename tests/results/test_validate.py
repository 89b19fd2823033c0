"""Rows that no harness writes are refused, each for what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Table

from harness.core.records import Config, Environment, Input
from harness.results import schema
from harness.results.validate import check_rows, check_samples
from harness.stats.samples import Ragged

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


def check(table: Table, **changes: Any) -> None:
    """Check a row that harness may have written, with these changes, behind one without."""
    good = {"id": 4, **GOOD[table]}
    changed = {**good, "id": 5, **changes}
    check_rows(table, {name: [good[name], changed[name]] for name in good})


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
        (schema.measurements, {"stage": "final", "turn": "it"}),
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
        (schema.environments, {"cache": "hot"}, "environments 5: cache is 'hot'"),
        (schema.environments, {"fingerprint": "it"}, "environments 5: fingerprint is 'it'"),
        (schema.inputs, {"features": [8]}, "inputs 5: "),
        (schema.configurations, {"parameters": {"A": [1]}}, "configurations 5: "),
        (schema.configurations, {"parameters": {"A": float("nan")}}, "configurations 5: "),
        (schema.commands, {"uuid": DIGEST}, "commands 5: uuid is"),
        (schema.commands, {"stages": {"final": 3}}, "commands 5: "),
        (schema.runs, {"uuid": "it"}, "runs 5: uuid is 'it'"),
        (schema.runs, {"state": "done"}, "runs 5: state is 'done'"),
        (schema.runs, {"notes": {"host": 3}}, "its note 'host' is no text"),
        (schema.runs, {"notes": ODD_NOTE}, "KeyError"),
        (schema.measurements, {"uuid": "it"}, "measurements 5: uuid is 'it'"),
        (schema.measurements, {"stage": "it"}, "measurements 5: stage is 'it'"),
        (schema.measurements, {"outcome": "it"}, "measurements 5: outcome is 'it'"),
        (schema.measurements, {"stopped": "it"}, "measurements 5: stopped is 'it'"),
        (schema.measurements, {"warmup_s": {}}, "warmup_s is {}"),
        (schema.measurements, {"warmup_s": ["1"]}, "warmup_s is"),
        (schema.measurements, {"warmup_s": [1, float("nan")]}, "warmup_s is"),
        (schema.measurements, {"host_read": [1]}, r"host_read is \[1\]"),
        (schema.measurements, {"shared_with": "it"}, "shared_with is 'it'"),
        (schema.measurements, {**FAILED, "message": ""}, "needs a message"),
        (schema.measurements, {**FAILED, "shared_with": DIGEST}, "is never shared"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "count": 4.0}}, "worst_element"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "index": ["1"]}}, "worst_elem"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "argument": 1}}, "worst_elem"),
        (schema.measurements, {**WRONG, "worst_element": {**WORST, "found": []}}, "is no number"),
    ],
)
def test_what_harness_cannot_have_written_is_refused(
    table: Table, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        check(table, **changes)


@pytest.mark.parametrize(("length", "text"), [(58, "x" * 58 + "'$"), (59, "x" * 59 + r"\.\.\.$")])
def test_a_long_value_is_shortened(length: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check(schema.builds, registers="x" * length)


# ---------------------------------------------------------------------------- samples

SAMPLES_S = (1.0, 2.0, 4.0)


def check_numbers(changes: dict[str, Any], samples_s: Sequence[float]) -> None:
    """Check a changed measurement with these samples, behind one with others."""
    good = {"id": 4, **GOOD[schema.measurements]}
    changed = {**good, "id": 5, **changes}
    cells = {name: [good[name], changed[name]] for name in good}
    check_samples(cells, Ragged.of([*SAMPLES_S, *samples_s], [len(SAMPLES_S), len(samples_s)]))


def test_samples_that_fit_are_accepted() -> None:
    check_numbers({}, SAMPLES_S)
    check_numbers({"occasions": [1, 2]}, SAMPLES_S)
    check_numbers(FAILED, ())


@pytest.mark.parametrize(
    ("changes", "samples_s", "reason"),
    [
        (FAILED, SAMPLES_S, "samples although its outcome is timeout"),
        ({}, (), "needs one sample"),
        ({"stopped": None}, SAMPLES_S, "is not a valid StopReason"),
        ({}, (1.0, -2.0), "must be finite and above 0 s"),
        ({}, (float("nan"),), "must be finite and above 0 s"),
        ({"occasions": [1, 1]}, SAMPLES_S, "occasions must hold 3 samples"),
        ({"occasions": [1, 2.0]}, SAMPLES_S, "occasions is"),
        ({"occasions": {}}, SAMPLES_S, "occasions is {}"),
    ],
)
def test_samples_of_which_no_timing_can_be_made_are_refused(
    changes: dict[str, Any], samples_s: tuple[float, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=f"measurement 5: .*{reason}"):
        check_numbers(changes, samples_s)
