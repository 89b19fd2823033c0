"""Read the campaigns of a database and their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from harness.core.records import ENVIRONMENT_FIELDS, Config, Environment, Input, Value
from harness.results import schema
from harness.results.notes import BASELINES, last_moment, read_notes
from harness.results.read import (
    CampaignKey,
    MeasurementRow,
    of_campaign,
    read_measurements,
    refusing_damage,
)
from harness.results.sessions import Command, read_commands


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign as stored: comparable measurements of one space, and how to describe them."""

    key: CampaignKey
    space_name: str
    title: str
    environment: Environment
    default: Config
    roles: Mapping[str, str]
    constraints: tuple[str, ...] = ()
    baselines: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By name, the values that differ from the default."""


@dataclass(frozen=True)
class Run:
    """One search of one input: what it was asked for, and when. Dates are ISO 8601 in UTC."""

    uuid: str
    problem: Input
    technique: str
    seed: int
    test_limit: int
    started_at: str
    last_at: str
    """When the run was last begun, continued or ended."""
    state: str
    """complete; interrupted, by hand or by its time limit; or running, even if it was killed."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Texts by name, some of them JSON (harness.results.notes)."""


def campaigns(connection: Connection) -> list[StoredCampaign]:
    """Return every campaign of a database, the one that was worked on last first.

    Spaces that share a program have a campaign each, with the same key.

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
    found: dict[tuple[CampaignKey, str], StoredCampaign] = {}
    with refusing_damage(connection):
        rows = connection.execute(query).mappings().all()
        for row in sorted(rows, key=last_moment, reverse=True):
            key = CampaignKey(row["program_sha256"], row["fingerprint"], row["campaign"])
            if (key, row["name"]) not in found:
                found[key, row["name"]] = _campaign(key, row)
    return list(found.values())


def _campaign(key: CampaignKey, row: Mapping[Any, Any]) -> StoredCampaign:
    parameters, notes = row["parameters"], read_notes(row["notes"])
    return StoredCampaign(
        key,
        row["name"],
        row["title"],
        Environment(**{name: row[name] for name in ENVIRONMENT_FIELDS}),
        Config({name: p["default"] for name, p in parameters.items()}),
        {name: p["role"] for name, p in parameters.items()},
        tuple(row["constraints"]),
        json.loads(notes.get(BASELINES, "{}")),
    )


def read_campaign(
    connection: Connection, campaign: StoredCampaign
) -> tuple[tuple[MeasurementRow, ...], tuple[Run, ...], tuple[Command, ...]]:
    """Return the measurements, runs and commands of a campaign, oldest first.

    Raises ResultsError where the database is damaged.
    """
    key, name = campaign.key, campaign.space_name
    return (
        tuple(read_measurements(connection, key, space=name)),
        tuple(read_runs(connection, key, name)),
        tuple(read_commands(connection, key, name)),
    )


def read_runs(connection: Connection, key: CampaignKey, space: str) -> list[Run]:
    """Return the runs of a campaign and a space, in the order in which they began.

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
