"""Builds on disk: what was compiled once is never compiled again.

A build's key covers source, includes, options, compiler version and device, so that an entry
is never stale. Entries are written aside and renamed, and begin with a digest of themselves:
what was cut short, changed or misplaced is no entry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from pathlib import Path

from harness.core.files import cache_folder, unwritable
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
        try:
            _write_whole(target, _head(rest) + b"\n" + rest)
        except OSError as error:
            raise unwritable(target, error) from None

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"


def _head(rest: bytes) -> bytes:
    return _FORMAT + b" " + hashlib.sha256(rest).hexdigest().encode()


def _write_whole(target: Path, content: bytes) -> None:
    """Write aside and rename, so that others find the whole file or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.replace(file.name, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
            raise
