"""Read the measurements of a campaign as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sqlalchemy import Column, ColumnElement, Connection, Select, Table, func, select

from harness.core.arrays import Array, Indices
from harness.core.records import Build, Config, Input, Measurement, Outcome
from harness.results import schema, stock
from harness.results.columns import Coder, ConfigTable, Gatherer, MeasurementRows, as_objects
from harness.results.reader import (
    Cells,
    read_cells,
    read_rows,
    referred,
    refusing_damage,
    rows_of,
)
from harness.stats.samples import SampleStatistics

BUILD_COLUMNS = tuple(field.name for field in fields(Build) if field.name != "cached")

_CHUNK = 10_000  # ids of a query

_ROUNDING = 1e-9
"""By how much the stored time and that of the samples may differ, as a share."""


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
        gatherer = Gatherer()
        times_s: list[Array] = []
        spaces = _spaces(connection, key)
        input_codes, config_codes = Coder(), Coder()
        # NumPy reads texts of dates thirty times faster than dates.
        date = stock.result.c.collection_date
        for cells in read_cells(connection, _READ, _of_campaign_and_asked(key), as_text=date):
            check_measurements(cells)
            # OpenTuner may have recorded none, or an infinite one.
            costs_s = np.array(cells["collection_cost"], dtype=np.float64)
            walls_s = np.nan_to_num(costs_s, nan=0.0, posinf=0.0, neginf=0.0)
            cells["wall_s"] = walls_s.tolist()
            cells["measured_at"] = cells["collection_date"]
            cells["space"] = [spaces[run_id] for run_id in cells["tuning_run_id"]]
            cells["input_codes"] = [input_codes[row_id] for row_id in cells["input_id"]]
            cells["config_codes"] = [config_codes[row_id] for row_id in cells["configuration_id"]]
            cells["build"] = cells["build_id"]
            cells["observations"] = cells["observed"]
            gatherer.add(cells)
            times_s.append(np.array(cells["time"], dtype=np.float64))
        features = _values(connection, schema.inputs.c.features, list(input_codes))
        parameters = _values(connection, schema.configurations.c.parameters, list(config_codes))
        columns = gatherer.columns(map(Input, features), ConfigTable.of(parameters))
        del gatherer  # columns are copies
        made = _builds(connection, set(columns.build.tolist())) if builds else {}
        columns = replace(columns, build=as_objects(map(made.get, columns.build)))
        check_times(columns.id, np.concatenate([*times_s, []]), columns.statistics)
        return MeasurementRows(columns).of_stages(stages)


_OF_RESULT = (
    "tuning_run_id",
    "configuration_id",
    "input_id",
    "state",
    "time",
    "collection_date",
    "collection_cost",
)
_READ = (
    stock.result.c.id,
    *(column for column in schema.measurements.columns if column.name != "id"),
    *(stock.result.c[name] for name in _OF_RESULT),
    stock.desired_result.c.requestor,
)


def _of_campaign_and_asked(key: CampaignKey) -> Select[Any]:
    """Select the measurements of a campaign's runs, each with the request that asked for it first.

    They are sought in a range of ids, which ascend as they were written: by the index of runs,
    SQLite would sort whole rows.
    """
    result, asked = stock.result, stock.desired_result
    runs = (
        select(schema.runs.c.id)
        .join_from(schema.runs, schema.spaces)
        .join(schema.environments)
        .where(*_of_campaign(schema.runs, key))
    )
    of_runs = result.c.tuning_run_id.in_(runs)
    first = select(func.min(result.c.id)).where(of_runs).scalar_subquery()
    last = select(func.max(result.c.id)).where(of_runs).scalar_subquery()
    every = asked.alias()
    first_asked = select(func.min(every.c.id)).where(every.c.result_id == result.c.id)
    is_first = asked.c.id == first_asked.correlate(result).scalar_subquery()
    query = select(result).join(schema.measurements).outerjoin(asked, is_first)
    return query.where(result.c.id.between(first, last), (result.c.tuning_run_id + 0).in_(runs))


def check_measurements(cells: Cells) -> None:
    """Raise ValueError for the first measurement of which no record can be made, or whose row of
    `result` has the state of another outcome."""
    names = ["id", "outcome", "samples_s", "stopped", "occasions", "state"]
    names += ["message", "worst_element", "shared_with"]
    ok, alike = Outcome.OK.value, set[tuple[Any, ...]]()
    for row_id, outcome, samples_s, stopped, occasions, state, *others in zip(
        *(cells[name] for name in names), strict=True
    ):
        is_ok = outcome == ok
        if is_ok is not bool(samples_s) or is_ok is not (stopped is not None):
            raise ValueError(
                f"measurements {row_id}: its outcome is {outcome}, with {len(samples_s)} samples"
            )
        if occasions is not None and (min(occasions) < 1 or sum(occasions) != len(samples_s)):
            raise ValueError(f"measurements {row_id}: its occasions are {occasions}")
        expected = schema.STATES.get(outcome, schema.FAILED)
        if state not in expected:
            raise ValueError(
                f"result {row_id}: its state is {state}, and {expected[0]} for the outcome "
                f"{outcome} of measurements"
            )
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


def check_times(ids: Indices, times_s: Array, statistics: SampleStatistics) -> None:
    """Raise ValueError where the time of a row of `result` is not that of its samples; a missing
    time is NaN.

    A space may have changed its statistic since: so the time is the median of the samples, or
    their mean.
    """
    agrees = np.isclose(times_s, statistics.median, rtol=_ROUNDING, atol=0)
    agrees |= np.isclose(times_s, statistics.mean, rtol=_ROUNDING, atol=0)
    wrong = np.flatnonzero((statistics.count > 0) & ~agrees).tolist()
    if not wrong:
        return
    row = wrong[0]
    text = (
        f"result {ids[row]}: its time is {times_s[row]}, but the median of the samples in "
        f"measurements is {statistics.median[row]}, and their mean {statistics.mean[row]}"
    )
    others = [str(ids[other]) for other in wrong[1:]]
    if others:
        text += f"; the same holds for {len(others)} more: {', '.join(others[:5])}"
    if len(others) > 5:
        text += ", ..."
    raise ValueError(text)


def _values(connection: Connection, column: Column[Any], ids: Sequence[int]) -> Iterator[Any]:
    """Yield the cells of the rows with these ids, in the order of the ids."""
    key = column.table.c.id
    for first in range(0, len(ids), _CHUNK):
        part = ids[first : first + _CHUNK]
        rows = rows_of(read_cells(connection, [key, column], select(column).where(key.in_(part))))
        values = {row["id"]: row[column.name] for row in rows}
        for row_id in part:
            yield referred(column.table.name, values, row_id)


def _spaces(connection: Connection, key: CampaignKey) -> dict[int, str]:
    """Return the digests of the spaces of a campaign's runs, by their ids."""
    runs = schema.runs.join(schema.spaces).join(schema.environments)
    query = select(schema.runs.c.id, schema.spaces.c.sha256).select_from(runs)
    query = query.where(*_of_campaign(schema.runs, key))
    return {run["id"]: run["sha256"] for run in connection.execute(query).mappings()}


def _builds(connection: Connection, ids: Iterable[int | None]) -> dict[int, Build]:
    wanted = sorted(row_id for row_id in ids if row_id is not None)
    table, builds = schema.builds, dict[int, Build]()
    for first in range(0, len(wanted), _CHUNK):
        query = select(table).where(table.c.id.in_(wanted[first : first + _CHUNK]))
        for row in read_rows(connection, table, query):
            builds[row["id"]] = Build(**{name: row[name] for name in BUILD_COLUMNS})
    return builds
