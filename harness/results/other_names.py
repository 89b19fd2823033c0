"""The names under which a database knows spaces: spaces of equal program and parameters are one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, select

from harness.core.text import printable
from harness.results import schema
from harness.results.reader import Row
from harness.space_file import Spec


def other_names(spaces: Iterable[Row], target: Connection, programs: Collection[str]) -> list[str]:
    """Say which spaces of these programs the target knows under another name."""
    query = select(schema.spaces.c.sha256, schema.spaces.c.name)
    known = {row.sha256: row.name for row in target.execute(query)}
    own = [(s["name"], known[s["sha256"]]) for s in spaces if s["program_sha256"] in programs]
    return [_note(name, there) for name, there in own if name != there]


def other_name(connection: Connection, spec: Spec) -> str | None:
    """Say under which other name a database knows a space; None where it is its own."""
    query = select(schema.spaces.c.name).where(schema.spaces.c.sha256 == spec.space_sha256)
    name = connection.execute(query).scalar()
    return None if name in (None, spec.name) else _note(spec.name, name)


def _note(name: str, known: str) -> str:
    return (
        f"the space `{printable(name)}` is there as `{printable(known)}`, with equal program and "
        f"parameters: its measurements count as those of `{printable(known)}`"
    )
