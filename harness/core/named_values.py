"""An immutable mapping from names to plain values, the base of configurations and inputs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic_core import CoreSchema, core_schema

Value = bool | int | float | str | None
"""The value of a parameter; None is a compiler flag that is absent."""


def canonical_json(values: Mapping[str, Value]) -> str:
    """Return JSON text that is equal for equal mappings, whatever the order of their keys."""
    return json.dumps(dict(values), sort_keys=True, separators=(",", ":"))


def shown(value: Value) -> str:
    """Return a value as text: `absent` for a flag that is left out."""
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class NamedValues(Mapping[str, "Value"]):
    """An immutable, hashable mapping from names to plain values."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            if value is not None and type(value) not in (bool, int, float, str):
                kind = type(value).__name__
                raise TypeError(f"{name} must be a bool, int, float, str or None, but got a {kind}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, but got {value}")
        self._values = dict(values)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        """Let pydantic make one of the data that it reads."""
        return core_schema.no_info_plain_validator_function(cls)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._identity == other._identity

    @cached_property
    def _identity(self) -> frozenset[tuple[str, type, Value]]:
        """The key of equality: 1, 1.0 and True are three different values of a parameter, and 0.0
        and -0.0 are two, as in the canonical text."""
        return frozenset(
            (name, type(value), repr(value) if type(value) is float else value)
            for name, value in self._values.items()
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in self.items())

    @cached_property
    def json(self) -> str:
        """The canonical text, equal for equal values."""
        return canonical_json(self._values)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text, hexadecimal."""
        return hashlib.sha256(self.json.encode()).hexdigest()
