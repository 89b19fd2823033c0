"""Reading results back as records; plain SQL, so that a foreign database can run no code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from harness.records import (
    Build,
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    WorstElement,
)
from harness.results import schema

STAGES = ("search", "cross", "final")


@dataclass(frozen=True)
class Key:
    """What measurements must share to be comparable; `given` None means every input."""

    program_sha256: str
    fingerprint: str
    campaign: int
    given: Input | None = None


@dataclass(frozen=True)
class Row:
    """A measurement as it was stored."""

    id: int
    stage: str
    measurement: Measurement


@dataclass(frozen=True)
class Campaign:
    """Comparable measurements of one space: what `Key` selects, and how to tell of it."""

    key: Key
    space_name: str
    title: str
    environment: Environment
    default: Config
    roles: Mapping[str, str]


def campaigns(connection: Connection) -> list[Campaign]:
    """Every campaign of a database, the one that was begun last first."""
    query = (
        select(schema.spaces, schema.environments, schema.runs.c.campaign)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments))
        .order_by(schema.runs.c.id.desc())
    )
    found: dict[Key, Campaign] = {}
    for row in connection.execute(query).mappings():
        key = Key(row["program_sha256"], row["fingerprint"], row["campaign"])
        found.setdefault(key, _campaign(key, row))
    return list(found.values())


def _campaign(key: Key, row: Mapping[Any, Any]) -> Campaign:
    told = ("backend", "device", "platform", "driver", "compiler")
    parameters = row["parameters"]
    return Campaign(
        key,
        row["name"],
        row["title"],
        Environment(**{name: row[name] for name in told}),
        Config({name: p["default"] for name, p in parameters.items()}),
        {name: p["role"] for name, p in parameters.items()},
    )


def read_measurements(
    connection: Connection, key: Key, stages: Iterable[str] = STAGES
) -> list[Row]:
    """The measurements that share a key, oldest first, with their raw samples."""
    samples = _samples(connection, key)
    rows = connection.execute(_selection(key, *_COLUMNS).order_by(schema.measurements.c.id))
    wanted = set(stages)
    return [
        Row(row["measurement_id"], row["stage"], _measurement(row, samples))
        for row in rows.mappings()
        if row["stage"] in wanted
    ]


_COLUMNS = (
    schema.measurements.c.id.label("measurement_id"),
    schema.measurements.c.stage,
    schema.measurements.c.outcome,
    schema.measurements.c.stopped,
    schema.measurements.c.message,
    schema.measurements.c.worst_element,
    schema.measurements.c.warmup_s,
    schema.measurements.c.wall_s,
    schema.configurations.c.parameters,
    schema.inputs.c.features,
    schema.builds.c.key,
    schema.builds.c.options,
    schema.builds.c.compiler,
    schema.builds.c.compile_s,
    schema.builds.c.binary_sha256,
    schema.builds.c.registers,
    schema.builds.c.shared_bytes,
    schema.builds.c.spill_bytes,
    schema.builds.c.log,
)


def _selection(key: Key, *columns: Any) -> Select[Any]:
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
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        schema.runs.c.campaign == key.campaign,
    ]
    if key.given is not None:
        conditions.append(schema.inputs.c.digest == key.given.digest)
    return select(*columns).select_from(tables).where(*conditions)


def _samples(connection: Connection, key: Key) -> dict[int, list[float]]:
    chosen = _selection(key, schema.measurements.c.id).subquery()
    query = (
        select(schema.samples)
        .join(chosen, schema.samples.c.measurement_id == chosen.c.id)
        .order_by(schema.samples.c.measurement_id, schema.samples.c.ordinal)
    )
    samples: dict[int, list[float]] = {}
    for measurement_id, _ordinal, time_s in connection.execute(query):
        samples.setdefault(measurement_id, []).append(time_s)
    return samples


def _measurement(row: Mapping[Any, Any], samples: Mapping[int, list[float]]) -> Measurement:
    outcome = Outcome(row["outcome"])
    timing = None
    if outcome is Outcome.OK:
        timing = Timing(tuple(samples[row["measurement_id"]]), StopReason(row["stopped"]))
    return Measurement(
        Config(row["parameters"]),
        Input(row["features"]),
        outcome,
        timing,
        _build(row),
        _worst(row["worst_element"]),
        row["message"],
        tuple(row["warmup_s"]),
        row["wall_s"],
    )


_BUILD = (
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


def _build(row: Mapping[Any, Any]) -> Build | None:
    return Build(**{name: row[name] for name in _BUILD}) if row["key"] is not None else None


def _worst(told: Mapping[str, Any] | None) -> WorstElement | None:
    if told is None:
        return None
    numbers = {name: float(told[name]) for name in ("found", "expected", "tolerance")}
    rest = {name: told[name] for name in ("argument", "wrong_count", "count")}
    return WorstElement(index=tuple(told["index"]), **rest, **numbers)


