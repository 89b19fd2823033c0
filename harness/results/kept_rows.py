"""Keep the measurements of a large database in the user's cache, so that it opens again in seconds.

Reading takes a minute for a million measurements, and nearly all of that is Python objects and
checks of each row. What was read and checked once is kept as arrays. The key is a digest of the
file's bytes: a file that was changed, by a bit or by a measurement, is read and checked anew.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import UsageError
from harness.core.files import cache_folder, mark_used, trim_folder
from harness.core.kept import content_key
from harness.core.records import Build, Input, Outcome, StopReason
from harness.core.worst_element import WorstElement
from harness.results.columns import Coded, MeasurementColumns, MeasurementRows
from harness.results.config_table import ConfigTable
from harness.results.file_digest import file_digest
from harness.results.url import sqlite_path
from harness.stats.samples import Ragged

_MOST_BYTES = 1 << 30

_PLAIN = ("ids", "uuids", "measured_at", "wall_s")
_RAGGED = ("samples_s", "warmup_s")

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_CODED: Mapping[str, Pair] = {
    "inputs": (dict, Input),
    "stages": (str, str),
    "groups": (lambda text: text, lambda text: text),
    "requestors": (lambda text: text, lambda text: text),
    "outcomes": (lambda one: one.value, Outcome),
    "stopped": (lambda one: one and one.value, lambda text: text and StopReason(text)),
    "messages": (str, str),
    "shared_with": (lambda text: text, lambda text: text),
    "host_read": (lambda names: names, lambda names: None if names is None else tuple(names)),
    "occasions": (list, tuple),
    "builds": (
        lambda build: build and dataclasses.astuple(build),
        lambda parts: parts and Build(*parts),
    ),
}
"""How the distinct values of a column become JSON, and how they are made of it."""


class KeptRows:
    """The measurements that were read from one state of a database's file."""

    def __init__(self, path: Path, digest: str, folder: Path) -> None:
        self._path = path
        self._digest = digest
        self._folder = folder

    @classmethod
    def of(cls, database: str) -> KeptRows | None:
        """Return what is kept of a database; None for a small one, for one that is no file or is
        being written, and without a cache."""
        path = sqlite_path(database)
        digest = None if path is None else file_digest(path)
        try:
            folder = cache_folder("rows")
        except UsageError:
            return None
        return None if path is None or digest is None else cls(path, digest, folder)

    def recall(self, parts: object, read: Callable[[], MeasurementRows]) -> MeasurementRows:
        """Return the rows that `parts`, which is JSON data, selects; read and keep them where none
        are kept."""
        file = self._folder / f"{content_key('rows', self._digest, parts)}.npz"
        rows = _load(file)
        if rows is not None:
            mark_used(file)
            return rows
        rows = read()
        if file_digest(self._path) == self._digest:  # nobody wrote to it meanwhile
            with suppress(OSError):  # a full disk: the next command reads the database again
                _store(file, rows)
                trim_folder(self._folder, _MOST_BYTES)
        return rows


# ------------------------------------------------------------------------------ the file


def _store(file: Path, rows: MeasurementRows) -> None:
    """Write rows to a file, whole or not at all."""
    columns, table = rows.columns, rows.columns.config_table
    arrays: dict[str, Any] = {"selected": rows.selected, "configs": columns.configs.codes}
    arrays |= {name: getattr(columns, name) for name in _PLAIN}
    arrays |= {name: getattr(columns, name).codes for name in _CODED}
    arrays |= {f"observed.{name}": values for name, values in columns.observed.items()}
    arrays |= {"table.codes": table.codes, "table.layout": table.layout}
    for name in _RAGGED:
        ragged = getattr(columns, name)
        arrays |= {name: ragged.values, f"{name}.ends": ragged.ends}
    texts = {
        "columns": {
            name: list(map(pair[0], getattr(columns, name).values)) for name, pair in _CODED.items()
        },
        "table": [table.names, table.values, table.layouts],
        "worst": [[row, *dataclasses.astuple(worst)] for row, worst in columns.worst.items()],
    }
    arrays["texts"] = np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)
    handle, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            np.savez(opened, **arrays)
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_NO_ZIP = (zipfile.BadZipFile, RuntimeError, zlib.error)
"""What zipfile raises for a damaged file; RuntimeError where it seems to be encrypted, or packed in
a way that it does not know."""


def _load(file: Path) -> MeasurementRows | None:
    """Read rows that `_store` wrote; None where there are none, or where the file is damaged."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return _rows_of({name: arrays[name] for name in arrays.files})
    except (OSError, ValueError, KeyError, TypeError, EOFError, *_NO_ZIP):
        return None


def _rows_of(arrays: Mapping[str, Any]) -> MeasurementRows:
    texts = json.loads(arrays["texts"].tobytes())
    names, values, layouts = texts["table"]
    table = ConfigTable(
        tuple(names),
        tuple(map(tuple, values)),
        arrays["table.codes"],
        tuple(map(tuple, layouts)),
        arrays["table.layout"],
    )
    parts: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
    parts |= {name: Ragged(arrays[name], arrays[f"{name}.ends"]) for name in _RAGGED}
    parts |= {
        name: Coded(arrays[name], tuple(map(pair[1], texts["columns"][name])))
        for name, pair in _CODED.items()
    }
    columns = MeasurementColumns(
        configs=Coded(arrays["configs"], table),
        config_table=table,
        worst=dict(_worst(texts["worst"])),
        observed={
            name.removeprefix("observed."): column
            for name, column in arrays.items()
            if name.startswith("observed.")
        },
        **parts,
    )
    return MeasurementRows(columns, arrays["selected"])


def _worst(stored: list[list[Any]]) -> Iterator[tuple[int, WorstElement]]:
    for row, argument, index, *numbers in stored:
        yield row, WorstElement(argument, tuple(index), *numbers)
