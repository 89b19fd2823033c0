"""Read the measurements of a campaign as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, func, select

from harness.core.records import Build, Config, Input, Measurement, Outcome
from harness.results import schema
from harness.results.columns import ConfigTable, MeasurementRows
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
    builds: bool = True,
) -> MeasurementRows:
    """Return the measurements that share a key, oldest first, with their raw samples.

    They are of all versions of the program's space, and of all spaces that share the program
    (`harness.results.fitting` chooses). Without `builds`, measurements lack theirs, which saves
    memory.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        gatherer, chosen = Gatherer(), _of_campaign_and_asked(key)
        columns = [*(schema.measurements.c[name] for name in READ), schema.tests.c.requestor]
        for cells in read_cells(connection, columns, chosen):
            check_measurements(cells)
            gatherer.add(cells)
        features = _values(connection, schema.inputs.c.features, gatherer.keys("input_id"))
        config_ids = gatherer.keys("configuration_id")
        configs = _values(connection, schema.configurations.c.parameters, config_ids)
        made = _builds(connection, gatherer.keys("build_id")) if builds else {}
        table = ConfigTable.of(configs)
        spaces = _spaces(connection, key, gatherer.keys("run_id"))
        inputs = list(map(Input, features))
        rows = MeasurementRows(gatherer.columns(inputs, table, made, spaces))
        return rows.of_stages(stages)


def _of_campaign_and_asked(key: CampaignKey) -> Select[Any]:
    """Select the measurements of a campaign's runs, each with the test that asked for it first.

    They are sought in a range of ids, which ascend as they were written: by the index of runs,
    SQLite would sort whole rows.
    """
    table, tests = schema.measurements, schema.tests
    runs = (
        select(schema.runs.c.id)
        .join_from(schema.runs, schema.spaces)
        .join(schema.environments)
        .where(*_of_campaign(schema.runs, key))
    )
    own = table.c.run_id.in_(runs)
    first, last = select(func.min(table.c.id)).where(own), select(func.max(table.c.id)).where(own)
    between = table.c.id.between(first.scalar_subquery(), last.scalar_subquery())
    every = tests.alias()
    asked = select(func.min(every.c.id)).where(every.c.measurement_id == table.c.id)
    is_first = tests.c.id == asked.correlate(table).scalar_subquery()
    query = select(table).outerjoin_from(table, tests, is_first)
    return query.where(between, (table.c.run_id + 0).in_(runs))


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


def _values(connection: Connection, column: Column[Any], ids: Sequence[int]) -> Iterator[Any]:
    """Yield the cells of the rows with these ids, in the order of the ids."""
    key = column.table.c.id
    for first in range(0, len(ids), _CHUNK):
        part = ids[first : first + _CHUNK]
        values: dict[int, Any] = {}
        for cells in read_cells(connection, [key, column], select(column).where(key.in_(part))):
            values |= zip(cells["id"], cells[column.name], strict=True)
        yield from (referred(column.table.name, values, row_id) for row_id in part)


def _spaces(connection: Connection, key: CampaignKey, run_ids: Sequence[int]) -> list[str]:
    """Return the digests of the spaces of a campaign's runs."""
    runs = schema.runs.join(schema.spaces).join(schema.environments)
    query = select(schema.runs.c.id, schema.spaces.c.sha256).select_from(runs)
    query = query.where(*_of_campaign(schema.runs, key))
    digests: dict[int, str] = dict(connection.execute(query).tuples().all())
    return [referred("runs", digests, run_id) for run_id in run_ids]


def _builds(connection: Connection, ids: Iterable[int | None]) -> dict[int, Build]:
    known, builds = sorted(row_id for row_id in ids if row_id is not None), schema.builds
    return {
        row["id"]: Build(**{name: row[name] for name in BUILD_COLUMNS})
        for first in range(0, len(known), _CHUNK)
        for row in read_rows(
            connection, builds, select(builds).where(builds.c.id.in_(known[first : first + _CHUNK]))
        )
    }
