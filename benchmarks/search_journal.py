"""Save each search when it ends, so that an interrupted run loses none of them.

The journal is a file of JSON lines, one for each search; the searching processes append to it. The
key of a search is everything that decides its course: the content of the recording, the input, the
technique, the seed, the budget, its warm start, and the code of this project with the versions of
its libraries.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import harness
from harness.core.files import unwritable

_LIBRARIES = ("opentuner", "numpy", "scipy", "scikit-learn", "kernel_tuner", "pyatf")


@dataclass(frozen=True)
class Search:
    """The key of a search; recordings are the SHA-256 of their content."""

    recording: str
    input: str
    technique: str
    seed: int
    budget: int
    taught: tuple[str, ...]  # the warm start
    code: str


@dataclass(frozen=True)
class Journal:
    """A file of courses: each search's best seconds after each test."""

    path: Path

    def begin(self) -> None:
        """Make the file ready to append to; raise UsageError if that is impossible.

        Ends a line that was cut when a process was killed.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
        except OSError as error:
            raise unwritable(self.path, error) from None

    def add(self, search: Search, best_s: Sequence[float]) -> None:
        """Append a course in one write, so that concurrent processes do not mix their lines."""
        row = {**asdict(search), "tests": len(best_s), "best_s": list(_changes(best_s))}
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError(f"{self.path}: the disk is full")
        finally:
            os.close(descriptor)

    def read(self) -> dict[Search, list[float]]:
        """Read all courses; skip a line that was cut when a process was killed."""
        with self.path.open(encoding="utf-8") as file:
            return dict(found for line in file if (found := _course(line)) is not None)


def _changes(best_s: Sequence[float]) -> Iterator[tuple[int, float | None]]:
    """Yield the tests that found a new best, from 1, with its time; None stands for infinity."""
    for test, time_s in enumerate(best_s):
        if test == 0 or time_s != best_s[test - 1]:
            yield test + 1, None if math.isinf(time_s) else time_s


def _course(line: str) -> tuple[Search, list[float]] | None:
    try:
        row: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    tests, changes = row.pop("tests"), row.pop("best_s")
    ends = [test for test, _ in changes[1:]] + [tests + 1]
    best_s: list[float] = []
    for (test, time_s), end in zip(changes, ends, strict=False):
        best_s += [math.inf if time_s is None else time_s] * (end - test)
    return Search(**{**row, "taught": tuple(row["taught"])}), best_s


@functools.cache
def code_digest() -> str:
    """Hash the searching code: its files and the versions of its libraries."""
    digest = hashlib.sha256(platform.python_version().encode())
    for name in _LIBRARIES:
        digest.update(f"{name} {_version(name)}\n".encode())
    for folder in (Path(harness.__file__).parent, Path(__file__).parent / "peers"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
