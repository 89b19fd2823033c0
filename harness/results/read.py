"""Read results as records, with plain SQL, so that a database from elsewhere can run no code."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from harness.core.records import Build, Config, Input, Interleaved, Measurement, Outcome, Value
from harness.results import schema
from harness.results.cells import (
    BUILD_COLUMNS,
    STAGES,
    names_read,
    timing_of,
    worst_element_of,
)
from harness.results.selecting import CampaignKey, of_campaign, refusing_damage
from harness.results.stored_rows import (
    StoredRow,
    read_observed,
    read_rows,
    read_samples,
    referred,
    rows_by_id,
)
from harness.results.validate import check_numbers


@dataclass(frozen=True)
class MeasurementRow:
    """One measurement as stored.

    Measurements that were interleaved share a `group`. `uuid` is the same in every copy of a row.
    `requestor` is the first technique that asked for it, None where no search did. `measured_at`
    is ISO 8601 in UTC.
    """

    id: int
    stage: str
    measurement: Measurement
    group: str | None = None
    uuid: str = ""
    requestor: str | None = None
    measured_at: str = ""


def read_measurements(
    connection: Connection,
    key: CampaignKey,
    stages: Iterable[str] = STAGES,
    space: str | None = None,
) -> list[MeasurementRow]:
    """Return the measurements that share a key, oldest first, with their raw samples.

    Where several spaces share a program, `space` keeps what fits the space of this name.

    Raises ResultsError where the database is damaged.
    """
    chosen, wanted = _selection(key), frozenset(stages)
    with refusing_damage(connection):
        parts = _Parts.read(connection, chosen)
        asked = _requestors(connection, key)
        # A stage is looked at after the row was checked: in the query, a damaged one would hide it.
        rows = [
            _row(row, parts, asked)
            for row in read_rows(connection, schema.measurements, chosen)
            if row["stage"] in wanted
        ]
        return rows if space is None else _of_space(connection, key, space, rows)


def _of_space(
    connection: Connection, key: CampaignKey, name: str, rows: Sequence[MeasurementRow]
) -> list[MeasurementRow]:
    """Keep the rows whose input and values the space of this name had in one of its runs."""
    query = (
        select(schema.spaces.c.name, schema.spaces.c.parameters, schema.inputs.c.features)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*of_campaign(schema.runs, key))
    )
    runs = connection.execute(query).all()
    if all(run.name == name for run in runs):
        return list(rows)
    inputs: set[Input] = set()
    values: dict[str, list[Container[Value]]] = {}
    for parameters, features in (run[1:] for run in runs if run.name == name):
        inputs.add(Input(features))
        for parameter, stored in parameters.items():
            values.setdefault(parameter, []).append(_known_values(stored["values"]))
    return [
        row
        for row in rows
        if row.measurement.input in inputs
        and all(
            any(value in known for known in values.get(parameter, ()))
            for parameter, value in row.measurement.config.items()
        )
    ]


def _known_values(stored: Any) -> Container[Value]:
    """Return a parameter's values from what `harness.results.rows.space_row` wrote."""
    if isinstance(stored, dict):
        return range(stored["min"], stored["max"] + stored["step"], stored["step"])
    return list(stored)


InterleavedByConfigs = dict[tuple[Config, ...], list[Interleaved]]
"""Interleaved measurements by their configurations, oldest first."""


def interleaved_groups(rows: Iterable[MeasurementRow]) -> list[Interleaved]:
    """Group the interleaved measurements of one input, oldest first by the time of measuring;
    after a merge the order in the database is another one."""
    found: dict[str, list[MeasurementRow]] = {}
    for row in rows:
        found.setdefault(row.group or row.uuid, []).append(row)
    ordered = sorted(found.values(), key=lambda group: max(row.measured_at for row in group))
    return [[row.measurement for row in group] for group in ordered]


def by_configs(groups: Iterable[Interleaved]) -> InterleavedByConfigs:
    """Collect the groups that have the same configurations in the same order."""
    grouped: InterleavedByConfigs = {}
    for group in groups:
        grouped.setdefault(tuple(m.config for m in group), []).append(group)
    return grouped


@dataclass(frozen=True)
class _Parts:
    """What other tables hold of measurements, by the id that a measurement refers to or has."""

    configs: Mapping[int, Config]
    inputs: Mapping[int, Input]
    builds: Mapping[int, StoredRow]
    samples_s: Mapping[int, Sequence[float]]
    observed: Mapping[int, Mapping[str, float]]

    @classmethod
    def read(cls, connection: Connection, chosen: Select[Any]) -> _Parts:
        """Read the parts of the chosen measurements."""
        table = schema.measurements
        configurations, inputs, builds = (
            rows_by_id(
                connection,
                other,
                select(other).where(other.c.id.in_(chosen.with_only_columns(column))),
            )
            for other, column in (
                (schema.configurations, table.c.configuration_id),
                (schema.inputs, table.c.input_id),
                (schema.builds, table.c.build_id),
            )
        )
        return cls(
            {row_id: Config(row["parameters"]) for row_id, row in configurations.items()},
            {row_id: Input(row["features"]) for row_id, row in inputs.items()},
            builds,
            read_samples(connection, chosen),
            read_observed(connection, chosen),
        )


def _row(row: StoredRow, parts: _Parts, asked: Mapping[int, str]) -> MeasurementRow:
    row_id = row["id"]
    samples_s, observed = parts.samples_s.get(row_id, ()), parts.observed.get(row_id, {})
    check_numbers(row, samples_s, observed)
    build_id = row["build_id"]
    build = None if build_id is None else referred(schema.builds, parts.builds, build_id)
    try:
        measurement = Measurement(
            referred(schema.configurations, parts.configs, row["configuration_id"]),
            referred(schema.inputs, parts.inputs, row["input_id"]),
            Outcome(row["outcome"]),
            timing_of(row, samples_s),
            None if build is None else Build(**{name: build[name] for name in BUILD_COLUMNS}),
            worst_element_of(row),
            row["message"],
            tuple(row["warmup_s"]),
            row["wall_s"],
            observed,
            names_read(row),
            row["shared_with"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"measurement {row_id}: {error}") from None
    return MeasurementRow(
        row_id,
        row["stage"],
        measurement,
        row["turn"],
        row["uuid"],
        asked.get(row_id),
        row["measured_at"],
    )


def _selection(key: CampaignKey) -> Select[Any]:
    """Select the ids of the measurements that share a key."""
    tables = (
        schema.measurements.join(schema.runs)
        .join(schema.spaces)
        .join(schema.environments, schema.runs.c.environment_id == schema.environments.c.id)
    )
    conditions = of_campaign(schema.runs, key)
    if key.problem is not None:
        tables = tables.join(schema.inputs, schema.measurements.c.input_id == schema.inputs.c.id)
        conditions.append(schema.inputs.c.digest == key.problem.digest)
    return select(schema.measurements.c.id).select_from(tables).where(*conditions)


def _requestors(connection: Connection, key: CampaignKey) -> dict[int, str]:
    """Return the technique that asked first for each measurement of a campaign."""
    tables = schema.tests.join(schema.runs).join(schema.spaces).join(schema.environments)
    chosen = select(schema.tests.c.id).select_from(tables).where(*of_campaign(schema.runs, key))
    asked: dict[int, str] = {}
    for row in read_rows(connection, schema.tests, chosen):
        asked.setdefault(row["measurement_id"], row["requestor"])
    return asked
