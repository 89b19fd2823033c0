"""Check that the rows of a database are such as harness writes; it may come from anywhere."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import isclose, isfinite
from typing import Any, TypeVar

from sqlalchemy import JSON, Column, Float, Integer, String, Table

from harness.core.records import COLD, WARM, Config, Input, Measurement, Outcome, Value
from harness.core.worst_element import WorstElement
from harness.results import schema
from harness.results.ablation import Ablation
from harness.results.cells import STAGES, names_read, timing_of, worst_element_of
from harness.results.checksums import CHECKSUM, NUMBERS_CHECKSUM, numbers_checksum, row_checksum
from harness.results.notes import ABLATION, read_notes
from harness.results.rows import environment_of
from harness.results.sessions import command_of

RUN_STATES = ("running", "complete", "interrupted")
DIGEST = re.compile(r"[0-9a-f]{64}")
UUID = re.compile(r"[0-9a-f]{32}")
_ROUNDING = 1e-9


Row = Mapping[str, Any]
T = TypeVar("T")


def check_row(table: Table, row: Row) -> None:
    """Raise ValueError, TypeError, KeyError or AttributeError for a row that harness cannot have
    written: a cell that has not its column's type (SQLite enforces none), a digest of other values,
    an unknown word, another checksum. A row needs all columns of its table."""
    for name, fits in _fits(table):
        if not fits(row[name]):
            shown = repr(row[name])
            short = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise ValueError(f"{table.name} {row['id']!r}: {name} is {short}")
    _check_meaning(table, row)
    expected = row.get(CHECKSUM)
    if expected is not None and row_checksum(table, row) != expected:
        raise ValueError(f"{table.name} {row['id']}: its values do not have their checksum")


def referred(table: Table, rows: Mapping[int, T], row_id: int) -> T:
    """Return what was read of the row that another one refers to; raises ValueError where it is
    missing."""
    if row_id not in rows:
        raise ValueError(f"a row refers to row {row_id} of {table.name}, which is missing")
    return rows[row_id]


@cache
def _fits(table: Table) -> list[tuple[str, Callable[[Any], bool]]]:
    """Return for each column whether a value fits it."""
    return [(column.name, _check_of(column)) for column in table.columns]


def _check_of(column: Column[Any]) -> Callable[[Any], bool]:
    kind, may_be_null = column.type, bool(column.nullable)
    if isinstance(kind, String):
        most = kind.length or sys.maxsize
        return lambda v: (type(v) is str and len(v) <= most) or (v is None and may_be_null)
    if isinstance(kind, Float):
        return lambda v: (type(v) is float and isfinite(v)) or (v is None and may_be_null)
    if isinstance(kind, Integer):
        return lambda v: type(v) is int or (v is None and may_be_null)
    assert isinstance(kind, JSON)
    return lambda v: isinstance(v, (dict, list)) or (v is None and may_be_null)


def _check_meaning(table: Table, row: Row) -> None:
    """Raise ValueError where a row contradicts itself or holds an unknown word: a digest of other
    values, an unknown outcome."""
    check = _CHECKS.get(table.name)
    try:
        if check is not None:
            check(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"{table.name} {row['id']}: {reason}") from None


def check_numbers(row: Row, samples_s: Sequence[float], observed: Mapping[str, float]) -> None:
    """Raise ValueError where a measurement's median or count does not follow from its samples, or
    where these or its observations are not those that were written."""
    _check_timing(row, samples_s)
    expected = row[NUMBERS_CHECKSUM]
    if expected is not None and numbers_checksum(samples_s, observed) != expected:
        raise ValueError(f"measurement {row['id']}: its samples do not have their checksum")


def _check_timing(row: Row, samples_s: Sequence[float]) -> None:
    try:
        timing = timing_of(row, samples_s)
    except ValueError as error:
        raise ValueError(f"measurement {row['id']}: {error}") from None
    expected = (timing.median_s, timing.count) if timing else (None, None)
    found = (row["median_s"], row["sample_count"])
    agrees = found == expected or (
        timing is not None
        and row["median_s"] is not None
        and row["sample_count"] == timing.count
        and isclose(row["median_s"], timing.median_s, rel_tol=_ROUNDING)
    )
    if not agrees:
        raise ValueError(
            f"measurement {row['id']}: its median and number of samples are {found}, but its "
            f"samples have {expected}"
        )


# ------------------------------------------------------------ one check a table


def _check_environment(row: Row) -> None:
    environment = environment_of(row)
    if environment.cache not in (WARM, COLD):
        raise ValueError(f"cache is {environment.cache!r}; it must be {WARM} or {COLD}")
    _same("fingerprint", row["fingerprint"], environment.fingerprint)


def _check_space(row: Row) -> None:
    _must_match(DIGEST, row, "sha256")
    _must_match(DIGEST, row, "program_sha256")
    _must_be_json("parameters", row["parameters"])
    for name, parameter in row["parameters"].items():
        Config({name: parameter["default"]})
        if not isinstance(parameter["role"], str):
            raise ValueError(f"the role of {name} is {parameter['role']!r}")


def _check_input(row: Row) -> None:
    _same("digest", row["digest"], Input(_plain(row["features"])).digest)


def _check_configuration(row: Row) -> None:
    _same("digest", row["digest"], Config(_plain(row["parameters"])).digest)


def _check_command(row: Row) -> None:
    _must_match(UUID, row, "uuid")
    command_of(row)


def _check_run(row: Row) -> None:
    _must_match(UUID, row, "uuid")
    _must_be_one_of(RUN_STATES, row, "state")
    for seed in row["seeds"]:
        Config(_plain(seed))
    notes = read_notes(row["notes"])
    if ABLATION in notes:
        Ablation.from_json(notes[ABLATION])


def _check_build(row: Row) -> None:
    _must_match(DIGEST, row, "key")


def _check_measurement(row: Row) -> None:
    _must_match(UUID, row, "uuid")
    _must_be_one_of(STAGES, row, "stage")
    _check_warmup(row["warmup_s"])
    outcome, shared_with = Outcome(row["outcome"]), row["shared_with"]
    if outcome is not Outcome.OK:
        message = row["message"]
        Measurement(Config({}), Input({}), outcome, message=message, shared_with=shared_with)
    if shared_with is not None:
        _must_match(DIGEST, row, "shared_with")
    names_read(row)
    worst = worst_element_of(row)
    if worst is not None and not _is_sound(worst):
        raise ValueError(f"worst_element is {row['worst_element']!r}")


def _check_warmup(times_s: object) -> None:
    if not isinstance(times_s, list) or not all(
        isinstance(t, (int, float)) and isfinite(t) for t in times_s
    ):
        raise ValueError(f"warmup_s is {times_s!r}")


def _is_sound(worst: WorstElement) -> bool:
    whole = (*worst.index, worst.wrong_count, worst.count)
    return isinstance(worst.argument, str) and all(type(number) is int for number in whole)


_CHECKS: Mapping[str, Callable[[Row], None]] = {
    schema.environments.name: _check_environment,
    schema.spaces.name: _check_space,
    schema.inputs.name: _check_input,
    schema.configurations.name: _check_configuration,
    schema.commands.name: _check_command,
    schema.runs.name: _check_run,
    schema.builds.name: _check_build,
    schema.measurements.name: _check_measurement,
}


def _plain(values: object) -> Mapping[str, Value]:
    if not isinstance(values, dict):
        raise ValueError(f"{values!r} is not an object")
    return values


def _must_be_json(name: str, value: object) -> None:
    """Refuse the infinities that JSON text such as 1e999 becomes, which cannot be written again."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{name} cannot be written as JSON: {error}") from None


def _same(name: str, found: str, computed: str) -> None:
    if found != computed:
        raise ValueError(f"its {name} is {found}, but its values have {computed}")


def _must_match(pattern: re.Pattern[str], row: Row, name: str) -> None:
    if not pattern.fullmatch(row[name]):
        raise ValueError(f"{name} is {row[name]!r}")


def _must_be_one_of(allowed: Sequence[str], row: Row, name: str) -> None:
    if row[name] not in allowed:
        raise ValueError(f"{name} is {row[name]!r}; there are {', '.join(allowed)}")
