"""The courses of searches as they end, so that a run that is stopped loses none of them.

A file of JSON lines, one a search, which the processes that search append to. A search is found
again by all that decides its course: the content of the recording, the input, the technique, the
seed, the budget, what taught it, and the code of this project with the versions of its libraries.
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
from harness.core.errors import UsageError

_LIBRARIES = ("opentuner", "numpy", "scipy", "scikit-learn", "kernel_tuner", "pyatf")


@dataclass(frozen=True)
class Search:
    """What decides the course of a search; recordings by the SHA-256 of their content."""

    recording: str
    input: str
    technique: str
    seed: int
    budget: int
    taught: tuple[str, ...]
    code: str


@dataclass(frozen=True)
class Journal:
    """A file of courses: of each search the best time after each test, in seconds."""

    path: Path

    def begin(self) -> None:
        """Make the file ready to be appended to; raises UsageError where that cannot be.

        What a process was killed in writing is ended, so that the next line is whole.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}") from None

    def add(self, search: Search, best_s: Sequence[float]) -> None:
        """Append a course, in one write: processes that append at once do not mix their lines."""
        told = {**asdict(search), "tests": len(best_s), "best_s": list(_changes(best_s))}
        line = (json.dumps(told, allow_nan=False) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError(f"{self.path}: the disk is full")
        finally:
            os.close(descriptor)

    def read(self) -> dict[Search, list[float]]:
        """All courses; a line that was cut by a kill is passed over."""
        with self.path.open(encoding="utf-8") as file:
            return dict(found for line in file if (found := _course(line)) is not None)


def _changes(best_s: Sequence[float]) -> Iterator[tuple[int, float | None]]:
    """The tests that found a new best, from 1; None stands for what JSON has no number for: that
    nothing has worked yet."""
    for test, time_s in enumerate(best_s):
        if test == 0 or time_s != best_s[test - 1]:
            yield test + 1, None if math.isinf(time_s) else time_s


def _course(line: str) -> tuple[Search, list[float]] | None:
    try:
        told: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    tests, changes = told.pop("tests"), told.pop("best_s")
    ends = [test for test, _ in changes[1:]] + [tests + 1]
    best_s: list[float] = []
    for (test, time_s), end in zip(changes, ends, strict=False):
        best_s += [math.inf if time_s is None else time_s] * (end - test)
    return Search(**{**told, "taught": tuple(told["taught"])}), best_s


@functools.cache
def code_digest() -> str:
    """What stands for the code that searches: its files, and the versions of what it uses."""
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
