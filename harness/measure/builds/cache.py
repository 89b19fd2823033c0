"""Keep builds on disk, so that nothing is compiled twice.

A build's key covers source, includes, options, compiler version and device, so that an entry is
never stale. An entry begins with a digest of itself: one that is truncated, changed or under
another key is ignored. So is one for which the compiler read a file that has changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.core.files import (
    CACHE_ADVICE,
    cache_folder,
    mark_used,
    trim_folder,
    write_file,
)
from harness.core.program import Binary
from harness.core.records import Build

_FORMAT = b"harness-build-6"  # format 5 did not keep which files the compiler read

_MOST_BYTES = 2 << 30


class BuildCache:
    """Binaries by key; each is one file: format, digest of the rest, JSON of the build, binary."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("builds")

    def get(self, key: str) -> Binary | None:
        """Return the binary of this key, marked as cached; None without a valid entry."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        head, _, rest = content.partition(b"\n")
        if head != _head(rest):
            return None
        record, _, data = rest.partition(b"\n")
        try:
            known = json.loads(record)
            build, read = Build(**known["build"]), tuple(map(tuple, known["read"]))
        except (KeyError, TypeError, ValueError):  # another version of harness wrote it, or none
            return None
        if build.key != key or digests(path for path, _ in read) != read:
            return None
        mark_used(self._file(key))
        return Binary(dataclasses.replace(build, cached=True), data, read)

    def get_or_build(self, key: str, build: Callable[[], Binary]) -> Binary:
        """Return the binary of this key, or build and keep it; raises what `build` raises."""
        binary = self.get(key)
        if binary is None:
            binary = build()
            self.put(binary)
        return binary

    def put(self, binary: Binary) -> None:
        """Keep a binary under its build's key; raises UsageError where it cannot be written."""
        build = dataclasses.asdict(binary.build)
        record = json.dumps({"build": build, "read": binary.read}).encode()
        rest = record + b"\n" + binary.data
        target = self._file(binary.build.key)
        content = _head(rest) + b"\n" + rest
        write_file(target, content, advice=CACHE_ADVICE, parents=True)

    def trim(self, most_bytes: int = _MOST_BYTES) -> None:
        """Remove the binaries that were unused longest, of more than 2 GiB."""
        trim_folder(self._folder, most_bytes)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"


def digests(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return files with the SHA-256 of each, empty where it cannot be read."""
    return tuple((path, _digest(path)) for path in paths)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _head(rest: bytes) -> bytes:
    return _FORMAT + b" " + hashlib.sha256(rest).hexdigest().encode()
