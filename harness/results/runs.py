"""The runs of a database: campaigns, what each run was asked for, and what was noted of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from harness.records import Config, Environment, Input, Value
from harness.results import schema
from harness.results.read import Key, refusing_damage

CONTINUED = "continued_at"
"""The note of a run when it was last gone on with."""

EXHAUSTED = "exhausted"
"""The note of a run whether every legal configuration of its input was measured: yes or no."""

INPUTS = "inputs"
"""The note of a command's first run of all inputs that it was asked for, as JSON."""

LEFT_OUT = "left_out"
"""The note of a command's first run, at its end, of what it left out, as `left_out_note` has it."""

LIMITS = "limits"
"""The note of a run of the device's numbers that constraints and launches may name, as JSON."""


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
    """What one search of one input was asked for, and when; dates are ISO 8601 in UTC.

    `asked`, `left_out` and `notices` are of the whole command, and stand with its first run alone:
    all of its inputs; those that it did not measure and why; and what else it left out.
    """

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
    asked: tuple[Input, ...] = ()
    left_out: Mapping[Input, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


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
        for row in sorted(rows, key=_last_moment, reverse=True):
            key = Key(row["program_sha256"], row["fingerprint"], row["campaign"])
            if (key, row["name"]) not in found:
                found[key, row["name"]] = _campaign(key, row)
    return list(found.values())


def _last_moment(row: Mapping[Any, Any]) -> str:
    """When a run was last begun, continued or ended, ISO 8601 in UTC."""
    moments = (row["started_at"], row["notes"].get(CONTINUED), row["ended_at"])
    return max(str(moment) for moment in moments if moment)


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
        tuple(row["constraints"]),
        {
            str(name): dict(values)
            for name, values in json.loads(row["notes"].get("baselines", "{}")).items()
        },
    )


def read_runs(connection: Connection, key: Key) -> list[Run]:
    """The runs of a campaign, the first begun first.

    Raises ResultsError where the database is damaged.
    """
    query = (
        select(schema.runs, schema.inputs.c.features)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*_of_campaign(key))
        .order_by(schema.runs.c.id)
    )
    with refusing_damage(connection):
        return [
            Run(
                row["uuid"],
                Input(row["features"]),
                row["technique"],
                row["seed"],
                row["test_limit"],
                row["started_at"],
                _last_moment(row),
                row["state"],
                tuple(map(Input, json.loads(row["notes"].get(INPUTS, "[]")))),
                *_left_out(row["notes"].get(LEFT_OUT)),
            )
            for row in connection.execute(query).mappings()
        ]


def inputs_note(inputs: Iterable[Input]) -> str:
    """All inputs that a command was asked for, as `read_runs` reads them again."""
    return json.dumps([dict(given) for given in inputs])


def left_out_note(inputs: Mapping[Input, str], notices: Iterable[str]) -> str:
    """Inputs that were not measured and why, and what else was left out, as `read_runs` reads
    them again."""
    reasons = [[dict(given), why] for given, why in inputs.items()]
    return json.dumps({"inputs": reasons, "notices": list(notices)})


def _left_out(text: str | None) -> tuple[dict[Input, str], tuple[str, ...]]:
    if text is None:
        return {}, ()
    told = json.loads(text)
    reasons = {Input(features): str(why) for features, why in told["inputs"]}
    return reasons, tuple(map(str, told["notices"]))


def run_notes(connection: Connection, key: Key) -> dict[Input, dict[str, str]]:
    """What was noted of the runs of each input, the last one's first of equal names.

    Raises ResultsError where the database is damaged.
    """
    query = (
        select(schema.inputs.c.features, schema.runs.c.notes)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*_of_campaign(key))
        .order_by(schema.runs.c.id)
    )
    found: dict[Input, dict[str, str]] = {}
    with refusing_damage(connection):
        for features, notes in connection.execute(query):
            found.setdefault(Input(features), {}).update(notes)
    return found


def _of_campaign(key: Key) -> tuple[ColumnElement[bool], ...]:
    return (
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        schema.runs.c.campaign == key.campaign,
    )
