"""The runs of a database: campaigns, what each run was asked for, and what was noted of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from harness.core.records import Config, Environment, Input, Value
from harness.results import schema
from harness.results.notes import BASELINES, last_moment, read_notes
from harness.results.read import Key, Row, of_campaign, read_measurements, refusing_damage
from harness.results.sessions import Command, read_commands


@dataclass(frozen=True)
class Campaign:
    """Comparable measurements of one space: what `Key` selects, and how to tell of it."""

    key: Key
    space_name: str
    title: str
    environment: Environment
    default: Config
    roles: Mapping[str, str]
    constraints: tuple[str, ...] = ()
    baselines: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By name, what each sets beside the default."""


@dataclass(frozen=True)
class Run:
    """What one search of one input was asked for, and when; dates are ISO 8601 in UTC."""

    uuid: str
    given: Input
    technique: str
    seed: int
    test_limit: int
    started_at: str
    last_at: str
    """When it was last begun, continued or ended."""
    state: str
    """complete; interrupted, by hand or as its time was up; or running, until it is killed."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """By name, texts; some of them JSON (harness.results.notes)."""


def campaigns(connection: Connection) -> list[Campaign]:
    """Every campaign of a database, the one that was worked on last first: going on with an old
    campaign makes it the last. Several spaces of one program each have their own of one key.

    Raises ResultsError where the database is damaged.
    """
    query = (
        select(
            schema.spaces,
            schema.environments,
            *(schema.runs.c[name] for name in ("campaign", "notes", "started_at", "ended_at")),
        )
        .select_from(schema.runs.join(schema.spaces).join(schema.environments))
        .order_by(schema.runs.c.id.desc())
    )
    found: dict[tuple[Key, str], Campaign] = {}
    with refusing_damage(connection):
        rows = connection.execute(query).mappings().all()
        for row in sorted(rows, key=last_moment, reverse=True):
            key = Key(row["program_sha256"], row["fingerprint"], row["campaign"])
            if (key, row["name"]) not in found:
                found[key, row["name"]] = _campaign(key, row)
    return list(found.values())


def _campaign(key: Key, row: Mapping[Any, Any]) -> Campaign:
    told = ("backend", "device", "platform", "driver", "compiler")
    parameters, notes = row["parameters"], read_notes(row["notes"])
    return Campaign(
        key,
        row["name"],
        row["title"],
        Environment(**{name: row[name] for name in told}),
        Config({name: p["default"] for name, p in parameters.items()}),
        {name: p["role"] for name, p in parameters.items()},
        tuple(row["constraints"]),
        json.loads(notes.get(BASELINES, "{}")),
    )


def read_campaign(
    connection: Connection, campaign: Campaign
) -> tuple[tuple[Row, ...], tuple[Run, ...], tuple[Command, ...]]:
    """All that a database holds of a campaign: measurements, runs and commands, oldest first.

    Raises ResultsError where the database is damaged.
    """
    key, name = campaign.key, campaign.space_name
    return (
        tuple(read_measurements(connection, key, space=name)),
        tuple(read_runs(connection, key, name)),
        tuple(read_commands(connection, key, name)),
    )


def read_runs(connection: Connection, key: Key, space: str) -> list[Run]:
    """The runs of a campaign of the space of this name, the first begun first.

    Raises ResultsError where the database is damaged.
    """
    query = (
        select(schema.runs, schema.inputs.c.features)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*of_campaign(schema.runs, key, space))
        .order_by(schema.runs.c.id)
    )
    with refusing_damage(connection):
        return [_run(row) for row in connection.execute(query).mappings()]


def _run(row: Mapping[Any, Any]) -> Run:
    notes = read_notes(row["notes"])
    return Run(
        row["uuid"],
        Input(row["features"]),
        row["technique"],
        row["seed"],
        row["test_limit"],
        row["started_at"],
        last_moment(row),
        row["state"],
        notes,
    )
