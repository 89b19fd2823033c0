"""A configuration that records which parameters are read: the others cannot matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.records import Config, Value


class TrackedConfig(Mapping[str, Value]):
    """A configuration for host modules; `read` holds the names of the parameters that they read.

    Two configurations that agree in all of these are the same to the module. It is no subclass of
    dict, since eval() and others read a dict without its methods.
    """

    def __init__(self, config: Config) -> None:
        self.untracked = config
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self.read.add(str(name))  # even if missing here: another configuration may have it
        return self.untracked[name]

    def __iter__(self) -> Iterator[str]:
        self.read.update(self.untracked)
        return iter(self.untracked)

    def __len__(self) -> int:
        self.read.update(self.untracked)
        return len(self.untracked)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | dict(self)

    def copy(self) -> dict[str, Value]:
        """Return a dict to change."""
        return dict(self)
