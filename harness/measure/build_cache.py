"""Builds on disk: what was compiled once is never compiled again.

A build's key covers source, includes, options, compiler version and device, so that an entry
is never stale. Entries are written aside and renamed, and begin with a digest of themselves:
what was cut short, changed or misplaced is no entry.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.program import Binary
from harness.core.records import Build

_FORMAT = b"harness-build-4"  # 3 kept builds that had not obeyed their flags


class BuildCache:
    """Binaries by key; each is one file: format, digest of the rest, JSON of the build, binary."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("builds")

    def get(self, key: str) -> Binary | None:
        """The binary of this key, marked as cached; None where there is none that is whole."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        head, _, rest = content.partition(b"\n")
        if head != _head(rest):
            return None
        told, _, data = rest.partition(b"\n")
        try:
            build = Build(**json.loads(told))
        except TypeError:  # another version of the harness wrote it
            return None
        return Binary(dataclasses.replace(build, cached=True), data) if build.key == key else None

    def put(self, binary: Binary) -> None:
        """Keep a binary under its build's key; raises UsageError where the disk refuses."""
        told = json.dumps(dataclasses.asdict(binary.build)).encode()
        rest = told + b"\n" + binary.data
        target = self._file(binary.build.key)
        content = _head(rest) + b"\n" + rest
        write_file(target, content, advice=CACHE_ADVICE, parents=True)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"


def _head(rest: bytes) -> bytes:
    return _FORMAT + b" " + hashlib.sha256(rest).hexdigest().encode()
