"""Keep what was computed, so that the same is not computed again.

A key covers everything that a value follows from: the data, the options, the source code of harness
and the versions of the libraries. So a kept value is never stale, and one that another database or
another version would give is never read. Values are kept in the user's own cache as plain JSON: a
database from elsewhere cannot bring any. An entry begins with a digest of itself: one that is
truncated, changed or under another key is ignored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.core.errors import UsageError
from harness.core.files import cache_folder, mark_used, trim_folder, write_file

T = TypeVar("T")

_FORMAT = "harness-kept-1"
_ROOMS = ("analysis", "core", "dispatch", "models", "report", "results", "stats")
_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "matplotlib")
_MOST_BYTES = 64 << 20
_CLASS, _PARTS = "class", "parts"  # of an encoded object


class Kept:
    """Values by key, one file each; without a folder nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @classmethod
    def in_cache(cls) -> Kept:
        """Keep values in the user's cache; nothing where it cannot be written.

        Of more than 64 MiB, those that were not read for longest are removed.
        """
        try:
            folder = cache_folder("kept")
        except UsageError:
            return cls()
        trim_folder(folder, _MOST_BYTES)
        return cls(folder)

    def recall(self, key: str, make: Callable[[], T], classes: Sequence[type] = ()) -> T:
        """Return the value of a key; make it, and keep it, where none is kept.

        A value consists of numbers, texts, tuples, mappings and objects of these classes, which are
        dataclasses or enumerations.
        """
        kept = self.get(key, classes)
        if kept is not None:
            found: T = kept
            return found
        made = make()
        self.put(key, made)
        return made

    def get(self, key: str, classes: Sequence[type] = ()) -> Any:
        """Return the value of a key; None without a valid entry."""
        if self._folder is None:
            return None
        try:
            head, _, text = self._file(key).read_text(encoding="utf-8").partition("\n")
            if head != _head(key, text):
                return None
            mark_used(self._file(key))
            return _decoded(json.loads(text), {one.__name__: one for one in classes})
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, value: object) -> None:
        """Keep a value, where that is possible."""
        if self._folder is None:
            return
        try:
            text = json.dumps(encoded(value), separators=(",", ":"))
            write_file(self._file(key), f"{_head(key, text)}\n{text}", parents=True)
        except (UsageError, RecursionError):
            pass  # a full disk, or a tree that is too deep: the next command computes it again

    def _file(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / f"{key}.json"


def content_key(kind: str, *parts: object) -> str:
    """Return the key of a computation of this kind from these parts: arrays and JSON data."""
    digest = hashlib.sha256(f"{_code_version()} {kind}".encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"\n{part.dtype.str} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"\n{json.dumps(part, sort_keys=True, default=repr)}\n".encode())
    return digest.hexdigest()


@cache
def _code_version() -> str:
    """Return a digest of the code that values follow from."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    digest.update(json.dumps([[name, version(name)] for name in _LIBRARIES]).encode())
    return digest.hexdigest()


def _head(key: str, text: str) -> str:
    return f"{_FORMAT} {hashlib.sha256(f'{key}{text}'.encode()).hexdigest()}"


def encoded(value: object) -> Any:
    """Turn a value into JSON data; different values give different data.

    Raises TypeError for what is no number, text, array, mapping, list, dataclass or enumeration.
    """
    if isinstance(value, np.generic | np.ndarray):
        return encoded(value.tolist())
    if isinstance(value, Enum):
        return {_CLASS: type(value).__name__, _PARTS: value.value}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {_CLASS: "", _PARTS: [[name, encoded(one)] for name, one in value.items()]}
    if isinstance(value, list | tuple):
        return [encoded(one) for one in value]
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"a {type(value).__name__} cannot be kept")
    parts = [encoded(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return {_CLASS: type(value).__name__, _PARTS: parts}


def _decoded(value: Any, classes: Mapping[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(one, classes) for one in value)
    if not isinstance(value, dict):
        return value
    name, parts = value[_CLASS], value[_PARTS]
    if name == "":
        return {key: _decoded(one, classes) for key, one in parts}
    kind = classes[name]
    return kind(parts) if issubclass(kind, Enum) else kind(*(_decoded(p, classes) for p in parts))
