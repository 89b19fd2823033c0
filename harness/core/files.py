"""Where what can be made again is kept: builds, locks of databases, PoCL's own cache."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from harness.core.errors import UsageError


def cache_folder(part: str) -> Path:
    """A folder of the cache, made if missing: below HARNESS_CACHE_DIR, or the user's cache.

    Raises UsageError where it cannot be made.
    """
    root = os.environ.get("HARNESS_CACHE_DIR") or platformdirs.user_cache_dir("harness")
    folder = Path(root) / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    return folder


def unwritable(path: Path, error: OSError) -> UsageError:
    """The error that says which path of the cache refused, why, and what to do."""
    return UsageError(
        f"the cache cannot be written at {path}: {error.strerror}; make room or set "
        "HARNESS_CACHE_DIR to a folder that can be written"
    )
