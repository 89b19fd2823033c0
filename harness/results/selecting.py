"""Select what belongs to a campaign, and refuse a damaged database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table

from harness.core.errors import ResultsError
from harness.core.records import Input
from harness.results import schema
from harness.results.connect import shown_name


@dataclass(frozen=True)
class CampaignKey:
    """The fields that comparable measurements share; a `problem` of None selects every input."""

    program_sha256: str
    fingerprint: str
    campaign: int
    problem: Input | None = None


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
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        raise ResultsError(
            f"{shown_name(connection)} is damaged: {reason}; copy it again from the original"
        ) from error
