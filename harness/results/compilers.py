"""Read with which compilers a database's measurements of a space were made."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import func, select

from harness.core.errors import ResultsError
from harness.results import schema
from harness.results.connect import reading
from harness.results.url import sqlite_path


def stored_compilers(database: str, program_sha256: str) -> tuple[str, ...]:
    """Return the compilers of a program's runs in a database, last begun first; none where there
    is no database.

    What is wrong with a database is reported where it is opened for work.
    """
    path = sqlite_path(database)
    if path is not None and not path.is_file():
        return ()
    compiler = schema.environments.c.compiler
    query = (
        select(compiler)
        .select_from(schema.runs)
        .join(schema.spaces)
        .join(schema.environments)
        .where(schema.spaces.c.program_sha256 == program_sha256)
        .group_by(compiler)
        .order_by(func.max(schema.runs.c.id).desc())
    )
    with suppress(ResultsError), reading(database) as engine, engine.connect() as connection:
        found = connection.execute(query).scalars()
        return tuple(one for one in found if isinstance(one, str))  # a damaged file has others
    return ()
