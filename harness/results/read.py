"""Reading results back as records; plain SQL, so that a foreign database can run no code."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, null, select

from harness.core.errors import ResultsError
from harness.core.records import (
    Build,
    Config,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    Turn,
    Value,
    WorstElement,
)
from harness.results import schema
from harness.results.connect import has_column, has_table, place_of
from harness.results.notes import ABLATION

SEARCHED = ("search", "cross")
"""The stages of what was searched, or measured across inputs: each configuration once."""

CANDIDATE, FINAL = "candidate", "final"
"""The stages of what a dispatcher may choose from, and of finalists; both sampled in turn."""

STAGES = (*SEARCHED, CANDIDATE, FINAL, ABLATION)


@dataclass(frozen=True)
class Key:
    """What measurements must share to be comparable; `given` None means every input."""

    program_sha256: str
    fingerprint: str
    campaign: int
    given: Input | None = None


@dataclass(frozen=True)
class Row:
    """A measurement as it was stored.

    `uuid` is the same in every copy of it; `requestor` is the technique whose test it answered
    first, None for what no search asked for; `measured_at` is ISO 8601 in UTC.
    """

    id: int
    stage: str
    measurement: Measurement
    turn: str | None = None
    uuid: str = ""
    requestor: str | None = None
    measured_at: str = ""


def of_campaign(table: Table, key: Key, space: str | None = None) -> list[ColumnElement[bool]]:
    """What runs or commands of a campaign satisfy, beside their spaces and environments; of several
    spaces of one program those of all, or of the one of this name."""
    conditions: list[ColumnElement[bool]] = [
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        table.c.campaign == key.campaign,
    ]
    return conditions if space is None else [*conditions, schema.spaces.c.name == space]


@contextmanager
def refusing_damage(connection: Connection) -> Iterator[None]:
    """Raise ResultsError where what is read is not what any harness wrote."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        told = str(error) if isinstance(error, ValueError) else repr(error)
        raise ResultsError(
            f"{place_of(connection)} is damaged: {told}; copy it again from where it was written"
        ) from error


def read_measurements(
    connection: Connection, key: Key, stages: Iterable[str] = STAGES, space: str | None = None
) -> list[Row]:
    """The measurements that share a key, oldest first, with their raw samples; of several spaces
    of one program those of all, or of what a `space` of this name has.

    Raises ResultsError where the database is damaged.
    """
    chosen = _selection(key, stages)
    query = chosen.with_only_columns(*_columns(connection)).order_by(schema.measurements.c.id)
    with refusing_damage(connection):
        samples, observed = _samples(connection, chosen), _observed(connection, chosen)
        asked = _requestors(connection, key)
        rows = [_row(row, samples, observed, asked) for row in connection.execute(query).mappings()]
        return rows if space is None else _of_space(connection, key, space, rows)


def _of_space(connection: Connection, key: Key, name: str, rows: Sequence[Row]) -> list[Row]:
    """Those of inputs that it was tuned on and of values that it has, or had when it was tuned."""
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
        for parameter, told in parameters.items():
            values.setdefault(parameter, []).append(_known_values(told["values"]))
    return [
        row
        for row in rows
        if row.measurement.input in inputs
        and all(
            any(value in known for known in values.get(parameter, ()))
            for parameter, value in row.measurement.config.items()
        )
    ]


def _known_values(told: Any) -> Container[Value]:
    """A parameter's values as `harness.results.rows.space_row` writes them."""
    if isinstance(told, dict):
        return range(told["min"], told["max"] + told["step"], told["step"])
    return list(told)


Turns = dict[tuple[Config, ...], list[Turn]]
"""Turns by their configurations; oldest first."""


def in_turns(rows: Iterable[Row]) -> list[Turn]:
    """The turns of one input, the one that was measured last in the end: where databases were
    merged, that is not the one which was stored last."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.turn or row.uuid, []).append(row)
    ordered = sorted(found.values(), key=lambda turn: max(row.measured_at for row in turn))
    return [[row.measurement for row in turn] for turn in ordered]


def by_configs(turns: Iterable[Turn]) -> Turns:
    """The turns that were measured of the same configurations, in the same order."""
    grouped: Turns = {}
    for turn in turns:
        grouped.setdefault(tuple(m.config for m in turn), []).append(turn)
    return grouped


def _row(
    row: Mapping[Any, Any],
    samples: Mapping[int, list[float]],
    observed: Mapping[int, dict[str, float]],
    asked: Mapping[int, str],
) -> Row:
    row_id = row["measurement_id"]
    try:
        if not isinstance(row["measured_at"], str):
            raise ValueError(f"measured_at is {row['measured_at']!r}")
        return Row(
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


BUILD_COLUMNS = (
    "key",
    "options",
    "compiler",
    "compile_s",
    "binary_sha256",
    "registers",
    "shared_bytes",
    "spill_bytes",
    "log",
)

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
    """What is read of a measurement; null for what a database is too old to have."""
    younger = [schema.measurements.c[name] for _, name in schema.COLUMNS_SINCE]
    return [*_COLUMNS, *(c if has_column(connection, c) else null().label(c.name) for c in younger)]


def _selection(key: Key, stages: Iterable[str]) -> Select[Any]:
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
    if key.given is not None:
        conditions.append(schema.inputs.c.digest == key.given.digest)
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


def _requestors(connection: Connection, key: Key) -> dict[int, str]:
    """Who asked first for each measurement of a campaign."""
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
    """The parameters that the host module asked for; ValueError where that is no list of names."""
    told = row["host_read"]
    if told is not None and not (isinstance(told, list) and all(type(n) is str for n in told)):
        raise ValueError(f"host_read is {told!r}")
    return None if told is None else tuple(told)


def timing_of(row: Mapping[Any, Any], samples_s: Sequence[float]) -> Timing | None:
    """The timing of a row of measurements; ValueError where its outcome does not allow it."""
    if Outcome(row["outcome"]) is Outcome.OK:
        return Timing(tuple(samples_s), StopReason(row["stopped"]))
    if samples_s:
        raise ValueError(f"it has samples although its outcome is {row['outcome']}")
    return None


def _build(row: Mapping[Any, Any]) -> Build | None:
    return Build(**{name: row[name] for name in BUILD_COLUMNS}) if row["key"] is not None else None


def worst_element_of(row: Mapping[Any, Any]) -> WorstElement | None:
    """The element that a wrong result was worst in; NaN and infinities are stored as text."""
    told = row["worst_element"]
    if told is None:
        return None
    return WorstElement(
        argument=told["argument"],
        index=tuple(told["index"]),
        found=_number(told["found"]),
        expected=_number(told["expected"]),
        tolerance=_number(told["tolerance"]),
        wrong_count=told["wrong_count"],
        count=told["count"],
    )


def _number(told: object) -> int | float:
    if isinstance(told, str):
        return float(told)
    if isinstance(told, (int, float)):
        return told
    raise ValueError(f"{told!r} is no number")
