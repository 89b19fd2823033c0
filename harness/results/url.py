"""Read the name of a database: the path of a SQLite file, or the URL of a PostgreSQL server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from harness.core.errors import ResultsError

POSTGRES = "postgresql"
"""The name of the backend of a PostgreSQL server."""

_EXPECTED = f"write {POSTGRES}://USER:PASSWORD@HOST:PORT/NAME, or the path of a SQLite file"
_LOGIN = re.compile(r"((?:\w[\w+.-]+)?:/+[^:/@]*):.*@", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"(pass\w*=)[^&\s]*", re.IGNORECASE)


def without_password(database: str) -> str:
    """Return a database's name with its password hidden.

    This works on the text, not with SQLAlchemy's parser, so that it also hides the passwords of
    mistyped URLs and passwords with an @: everything between the user and the last @.
    """
    return _PASSWORD_OPTION.sub(r"\1***", _LOGIN.sub(r"\1:***@", database))


def database_url(database: str) -> URL:
    """Return a database's SQLAlchemy URL; a name without :// is the path of a SQLite file, and a
    PostgreSQL server is always spoken to by psycopg 3.

    Raises ResultsError for a URL that cannot be read, or is of another kind of database.
    """
    if "://" not in database:
        return URL.create("sqlite", database=database)
    try:
        url = make_url(database)
    except (ArgumentError, ValueError):
        raise ResultsError(f"{without_password(database)} is no database: {_EXPECTED}") from None
    if url.get_backend_name() in (POSTGRES, "postgres"):
        return url.set(drivername=f"{POSTGRES}+psycopg")
    if url.get_backend_name() != "sqlite":
        raise ResultsError(
            f"{without_password(database)} is neither a PostgreSQL server nor a SQLite file, and "
            f"harness works with these alone: {_EXPECTED}"
        )
    return url


def sqlite_path(database: str) -> Path | None:
    """Return the file of a SQLite database; None for servers and for a database in memory."""
    url = database_url(database)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if is_file else None


def is_postgres(database: str) -> bool:
    """Whether a database is on a PostgreSQL server."""
    return database_url(database).get_backend_name() == POSTGRES


def read_only_url(database: str) -> URL:
    """Return the URL that opens a database read-only."""
    path = sqlite_path(database)
    if path is None:
        return database_url(database)
    query = {"mode": "rw", "uri": "true"}
    # SQLite puts the index of its write-ahead log next to the file. Where it cannot, `immutable`
    # says that nobody else can change the file either.
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        query |= {"mode": "ro", "immutable": "1"}
    return URL.create("sqlite", database=path.resolve().as_uri(), query=query)


def shown_database(database: str) -> str:
    """Return the path of a SQLite database, or a URL without its password."""
    return f"{sqlite_path(database) or without_password(database)}"
