"""Store what was computed, so that the same is not computed again.

A key covers the data, the options, the source code of harness and the versions of the libraries, so
a stored value is always current. Values are pickles, which may run code, so their folder belongs to
the user, and nobody else may enter it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from harness.core.errors import UsageError
from harness.core.files import cache_folder

if TYPE_CHECKING:
    from joblib import Memory

T = TypeVar("T")

_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "matplotlib")
_MOST_BYTES = 64 << 20


class Cache:
    """Values by key; without a folder nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> Cache:
        """Keep values in the user's cache; nothing where it cannot be written, or is another
        user's."""
        try:
            folder = cache_folder("kept")
            if folder.stat().st_uid != os.geteuid():
                return cls()
            folder.chmod(0o700)
        except (UsageError, OSError):
            return cls()
        return cls(folder)

    def has(self, key: str) -> bool:
        """Say whether the value of a key is kept."""
        return bool(self._make.check_call_in_cache(key, None))

    def recall(self, key: str, make: Callable[[], T]) -> T:
        """Return the value of a key; make it, and keep it, where none is kept.

        Of more than 64 MiB, values that were not read for longest are removed.
        """
        is_kept = self.has(key)
        with warnings.catch_warnings():
            # A full disk, or a tree that is too deep: the next command computes it again.
            warnings.filterwarnings("ignore", "Unable to cache")
            value: T = self._make(key, make)
        if not is_kept:
            self._memory.reduce_size(bytes_limit=_MOST_BYTES)
        return value

    @cached_property
    def _memory(self) -> Memory:
        from joblib import Memory  # here: it takes a while to load

        return Memory(self._folder, verbose=0)

    @cached_property
    def _make(self) -> Any:
        return self._memory.cache(_made, ignore=["make"])


def _made(key: str, make: Callable[[], T]) -> T:
    return make()


def content_key(kind: str, *parts: object) -> str:
    """Return the key of a computation of this kind from these parts: numbers, texts, arrays,
    mappings, lists, dataclasses and enumerations."""
    digest = hashlib.sha256(f"{_code_version()} {kind}".encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"\n{part.dtype.str} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"\n{json.dumps(part, default=_plain)}\n".encode())
    return digest.hexdigest()


def _plain(value: Any) -> object:
    """Return JSON data of a value that is none; different values give different data."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return list(value.items())
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return [type(value).__name__, fields]
    if isinstance(value, Enum):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no key")


@cache
def _code_version() -> str:
    """Return a digest of the code that values follow from."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    digest.update(json.dumps([[name, version(name)] for name in _LIBRARIES]).encode())
    return digest.hexdigest()
