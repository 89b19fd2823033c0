"""A configuration that notes what is asked of it: what it was not asked for cannot matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.records import Config, Value


class WatchedConfig(Mapping[str, Value]):
    """A configuration as host modules get it, which adds what they ask for to `asked`.

    Two configurations that agree in all that was asked for are one to the module. No subclass of
    dict: what reads a dict past its methods, as eval() does, would not be noted.
    """

    def __init__(self, config: Config, asked: set[str] | None = None) -> None:
        self._config = config
        self._asked = set() if asked is None else asked

    def __getitem__(self, name: str) -> Value:
        self._asked.add(str(name))  # also where there is none: another configuration may have one
        return self._config[name]

    def __iter__(self) -> Iterator[str]:
        self._asked.update(self._config)
        return iter(self._config)

    def __len__(self) -> int:
        self._asked.update(self._config)
        return len(self._config)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | dict(self)

    def copy(self) -> dict[str, Value]:
        """A dict to change."""
        return dict(self)
