"""Keep builds on disk.

A build's key covers source, includes, options, compiler version and device, so that an entry is
never stale; but one for which the compiler read a file that has changed is ignored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.program import Binary
from harness.core.records import Build

_MOST_BYTES = 2 << 30


class BuildCache:
    """Binaries by key; each is one file: a line of JSON, with its build, and the binary."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("builds")

    def get(self, key: str) -> Binary | None:
        """Return the binary of this key, marked as cached; None without an entry that holds."""
        path = self._file(key)
        try:
            record, _, data = path.read_bytes().partition(b"\n")
            entry = json.loads(record)
            build = Build(**entry["build"])
            read = tuple((name, digest) for name, digest in entry["read"])
        except (OSError, KeyError, TypeError, ValueError):  # there is none, or of another version
            return None
        if digests(name for name, _ in read) != read:
            return None
        with suppress(OSError):  # a cache that cannot be written is read all the same
            os.utime(path)
        return Binary(dataclasses.replace(build, cached=True), data, read)

    def put(self, binary: Binary) -> None:
        """Keep a binary under its build's key; raises UsageError where it cannot be written."""
        entry = {"build": dataclasses.asdict(binary.build), "read": binary.read}
        content = json.dumps(entry).encode() + b"\n" + binary.data
        write_file(self._file(binary.build.key), content, advice=CACHE_ADVICE, parents=True)

    def trim(self, most_bytes: int = _MOST_BYTES) -> None:
        """Remove the binaries that were unused longest, of more than 2 GiB; those that cannot be
        removed stay."""
        files = []
        size_bytes = 0
        for path in self._folder.rglob("*"):
            with suppress(OSError):  # it is gone by now
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, path, status.st_size))
                    size_bytes += status.st_size
        for _, path, file_bytes in sorted(files):
            if size_bytes <= most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                size_bytes -= file_bytes

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"


def digests(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return files with the SHA-256 of each, empty where it cannot be read."""
    read = []
    for path in paths:
        digest = ""
        with suppress(OSError):
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        read.append((path, digest))
    return tuple(read)
