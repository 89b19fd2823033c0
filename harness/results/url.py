"""Where a database is: a SQLite file by its path, or any SQLAlchemy URL."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from harness.core.errors import ResultsError

_LOGIN = re.compile(r"((?:\w[\w+.-]+)?:/+[^:/@]*):.*@", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"(pass\w*=)[^&\s]*", re.IGNORECASE)


def shown_place(place: str) -> str:
    """A database's place without its password.

    By text, not by SQLAlchemy's parser: passwords with an @ and URLs that are mistyped are
    hidden as well, with all between the user and the last @.
    """
    return _PASSWORD_OPTION.sub(r"\1***", _LOGIN.sub(r"\1:***@", place))


def database_url(place: str) -> URL:
    """A SQLAlchemy URL; anything without :// is the path of a SQLite file.

    Raises ResultsError for text that is neither.
    """
    if "://" not in place:
        return URL.create("sqlite", database=place)
    try:
        return make_url(place)
    except (ArgumentError, ValueError):
        raise ResultsError(
            f"{shown_place(place)} is no database: a URL reads "
            "DIALECT://USER:PASSWORD@HOST:PORT/NAME, and a SQLite file is given by its path"
        ) from None


def sqlite_path(place: str) -> Path | None:
    """The file of a SQLite database; None for other kinds and for one in memory."""
    url = database_url(place)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if is_file else None


def read_only_url(place: str) -> URL:
    """The URL that opens a database without a way to change it."""
    path = sqlite_path(place)
    if path is None:
        return database_url(place)
    query = {"mode": "ro", "uri": "true"}
    # SQLite wants to put its index of the write-ahead log beside the file; where it cannot,
    # it has to be told that nobody else can change the file either.
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        query["immutable"] = "1"
    return URL.create("sqlite", database=path.resolve().as_uri(), query=query)
