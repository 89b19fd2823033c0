"""Identify a large database file by its bytes, for what is kept of it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

SMALLEST_BYTES = 16 << 20
"""A smaller file is read and checked at least as fast."""

_BLOCK = 1 << 22


def file_digest(path: Path) -> str | None:
    """Return a digest of the bytes of a large SQLite file; None for a small one, and where a log
    beside it holds changes."""
    try:
        logs = [path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")]
        if any(log.exists() and log.stat().st_size for log in logs):
            return None
        found = path.stat()
        if found.st_size < SMALLEST_BYTES:
            return None
        state = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        return _digest(path.resolve(), state)
    except OSError:
        return None


@lru_cache(maxsize=16)
def _digest(path: Path, state: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file in this state."""
    digest = hashlib.sha256(str(state[0]).encode())
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
