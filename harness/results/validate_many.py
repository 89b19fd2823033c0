"""Check many rows at once, as `harness.results.validate` checks each: what is plainly right needs
no closer look, everything else gets one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from math import isfinite
from operator import eq
from types import NoneType
from typing import Any
from zlib import crc32

import numpy as np
from sqlalchemy import JSON, Column, Float, Integer, String, Table

from harness.core.arrays import Flags
from harness.core.records import Config, Outcome, StopReason, canonical_json
from harness.results import schema
from harness.results.cells import STAGES
from harness.results.checksums import CHECKSUM, NUMBERS_CHECKSUM, checksums_of, numbers_checksum
from harness.results.notes import ABLATION, read_notes
from harness.results.validate import DIGEST, RUN_STATES, UUID, check_numbers, check_row
from harness.stats.samples import Ragged, SampleStatistics

Cells = Mapping[str, Sequence[Any]]
"""The cells of some rows by column."""

_OK = Outcome.OK.value
_OUTCOMES = {outcome.value for outcome in Outcome}
_REPEATED = {outcome.value for outcome in Outcome if outcome.repeats}
_STOPPED = {reason.value for reason in StopReason}
_ROUNDING = 1e-9
_PLAIN_TYPES = {bool, int, float, str, NoneType}


def check_rows(table: Table, cells: Cells) -> None:
    """Check all columns of rows; raises what `check_row` raises for the first wrong one."""
    odd = ~_have_checksums(table, cells)
    if not all(_fits(column, cells[column.name]) for column in table.columns):
        odd[:] = True
    elif not _are_plain(table, cells):
        odd |= ~np.array(_meanings(table, cells), dtype=np.bool_)
    for row in np.flatnonzero(odd).tolist():
        check_row(table, row_of(cells, row))


def row_of(cells: Cells, row: int) -> dict[str, Any]:
    """Return the cells of one row by name."""
    return {name: column[row] for name, column in cells.items()}


def _fits(column: Column[Any], values: Sequence[Any]) -> bool:
    """Whether all values have the type of their column."""
    kinds = set(map(type, values)) - ({NoneType} if column.nullable else set())
    kind = column.type
    if isinstance(kind, String):
        if not kinds <= {str} or kind.length is None:
            return kinds <= {str}
        return max(map(len, filter(None, values)), default=0) <= kind.length
    if isinstance(kind, Float):
        return kinds <= {float} and all(map(isfinite, filter(None, values)))
    if isinstance(kind, Integer):
        return kinds <= {int}
    assert isinstance(kind, JSON)
    return kinds <= {dict, list}


def _have_checksums(table: Table, cells: Cells) -> Flags:
    """Say which rows have their checksum, or none."""
    if CHECKSUM not in table.c:
        return np.ones(len(cells["id"]), dtype=np.bool_)
    stored = cells[CHECKSUM]
    if all(one is None for one in stored):
        return np.ones(len(stored), dtype=np.bool_)
    computed = checksums_of(table, cells)
    pairs = zip(stored, computed, strict=True)
    return np.array([one is None or one == other for one, other in pairs], dtype=np.bool_)


def _are_plain(table: Table, cells: Cells) -> bool:
    """Whether all rows, whose cells have the types of their columns, plainly mean what harness
    writes: `_meanings` by column, which takes a tenth of the time."""
    check = _BY_COLUMN.get(table.name)
    return check is not None and check(cells)


def _are_plain_inputs(cells: Cells) -> bool:
    return _have_digests(cells["features"], cells["digest"])


def _are_plain_configurations(cells: Cells) -> bool:
    return _have_digests(cells["parameters"], cells["digest"])


def _have_digests(values: Sequence[Any], digests: Sequence[str]) -> bool:
    """Whether these are mappings from names to plain values with these digests."""
    if not set(map(type, values)) <= {dict}:
        return False
    plain = list(chain.from_iterable(map(dict.values, values)))
    if not set(map(type, plain)) <= _PLAIN_TYPES or not all(
        isfinite(value) for value in plain if type(value) is float
    ):
        return False
    found = (sha256(canonical_json(one).encode()).hexdigest() for one in values)
    return all(map(eq, found, digests))


def _are_plain_runs(cells: Cells) -> bool:
    """Whether all runs are plain; those with an ablation get a closer look."""
    seeds = {id(one): one for one in cells["seeds"]}.values()
    notes = {id(one): one for one in cells["notes"]}.values()
    try:
        for seed in chain.from_iterable(seeds):
            Config(seed)
        for one in notes:
            if ABLATION in read_notes(one):
                return False
    except (ValueError, TypeError, AttributeError):
        return False
    return all(map(UUID.fullmatch, cells["uuid"])) and set(cells["state"]) <= set(RUN_STATES)


def _are_plain_measurements(cells: Cells) -> bool:
    outcomes = set(cells["outcome"])
    failed = [
        text for text, one in zip(cells["message"], cells["outcome"], strict=True) if one != _OK
    ]
    warmup_s = list(chain.from_iterable(cells["warmup_s"]))
    lists = {id(names): names for names in cells["host_read"] if names is not None}
    return (
        all(map(UUID.fullmatch, cells["uuid"]))
        and set(cells["stage"]) <= set(STAGES)
        and outcomes <= _OUTCOMES
        and all(failed)
        and set(map(type, cells["warmup_s"])) <= {list}
        and set(map(type, warmup_s)) <= {float}
        and all(map(isfinite, warmup_s))
        and set(cells["shared_with"]) <= {None}
        and set(map(type, lists.values())) <= {list}
        and all(type(name) is str for names in lists.values() for name in names)
        and all(one is None for one in cells["worst_element"])
    )


def _meanings(table: Table, cells: Cells) -> list[bool]:
    """Say which rows plainly mean what harness writes."""
    check = _PLAIN.get(table.name)
    if check is None:
        return [False] * len(cells["id"])
    names, is_plain = check
    return [is_plain(*row) for row in zip(*(cells[name] for name in names), strict=True)]


_BY_COLUMN: Mapping[str, Callable[[Cells], bool]] = {
    schema.measurements.name: _are_plain_measurements,
    schema.inputs.name: _are_plain_inputs,
    schema.configurations.name: _are_plain_configurations,
    schema.runs.name: _are_plain_runs,
}

_MEANT = (
    "uuid",
    "stage",
    "outcome",
    "message",
    "warmup_s",
    "shared_with",
    "host_read",
    "worst_element",
)


def _is_plain_measurement(
    uuid: Any,
    stage: object,
    outcome: object,
    message: object,
    warmup_s: Any,
    shared_with: Any,
    host_read: Any,
    worst_element: object,
) -> bool:
    return (
        type(uuid) is str
        and UUID.fullmatch(uuid) is not None
        and stage in STAGES
        and (outcome == _OK or (outcome in _OUTCOMES and bool(message)))
        and type(warmup_s) is list
        and all(type(time_s) is float and isfinite(time_s) for time_s in warmup_s)
        and (shared_with is None or (outcome in _REPEATED and _is_digest(shared_with)))
        and (host_read is None or _is_list_of_names(host_read))
        and worst_element is None
    )


def _is_list_of_names(names: object) -> bool:
    return type(names) is list and all(type(name) is str for name in names)


def _is_digest(text: object) -> bool:
    return type(text) is str and DIGEST.fullmatch(text) is not None


_PLAIN: Mapping[str, tuple[tuple[str, ...], Callable[..., bool]]] = {
    schema.measurements.name: (_MEANT, _is_plain_measurement),
    schema.tests.name: (("id",), lambda _: True),  # its cells have no meaning of their own
    schema.observations.name: (("id",), lambda _: True),
}


def check_many_numbers(
    cells: Cells, samples_s: Ragged, observed: Mapping[str, Mapping[int, float]]
) -> None:
    """Check the samples and observations of measurements; raises ValueError as `check_numbers`."""
    odd = ~_are_plain_times(cells, samples_s)
    odd |= ~_have_numbers_checksums(cells, samples_s, observed)
    odd |= np.array([sizes is not None for sizes in cells["occasions"]], dtype=np.bool_)
    for row in np.flatnonzero(odd).tolist():
        seen = {name: values[row] for name, values in observed.items() if row in values}
        check_numbers(row_of(cells, row), samples_s.at(row).tolist(), seen)


def _are_plain_times(cells: Cells, samples_s: Ragged) -> Flags:
    """Say which rows have samples exactly if they worked, with the stored number and median."""
    works = np.array([one == _OK for one in cells["outcome"]], dtype=np.bool_)
    works &= np.array([one in _STOPPED or one is None for one in cells["stopped"]], dtype=np.bool_)
    counts = np.array([count or 0 for count in cells["sample_count"]], dtype=np.intp)
    medians = np.array([np.nan if one is None else one for one in cells["median_s"]], dtype=float)
    wrong = np.flatnonzero(~(np.isfinite(samples_s.values) & (samples_s.values > 0)))
    found = SampleStatistics.of(samples_s)
    plain: Flags = (found.count == counts) & (works == (counts > 0))
    plain &= np.isclose(medians, found.median, rtol=_ROUNDING, atol=0, equal_nan=True)
    plain[np.searchsorted(samples_s.ends, wrong, side="right")] = False
    return plain


def _have_numbers_checksums(
    cells: Cells, samples_s: Ragged, observed: Mapping[str, Mapping[int, float]]
) -> Flags:
    stored = cells[NUMBERS_CHECKSUM]
    if all(one is None for one in stored):
        return np.ones(len(stored), dtype=np.bool_)
    data = memoryview(samples_s.values.astype("<f8").tobytes())
    none = b"[]"  # no observations
    ends = (8 * samples_s.ends).tolist()
    computed = [
        crc32(none, crc32(data[start:end]))
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    for row in {row for values in observed.values() for row in values}:
        seen = {name: values[row] for name, values in observed.items() if row in values}
        computed[row] = numbers_checksum(samples_s.at(row).tolist(), seen)
    pairs = zip(stored, computed, strict=True)
    return np.array([one is None or one == other for one, other in pairs], dtype=np.bool_)
