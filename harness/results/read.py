"""Read results as records, with plain SQL, so that a database from elsewhere can run no code."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, null, select

from harness.core.errors import ResultsError
from harness.core.records import (
    Build,
    Config,
    Input,
    Interleaved,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Value,
    WorstElement,
)
from harness.results import schema
from harness.results.connect import has_column, has_table, shown_name
from harness.results.notes import ABLATION

SEARCHED = ("search", "cross")
"""The stages of the search, and of measuring configurations across inputs: each once."""

CANDIDATE, CHOICE, FINAL = "candidate", "choice", "final"
"""The interleaved stages: a dispatcher's candidates; an input's finalists, to choose the winner;
and the winner beside the default, to judge it."""

STAGES = (*SEARCHED, CANDIDATE, CHOICE, FINAL, ABLATION)


@dataclass(frozen=True)
class CampaignKey:
    """The fields that comparable measurements share; a `problem` of None selects every input."""

    program_sha256: str
    fingerprint: str
    campaign: int
    problem: Input | None = None


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


def of_campaign(
    table: Table, key: CampaignKey, space: str | None = None
) -> list[ColumnElement[bool]]:
    """Return the conditions that select a campaign's runs or commands, joined with spaces and
    environments. Where several spaces share a program, `space` selects one by name."""
    conditions: list[ColumnElement[bool]] = [
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        table.c.campaign == key.campaign,
    ]
    return conditions if space is None else [*conditions, schema.spaces.c.name == space]


@contextmanager
def refusing_damage(connection: Connection) -> Iterator[None]:
    """Turn errors about rows that harness cannot have written into ResultsError."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ResultsError(
            f"{shown_name(connection)} is damaged: {reason}; copy it again from the original"
        ) from error


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
    chosen = _selection(key, stages)
    query = chosen.with_only_columns(*_columns(connection)).order_by(schema.measurements.c.id)
    with refusing_damage(connection):
        samples, observed = _samples(connection, chosen), _observed(connection, chosen)
        asked = _requestors(connection, key)
        rows = [_row(row, samples, observed, asked) for row in connection.execute(query).mappings()]
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


def _row(
    row: Mapping[Any, Any],
    samples: Mapping[int, list[float]],
    observed: Mapping[int, dict[str, float]],
    asked: Mapping[int, str],
) -> MeasurementRow:
    row_id = row["measurement_id"]
    try:
        if not isinstance(row["measured_at"], str):
            raise ValueError(f"measured_at is {row['measured_at']!r}")
        return MeasurementRow(
            row_id,
            row["stage"],
            _measurement(row, samples.get(row_id, []), observed.get(row_id, {})),
            row["turn"],
            row["uuid"],
            asked.get(row_id),
            row["measured_at"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"measurement {row_id}: {error}") from None


BUILD_COLUMNS = tuple(field.name for field in fields(Build) if field.name != "cached")

_COLUMNS = (
    schema.measurements.c.id.label("measurement_id"),
    schema.measurements.c.uuid,
    schema.measurements.c.stage,
    schema.measurements.c.turn,
    schema.measurements.c.measured_at,
    schema.measurements.c.outcome,
    schema.measurements.c.stopped,
    schema.measurements.c.message,
    schema.measurements.c.worst_element,
    schema.measurements.c.warmup_s,
    schema.measurements.c.wall_s,
    schema.configurations.c.parameters,
    schema.inputs.c.features,
    *(schema.builds.c[name] for name in BUILD_COLUMNS),
)


def _columns(connection: Connection) -> list[ColumnElement[Any]]:
    """Return the columns of a measurement, with null for those that an older database lacks."""
    newer = [schema.measurements.c[name] for _, name in schema.COLUMNS_SINCE]
    return [*_COLUMNS, *(c if has_column(connection, c) else null().label(c.name) for c in newer)]


def _selection(key: CampaignKey, stages: Iterable[str]) -> Select[Any]:
    tables = (
        schema.measurements.join(schema.runs)
        .join(schema.spaces)
        .join(schema.environments, schema.runs.c.environment_id == schema.environments.c.id)
        .join(schema.inputs, schema.measurements.c.input_id == schema.inputs.c.id)
        .join(
            schema.configurations,
            schema.measurements.c.configuration_id == schema.configurations.c.id,
        )
        .outerjoin(schema.builds, schema.measurements.c.build_id == schema.builds.c.id)
    )
    conditions = [
        *of_campaign(schema.runs, key),
        schema.measurements.c.stage.in_(list(stages)),
    ]
    if key.problem is not None:
        conditions.append(schema.inputs.c.digest == key.problem.digest)
    return select(schema.measurements.c.id).select_from(tables).where(*conditions)


def _samples(connection: Connection, chosen: Select[Any]) -> dict[int, list[float]]:
    ids = chosen.subquery()
    query = (
        select(schema.samples.c.measurement_id, schema.samples.c.time_s)
        .join(ids, schema.samples.c.measurement_id == ids.c.id)
        .order_by(schema.samples.c.measurement_id, schema.samples.c.ordinal)
    )
    samples: dict[int, list[float]] = {}
    for measurement_id, time_s in connection.execute(query):
        samples.setdefault(measurement_id, []).append(time_s)
    return samples


def _requestors(connection: Connection, key: CampaignKey) -> dict[int, str]:
    """Return the technique that asked first for each measurement of a campaign."""
    table = schema.tests
    tables = table.join(schema.runs).join(schema.spaces).join(schema.environments)
    query = (
        select(table.c.measurement_id, table.c.requestor)
        .select_from(tables)
        .where(*of_campaign(schema.runs, key))
        .order_by(table.c.id)
    )
    asked: dict[int, str] = {}
    for measurement_id, requestor in connection.execute(query):
        asked.setdefault(measurement_id, requestor)
    return asked


def _observed(connection: Connection, chosen: Select[Any]) -> dict[int, dict[str, float]]:
    table = schema.observations
    if not has_table(connection, table):
        return {}
    ids = chosen.subquery()
    query = select(table.c.measurement_id, table.c.name, table.c.value).join(
        ids, table.c.measurement_id == ids.c.id
    )
    observed: dict[int, dict[str, float]] = {}
    for measurement_id, name, value in connection.execute(query):
        observed.setdefault(measurement_id, {})[name] = value
    return observed


def _measurement(
    row: Mapping[Any, Any], samples_s: Sequence[float], observed: Mapping[str, float]
) -> Measurement:
    return Measurement(
        Config(row["parameters"]),
        Input(row["features"]),
        Outcome(row["outcome"]),
        timing_of(row, samples_s),
        _build(row),
        worst_element_of(row),
        row["message"],
        tuple(row["warmup_s"]),
        row["wall_s"],
        observed,
        names_read(row),
        row["shared_with"],
    )


def names_read(row: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """Return the parameters that the host module read, from a row of measurements.

    Raises ValueError where the row holds no list of names.
    """
    names = row["host_read"]
    if names is not None and not (isinstance(names, list) and all(type(n) is str for n in names)):
        raise ValueError(f"host_read is {names!r}")
    return None if names is None else tuple(names)


def timing_of(row: Mapping[Any, Any], samples_s: Sequence[float]) -> Timing | None:
    """Return the timing of a row of measurements; raises ValueError where its outcome has none."""
    if Outcome(row["outcome"]) is Outcome.OK:
        return Timing(tuple(samples_s), StopReason(row["stopped"]), _occasions(row))
    if samples_s:
        raise ValueError(f"it has samples although its outcome is {row['outcome']}")
    return None


def _occasions(row: Mapping[Any, Any]) -> tuple[int, ...]:
    sizes = row["occasions"]
    if sizes is None:
        return ()
    if not (isinstance(sizes, list) and all(type(size) is int for size in sizes)):
        raise ValueError(f"occasions is {sizes!r}")
    return tuple(sizes)


def _build(row: Mapping[Any, Any]) -> Build | None:
    return Build(**{name: row[name] for name in BUILD_COLUMNS}) if row["key"] is not None else None


def worst_element_of(row: Mapping[Any, Any]) -> WorstElement | None:
    """Return the worst element of a wrong result, from a row of measurements.

    NaN and infinity are stored as text.
    """
    stored = row["worst_element"]
    if stored is None:
        return None
    return WorstElement(
        argument=stored["argument"],
        index=tuple(stored["index"]),
        found=_number(stored["found"]),
        expected=_number(stored["expected"]),
        tolerance=_number(stored["tolerance"]),
        wrong_count=stored["wrong_count"],
        count=stored["count"],
    )


def _number(number: object) -> int | float:
    if isinstance(number, str):
        return float(number)
    if isinstance(number, (int, float)):
        return number
    raise ValueError(f"{number!r} is no number")
