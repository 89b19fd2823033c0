"""Check a large file once: not again while it has the same bytes, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

from harness.core.kept import Kept, content_key
from harness.results.file_digest import file_digest
from harness.results.url import sqlite_path

SOUND = "no damage"
"""A reader's look at the file."""

INDICES = "no damage, and indices that fit their tables"
"""A writer's look at the file, which takes three times as long."""

RECORD = "OpenTuner's record agrees"
WRITTEN_RECORD = "OpenTuner's record agreed when harness began to write"


def check_once(database: str, what: str, check: Callable[[], None]) -> None:
    """Do a check that raises an error, unless these bytes have passed it before."""
    kept, key = _place(database, what)
    if key is None:
        check()
    else:
        kept.recall(key, check)


def note_written(database: str) -> None:
    """Note that harness alone wrote these bytes, to a file that had passed a writer's checks."""
    for what in (INDICES, WRITTEN_RECORD):
        kept, key = _place(database, what)
        if key is not None:
            kept.recall(key, lambda: None)


def _place(database: str, what: str) -> tuple[Kept, str | None]:
    """Return where it is kept that a large file passed a check; no key for others."""
    path = sqlite_path(database)
    digest = None if path is None else file_digest(path)
    if digest is None:
        return Kept(), None
    return Kept.in_cache(), content_key(what, digest)
