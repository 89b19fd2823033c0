"""Read the measurements of a campaign as columns."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from harness.core.arrays import Indices
from harness.core.records import Build, Config, Input, Measurement, Outcome, Value
from harness.results import schema
from harness.results.columns import Coder, ConfigTable, MeasurementRows
from harness.results.compatible import with_known_values
from harness.results.gathering import READ, Gatherer
from harness.results.reader import Cells, read_cells, read_rows, referred, refusing_damage

BUILD_COLUMNS = tuple(field.name for field in fields(Build) if field.name != "cached")

_CHUNK = 10_000  # ids of a query


@dataclass(frozen=True)
class CampaignKey:
    """The fields that comparable measurements share."""

    program_sha256: str
    fingerprint: str
    campaign: int


def _of_campaign(table: Table, key: CampaignKey) -> list[ColumnElement[bool]]:
    """Return the conditions that select a campaign's runs or commands, joined with spaces and
    environments."""
    return [
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        table.c.campaign == key.campaign,
    ]


def read_measurements(
    connection: Connection,
    key: CampaignKey,
    stages: Sequence[str] = schema.STAGES,
    space: str | None = None,
    builds: bool = True,
) -> MeasurementRows:
    """Return the measurements that share a key, oldest first, with their raw samples.

    Where several spaces share a program, `space` keeps what fits the space of this name. Without
    `builds`, measurements lack theirs, which saves memory.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        requestors = _Requestors(connection, key)
        gatherer = Gatherer()
        chosen = _of_runs(schema.measurements, key)
        for cells in read_cells(connection, schema.measurements, chosen, READ):
            check_measurements(cells)
            gatherer.add(cells | {"requestor": requestors.of(cells["id"])})
        features = _values(connection, schema.inputs, "features", gatherer.keys("input_id"))
        config_ids = gatherer.keys("configuration_id")
        configs = _values(connection, schema.configurations, "parameters", config_ids)
        made = _builds(connection, gatherer.keys("build_id")) if builds else {}
        columns = gatherer.columns(list(map(Input, features)), ConfigTable.of(configs), made)
        rows = MeasurementRows(columns).of_stages(stages)
        return rows if space is None else _of_space(connection, key, space, rows)


def _of_runs(table: Table, key: CampaignKey) -> Select[Any]:
    """Select the rows of a campaign's runs from a table whose ids ascend as they were written.

    They are sought in a range of ids: by the index of runs, SQLite would sort whole rows.
    """
    runs = (
        select(schema.runs.c.id)
        .join_from(schema.runs, schema.spaces)
        .join(schema.environments)
        .where(*_of_campaign(schema.runs, key))
    )
    own = table.c.run_id.in_(runs)
    first, last = select(func.min(table.c.id)).where(own), select(func.max(table.c.id)).where(own)
    between = table.c.id.between(first.scalar_subquery(), last.scalar_subquery())
    return select(table).where(between, (table.c.run_id + 0).in_(runs))


def check_measurements(cells: Cells) -> None:
    """Raise ValueError for the first measurement of which no record can be made."""
    names = ["id", "outcome", "samples_s", "stopped", "occasions"]
    names += ["message", "worst_element", "shared_with"]
    alike: set[tuple[Any, ...]] = set()
    for row_id, outcome, samples_s, stopped, occasions, *others in zip(
        *(cells[name] for name in names), strict=True
    ):
        is_ok = outcome == Outcome.OK.value
        if is_ok is not bool(samples_s) or is_ok is not (stopped is not None):
            raise ValueError(
                f"measurements {row_id}: its outcome is {outcome}, with {len(samples_s)} samples"
            )
        if occasions is not None and (min(occasions) < 1 or sum(occasions) != len(samples_s)):
            raise ValueError(f"measurements {row_id}: its occasions are {occasions}")
        if not is_ok and (outcome, *others) not in alike:
            alike.add((outcome, *others))
            message, worst, shared_with = others
            try:
                Measurement(
                    Config({}),
                    Input({}),
                    Outcome(outcome),
                    worst_element=worst,
                    message=message,
                    shared_with=shared_with,
                )
            except ValueError as error:
                raise ValueError(f"measurements {row_id}: {error}") from None


class _Requestors:
    """The technique that asked first for each measurement of a campaign."""

    def __init__(self, connection: Connection, key: CampaignKey) -> None:
        ids, codes, names = array("q"), array("q"), Coder()
        for cells in read_cells(connection, schema.tests, _of_runs(schema.tests, key)):
            ids.extend(cells["measurement_id"])
            codes.extend([names[name] for name in cells["requestor"]])
        self._ids, first = np.unique(np.array(ids, dtype=np.intp), return_index=True)
        self._codes: Indices = np.array(codes, dtype=np.intp)[first]
        self._names = (*names, None)

    def of(self, ids: Sequence[int]) -> list[str | None]:
        """Return the name of each measurement; None where no search asked for it."""
        if not len(self._ids):
            return [None] * len(ids)
        wanted = np.array(ids, dtype=np.intp)
        found = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        codes = np.where(self._ids[found] == wanted, self._codes[found], len(self._names) - 1)
        return [self._names[code] for code in codes.tolist()]


def _values(
    connection: Connection, table: Table, name: str, ids: Sequence[int]
) -> Iterable[Mapping[str, Any]]:
    """Yield a cell of each of the rows with these ids, in the order of the ids."""
    for first in range(0, len(ids), _CHUNK):
        part = ids[first : first + _CHUNK]
        found = {row["id"]: row[name] for row in _with_ids(connection, table, part)}
        yield from (referred(table.name, found, row_id) for row_id in part)


def _builds(connection: Connection, ids: Iterable[int | None]) -> dict[int, Build]:
    known = sorted(row_id for row_id in ids if row_id is not None)
    return {
        row["id"]: Build(**{name: row[name] for name in BUILD_COLUMNS})
        for first in range(0, len(known), _CHUNK)
        for row in _with_ids(connection, schema.builds, known[first : first + _CHUNK])
    }


def _with_ids(connection: Connection, table: Table, ids: Sequence[int]) -> Iterable[dict[str, Any]]:
    return read_rows(connection, table, select(table).where(table.c.id.in_(ids)))


def _of_space(
    connection: Connection, key: CampaignKey, name: str, rows: MeasurementRows
) -> MeasurementRows:
    """Keep the rows whose input and values the space of this name had in one of its runs."""
    query = (
        select(schema.spaces.c.name, schema.spaces.c.id, schema.inputs.c.id)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*_of_campaign(schema.runs, key))
        .distinct()
    )
    runs = connection.execute(query).all()
    if all(found == name for found, _, _ in runs):
        return rows
    own = [(space_id, input_id) for found, space_id, input_id in runs if found == name]
    spaces, inputs = (sorted(set(ids)) for ids in zip(*own, strict=True))
    values: dict[str, list[Container[Value]]] = {}
    for parameters in _values(connection, schema.spaces, "parameters", spaces):
        for parameter, stored in parameters.items():
            values.setdefault(parameter, []).append(_known_values(stored["values"]))
    features = set(map(Input, _values(connection, schema.inputs, "features", inputs)))
    columns = rows.columns
    names = columns.config_table.names
    known = {name: partial(_is_among, values.get(name, ())) for name in names}
    is_own = np.array([problem in features for problem in columns.inputs.values], dtype=np.bool_)
    fitting, _ = with_known_values(rows.where(is_own[rows.of(columns.inputs.codes)]), known)
    return fitting


def _is_among(ranges: Iterable[Container[Value]], value: Value) -> bool:
    return any(value in allowed for allowed in ranges)


def _known_values(stored: Any) -> Container[Value]:
    """Return a parameter's values from what `space_row` wrote."""
    if isinstance(stored, dict):
        return range(stored["min"], stored["max"] + stored["step"], stored["step"])
    return list(stored)
