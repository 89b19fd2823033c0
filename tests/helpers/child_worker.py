"""What processes of tests import: nothing that takes long to load, since many of them die."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Worker(list[object]):
    """A worker that is a list, and runs any function."""

    def run(self, function: Callable[..., Any], *args: object) -> Any:
        """Call a function."""
        return function(*args)

    @property
    def is_spoilt(self) -> bool:
        """Say whether it may not be used again."""
        return "spoilt" in self


def process_of(_: object) -> int:
    """Return the id of the process that runs this."""
    return os.getpid()


def end_once(journal: Path, end: Callable[[int], object], argument: int) -> int:
    """End this process, but only at the first call."""
    with journal.open("a") as file:
        file.write("called\n")
    if len(journal.read_text().splitlines()) == 1:
        end(argument)
    return os.getpid()


class Unreadable(Exception):
    """An exception that does not survive being sent."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


def raise_unreadable() -> None:
    """Raise it."""
    raise Unreadable(1, 2)


def refuse() -> None:
    """Make no worker."""
    raise ValueError("no worker")
