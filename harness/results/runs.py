"""Read the campaigns of a database, their runs and commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from harness.core.records import ENVIRONMENT_FIELDS, Config, Environment, Input, Value
from harness.results import schema
from harness.results.notes import BASELINES, last_moment, read_notes
from harness.results.read import MeasurementRow, read_measurements
from harness.results.selecting import CampaignKey, of_campaign, refusing_damage
from harness.results.sessions import Command, command_of
from harness.results.stored_rows import StoredRow, read_rows, referred, rows_by_id


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
    found: dict[tuple[CampaignKey, str], StoredCampaign] = {}
    with refusing_damage(connection):
        spaces = rows_by_id(connection, schema.spaces)
        environments = rows_by_id(connection, schema.environments)
        runs = sorted(rows_by_id(connection, schema.runs).items(), reverse=True)
        for _, run in sorted(runs, key=lambda item: last_moment(item[1]), reverse=True):
            space = referred(schema.spaces, spaces, run["space_id"])
            environment = referred(schema.environments, environments, run["environment_id"])
            key = CampaignKey(space["program_sha256"], environment["fingerprint"], run["campaign"])
            if (key, space["name"]) not in found:
                found[key, space["name"]] = _campaign(key, space, environment, run)
    return list(found.values())


def _campaign(
    key: CampaignKey, space: StoredRow, environment: StoredRow, run: StoredRow
) -> StoredCampaign:
    parameters, notes = space["parameters"], read_notes(run["notes"])
    return StoredCampaign(
        key,
        space["name"],
        space["title"],
        Environment(**{name: environment[name] for name in ENVIRONMENT_FIELDS}),
        Config({name: p["default"] for name, p in parameters.items()}),
        {name: p["role"] for name, p in parameters.items()},
        tuple(space["constraints"]),
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
    tables = schema.runs.join(schema.spaces).join(schema.environments)
    chosen = (
        select(schema.runs.c.id).select_from(tables).where(*of_campaign(schema.runs, key, space))
    )
    with refusing_damage(connection):
        inputs = rows_by_id(connection, schema.inputs)
        return [
            _run(row, referred(schema.inputs, inputs, row["input_id"]))
            for row in read_rows(connection, schema.runs, chosen)
        ]


def read_commands(connection: Connection, key: CampaignKey, space: str) -> list[Command]:
    """Return the commands of a campaign and a space, in the order in which they began.

    Databases before schema version 4 have none.

    Raises ResultsError where the database is damaged.
    """
    tables = schema.commands.join(schema.spaces).join(schema.environments)
    conditions = of_campaign(schema.commands, key, space)
    chosen = select(schema.commands.c.id).select_from(tables).where(*conditions)
    with refusing_damage(connection):
        return [command_of(row) for row in read_rows(connection, schema.commands, chosen)]


def _run(row: StoredRow, problem: StoredRow) -> Run:
    notes = read_notes(row["notes"])
    return Run(
        row["uuid"],
        Input(problem["features"]),
        row["technique"],
        row["seed"],
        row["test_limit"],
        row["started_at"],
        last_moment(row),
        row["state"],
        notes,
    )
