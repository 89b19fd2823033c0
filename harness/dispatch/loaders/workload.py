"""Count the calls of a dispatcher by their inputs, and append the counts to a file."""

from __future__ import annotations

import atexit
import collections
import csv
import io
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

_FLUSH_S = 60
_MOST_INPUTS = 3072


class CallCounter:
    """Counts calls in memory, and appends them to a file after a minute, after many new inputs and
    at exit. `types` has the type of each feature: whole, real or word."""

    def __init__(self, name: str, types: dict[str, str], file: str | os.PathLike[str]) -> None:
        self._name, self._file, self._types = name, os.fspath(file), tuple(types.values())
        self._header = f"# workload of {name}\n{','.join([*types, 'calls', 'choice'])}\n".encode()
        self._begin()
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):  # the parent writes what it counted
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[str | int, ...]] = collections.Counter()
        self._flush_at = time.monotonic() + _FLUSH_S

    def add(self, values: Sequence[Any], index: int) -> None:
        """Count a call with an input, for which a configuration was chosen; -1 for none."""
        key: tuple[str | int, ...] = (*map(_cell, self._types, values), index)
        with self._lock:
            self._counts[key] += 1
            is_due = len(self._counts) >= _MOST_INPUTS or time.monotonic() >= self._flush_at
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Write what was counted. Call it before `os.exec` or `os._exit`."""
        with self._lock:
            counts, self._counts = self._counts, collections.Counter()
            self._flush_at = time.monotonic() + _FLUSH_S
        if not counts or not self._file:
            return
        lines = io.StringIO()
        rows = ((*key[:-1], calls, key[-1]) for key, calls in counts.items())
        csv.writer(lines, lineterminator="\n").writerows(rows)
        try:
            self._append(lines.getvalue().encode())
        except OSError as error:
            why = f"{self._file} cannot be written: {error.strerror}"
            print(f"{self._name}: {why}; calls are no longer counted", file=sys.stderr)
            self._file = ""

    def _append(self, lines: bytes) -> None:
        """Append lines in one write, since processes may share the file; raises OSError."""
        with open(self._file, "ab+", buffering=0) as file:
            file.seek(0)
            there = file.read(len(self._header))
            if there and there != self._header:
                raise OSError(0, f"it is no workload of {self._name} with these features")
            # The last line may have been cut off: an empty one ends it.
            text = (b"\n" if there else self._header) + lines
            if file.write(text) != len(text):
                raise OSError(0, "no room for all of it")


def _cell(type_: str, value: Any) -> str:
    """Return a feature as a text: `?` for a number that is no input of the space."""
    if type_ == "word":
        return str(value)
    is_input = abs(value) < 2**63 if type_ == "whole" else math.isfinite(value)
    return repr(value) if is_input else "?"
