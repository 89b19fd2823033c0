"""Check that the rows of a database are such as harness writes; it may come from anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import JSON, Column, Float, Integer, String, Table

from harness.core.records import COLD, WARM, Config, Input, Measurement, Outcome, StopReason
from harness.results import schema
from harness.results.ablation import Ablation
from harness.results.cells import STAGES, names_read, timing_of, worst_element_of
from harness.results.notes import ABLATION, read_notes
from harness.results.sessions import command_of
from harness.stats.samples import Ragged

Row = Mapping[str, Any]
Cells = Mapping[str, Sequence[Any]]
"""The cells of some rows by column."""

T = TypeVar("T")

_OK = Outcome.OK.value
_DIGEST, _UUID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "uuid": _UUID,
    **dict.fromkeys(("fingerprint", "sha256", "program_sha256", "digest", "key"), _DIGEST),
    "shared_with": _DIGEST,
}
"""What texts look like, by the name of the column in any table."""

_WORDS: Mapping[str, Collection[str]] = {
    "environments.cache": (WARM, COLD),
    "runs.state": ("running", "complete", "interrupted"),
    "measurements.stage": STAGES,
    "measurements.outcome": [outcome.value for outcome in Outcome],
    "measurements.stopped": [reason.value for reason in StopReason],
}
"""The words that columns may hold."""


def check_rows(table: Table, cells: Cells) -> None:
    """Raise ValueError for the first row that harness cannot have written: a cell that has not its
    column's type (SQLite enforces none), an unknown word, or data of which no record can be made.
    The rows have all columns of their table."""
    for column in table.columns:
        values = cells[column.name]
        if not _fits(column, values):
            row = next(row for row, value in enumerate(values) if not _fits(column, [value]))
            shown = repr(values[row])
            short = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise ValueError(f"{table.name} {cells['id'][row]!r}: {column.name} is {short}")
    if table is schema.measurements:
        _check_measurements(cells)
    check = _CHECKS.get(table.name)
    if check is not None:
        for row in range(len(cells["id"])):
            _check_row(table, row_of(cells, row), check)


def row_of(cells: Cells, row: int) -> dict[str, Any]:
    """Return the cells of one row by name."""
    return {name: column[row] for name, column in cells.items()}


def referred(table: Table, rows: Mapping[int, T], row_id: int) -> T:
    """Return what was read of the row that another one refers to; raises ValueError where it is
    missing."""
    if row_id not in rows:
        raise ValueError(f"a row refers to row {row_id} of {table.name}, which is missing")
    return rows[row_id]


def _fits(column: Column[Any], values: Sequence[Any]) -> bool:
    """Whether all values have the type of their column."""
    kinds = set(map(type, values)) - ({NoneType} if column.nullable else set())
    kind = column.type
    if isinstance(kind, String):
        return kinds <= {str} and _are_texts_of(column, kind.length, set(values) - {None})
    if isinstance(kind, Float):
        return kinds <= {float} and all(map(isfinite, filter(None, values)))
    if isinstance(kind, Integer):
        return kinds <= {int}
    assert isinstance(kind, JSON)
    return kinds <= {dict, list}


def _are_texts_of(column: Column[Any], length: int | None, texts: Collection[str]) -> bool:
    words, pattern = _WORDS.get(str(column)), _PATTERNS.get(column.name)
    return (
        (length is None or max(map(len, texts), default=0) <= length)
        and (words is None or all(text in words for text in texts))
        and (pattern is None or all(map(pattern.fullmatch, texts)))
    )


def _check_row(table: Table, row: Row, check: Callable[[Row], object]) -> None:
    try:
        check(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"{table.name} {row['id']}: {reason}") from None


# ------------------------------------------------------------ one check a table


def _check_space(row: Row) -> None:
    # JSON such as 1e999 becomes an infinity, which cannot be written again.
    json.dumps(row["parameters"], allow_nan=False)
    for name, parameter in row["parameters"].items():
        Config({name: parameter["default"]})
        if not isinstance(parameter["role"], str):
            raise ValueError(f"the role of {name} is {parameter['role']!r}")


def _check_run(row: Row) -> None:
    for seed in row["seeds"]:
        Config(seed)
    notes = read_notes(row["notes"])
    if ABLATION in notes:
        Ablation.from_json(notes[ABLATION])


_CHECKS: Mapping[str, Callable[[Row], object]] = {
    schema.spaces.name: _check_space,
    schema.inputs.name: lambda row: Input(row["features"]),
    schema.configurations.name: lambda row: Config(row["parameters"]),
    schema.commands.name: command_of,
    schema.runs.name: _check_run,
}


def _check_measurements(cells: Cells) -> None:
    """Check what measurements hold besides samples; what several have alike is looked at once."""
    alike = zip(
        *(cells[name] for name in ("outcome", "message", "shared_with")),
        *(map(id, cells[name]) for name in ("host_read", "worst_element")),
        strict=True,
    )
    first: dict[tuple[Any, ...], int] = {}
    for row, key in enumerate(alike):
        first.setdefault(key, row)
    for row in first.values():
        _check_row(schema.measurements, row_of(cells, row), _check_measurement)
    for row_id, times_s in zip(cells["id"], cells["warmup_s"], strict=True):
        if type(times_s) is not list or not all(
            type(time_s) in (int, float) and isfinite(time_s) for time_s in times_s
        ):
            raise ValueError(f"measurements {row_id}: warmup_s is {times_s!r}")


def _check_measurement(row: Row) -> None:
    outcome, worst = Outcome(row["outcome"]), worst_element_of(row)
    if outcome is not Outcome.OK or worst is not None:
        words = {name: row[name] for name in ("message", "shared_with")}
        Measurement(Config({}), Input({}), outcome, worst=worst, **words)
    names_read(row)


# ------------------------------------------------------------------------------ samples


def check_samples(cells: Cells, samples_s: Ragged) -> None:
    """Raise ValueError for the first measurement that works and has no samples, or the other way
    round, or whose samples are no times."""
    works = np.array([outcome == _OK for outcome in cells["outcome"]], dtype=np.bool_)
    odd = works != (samples_s.counts > 0)
    odd |= np.array([sizes is not None for sizes in cells["occasions"]], dtype=np.bool_)
    odd |= works & np.array([reason is None for reason in cells["stopped"]], dtype=np.bool_)
    wrong = np.flatnonzero(~(np.isfinite(samples_s.values) & (samples_s.values > 0)))
    odd[np.searchsorted(samples_s.ends, wrong, side="right")] = True
    for row in np.flatnonzero(odd).tolist():
        check_timing(row_of(cells, row), samples_s.at(row).tolist())


def check_timing(row: Row, samples_s: Sequence[float]) -> None:
    """Raise ValueError for a measurement with these samples that no timing can be made of."""
    try:
        timing_of(row, samples_s)
    except ValueError as error:
        raise ValueError(f"measurement {row['id']}: {error}") from None
