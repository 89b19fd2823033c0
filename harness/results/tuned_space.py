"""Find the space that a database was tuned from, and say how to tune it again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.text import escaped
from harness.results.url import sqlite_path


@dataclass(frozen=True)
class TunedSpace:
    """What runs note of their space: the paths of its file as the commands named it, the last one
    first; none in an older database. A space built in Python has its name in angle brackets."""

    name: str
    noted: Sequence[str]
    databases: Sequence[str]
    is_tuned: bool = True
    """Whether harness tuned it. Otherwise there is only a record, to which tuning adds nothing."""

    @property
    def is_in_python(self) -> bool:
        """Whether the last space was built in Python, so that there is no file."""
        return bool(self.noted) and Path(self.noted[0]).name.startswith("<")

    @property
    def file(self) -> str:
        """The path of the file as the last command named it, which may not be there."""
        return escaped(self.noted[0]) if self.noted else f"spaces/{self.name}.yaml"

    @property
    def place(self) -> str:
        """Where `tune_again` runs, for a sentence; empty where it runs here."""
        if not self.is_tuned:
            return f"after writing a space for {escaped(self.name)}"
        if self.is_in_python:
            return "in Python"
        return "" if self.path else "in the folder where you tuned"

    @cached_property
    def path(self) -> Path | None:
        """The file as seen from the current folder; None where it is not found. A relative path is
        also sought from the database's folder and from the one above, for a `results/NAME.db`."""
        paths = (*self.noted, f"spaces/{self.name}.yaml")
        folders = list(self._folders())
        found = (
            os.path.normpath(os.path.join(folder, path))
            for path in paths
            if path.endswith((".yaml", ".yml"))
            for folder in folders
        )
        return next((Path(path) for path in found if os.path.isfile(path)), None)

    def _folders(self) -> Iterator[str]:
        yield ""
        for database in self.databases:
            path = sqlite_path(database)
            if path is not None:
                yield from (str(path.parent), str(path.parent / ".."))
