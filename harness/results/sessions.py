"""The tuning commands of a database: what each was asked for, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from harness.core.records import Input
from harness.results import schema
from harness.results.connect import has_table
from harness.results.notes import check_printable, one_line
from harness.results.read import Key, of_campaign, refusing_damage

LEFT_OUT = "left out: "
"""What the reason of an input whose data cannot be made, or whose default does not work, begins
with."""


@dataclass(frozen=True)
class Command:
    """What one tuning command was asked for; dates are ISO 8601 in UTC.

    `left_out` and `stages` are known when it has ended: inputs that it did not measure, or not to
    the end, and why; and of each stage after the search that it began what that left out, an empty
    text where it left out nothing.
    """

    uuid: str
    inputs: tuple[Input, ...]
    started_at: str
    ended_at: str | None
    """None while it goes on, and where it was stopped by hand or killed."""
    left_out: Mapping[Input, str]
    stages: Mapping[str, str]


def read_commands(connection: Connection, key: Key, space: str) -> list[Command]:
    """The commands of a campaign of the space of this name, the first begun first; none in a
    database that is older than they.

    Raises ResultsError where the database is damaged.
    """
    if not has_table(connection, schema.commands):
        return []
    query = (
        select(schema.commands)
        .select_from(schema.commands.join(schema.spaces).join(schema.environments))
        .where(*of_campaign(schema.commands, key, space))
        .order_by(schema.commands.c.id)
    )
    with refusing_damage(connection):
        return [command_of(row) for row in connection.execute(query).mappings()]


def command_of(row: Mapping[Any, Any]) -> Command:
    """A row of commands; ValueError, TypeError or AttributeError where no harness wrote it."""
    check_printable([row["inputs"], row["left_out"], row["stages"]])
    texts = [*(why for _, why in row["left_out"]), *row["stages"].values()]
    texts += [row["started_at"], row["ended_at"] or ""]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"command {row['id']!r} has a reason or a date that is no text")
    return Command(
        row["uuid"],
        tuple(map(Input, row["inputs"])),
        row["started_at"],
        row["ended_at"],
        {Input(features): why for features, why in row["left_out"]},
        dict(row["stages"]),
    )


def inputs_told(inputs: Iterable[Input]) -> list[dict[str, object]]:
    """Inputs as `command_of` reads them again."""
    return [dict(given) for given in inputs]


def end_told(left_out: Mapping[Input, str], stages: Mapping[str, str]) -> dict[str, object]:
    """What a command left out, as `command_of` reads it again."""
    return {
        "left_out": [[dict(given), one_line(why)] for given, why in left_out.items()],
        "stages": {stage: one_line(text) for stage, text in stages.items()},
    }
