"""Count the calls of a dispatcher by their inputs, and append the counts to a file."""

from __future__ import annotations

import atexit
import collections
import csv
import functools
import io
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_FLUSH_S = 60
_MOST_INPUTS = 3072


class CallCounter:
    """Counts calls in memory, and appends them to a file after a minute, after many new inputs and
    at exit. `header` begins the file; `kinds` has the kind of each feature: whole, real or word."""

    def __init__(
        self, name: str, file: str | os.PathLike[str], header: str, kinds: dict[str, str]
    ) -> None:
        self._name, self._file = name, os.fspath(file)
        self._header, self._kinds, self._is_on = header.encode(), kinds, True
        self._begin()
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):  # the parent writes what it counted
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[str | int, ...]] = collections.Counter()
        self._flush_at = time.monotonic() + _FLUSH_S

    def counting(self, choose: Callable[..., int]) -> Callable[..., int]:
        """Wrap what chooses an index, so that its calls are counted."""

        @functools.wraps(choose)
        def counted(*arguments: Any, **features: Any) -> int:
            try:
                index = choose(*arguments, **features)
            except LookupError:
                self._add(arguments, features, -1)
                raise
            self._add(arguments, features, index)
            return index

        return counted

    def _add(self, arguments: tuple[Any, ...], features: dict[str, Any], index: int) -> None:
        named = (features[name] for name in list(self._kinds)[len(arguments) :])
        cells = map(_cell, self._kinds.values(), (*arguments, *named))
        key: tuple[str | int, ...] = (*cells, index)
        with self._lock:
            self._counts[key] += 1
            is_due = len(self._counts) >= _MOST_INPUTS or time.monotonic() >= self._flush_at
        if is_due:
            self.flush()

    def stop(self) -> None:
        """Write what was counted, and count no more."""
        self.flush()
        atexit.unregister(self.flush)

    def flush(self) -> None:
        """Write what was counted. Call it before `os.exec` or `os._exit`."""
        with self._lock:
            counts, self._counts = self._counts, collections.Counter()
            self._flush_at = time.monotonic() + _FLUSH_S
        if not counts or not self._is_on:
            return
        lines = io.StringIO()
        rows = ((*key[:-1], calls, key[-1]) for key, calls in counts.items())
        csv.writer(lines, lineterminator="\n").writerows(rows)
        try:
            self._append(lines.getvalue().encode())
        except OSError as error:
            self._is_on = False
            why = f"{self._file} cannot be written: {error.strerror}"
            print(f"{self._name}: {why}; calls are no longer counted", file=sys.stderr)

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


def _cell(kind: str, value: Any) -> str:
    """Return a feature as a text: `?` for a number that is no input of the space."""
    if kind == "word":
        return str(value)
    try:
        number = int(value) if kind == "whole" else float(value)
    except (TypeError, ValueError, OverflowError):
        return "?"
    is_input = number == value and abs(number) < 2**63 if kind == "whole" else math.isfinite(number)
    return repr(number) if is_input else "?"
