"""Builds on disk: what was compiled once is never compiled again.

A build's key covers source, includes, options, compiler version and device, so that an entry
is never stale. Entries are written aside and renamed, so that a cut leaves none half-written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from pathlib import Path

import platformdirs

from harness.backends.base import Binary
from harness.records import Build

_FORMAT = 1


def cache_folder(part: str) -> Path:
    """A folder of the cache, made if missing: below HARNESS_CACHE_DIR, or the user's cache."""
    root = os.environ.get("HARNESS_CACHE_DIR") or platformdirs.user_cache_dir("harness")
    folder = Path(root) / part
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class BuildCache:
    """Binaries by key; each is one file: a line of JSON about the build, then the binary."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("builds")

    def get(self, key: str) -> Binary | None:
        """The binary of this key, marked as cached; None where there is none that is whole."""
        try:
            head, _, data = self._file(key).read_bytes().partition(b"\n")
            entry = json.loads(head)
            if entry["format"] != _FORMAT or entry["size_bytes"] != len(data):
                return None
            build = Build(**entry["build"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return Binary(dataclasses.replace(build, cached=True), data)

    def put(self, binary: Binary) -> None:
        """Keep a binary under its build's key."""
        entry = {
            "format": _FORMAT,
            "size_bytes": len(binary.data),
            "build": dataclasses.asdict(binary.build),
        }
        target = self._file(binary.build.key)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(json.dumps(entry).encode() + b"\n" + binary.data)
        os.replace(file.name, target)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"
