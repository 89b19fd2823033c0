"""Count the calls of a dispatcher by their inputs; append the counts to a file (docs/dispatch.md).

The counts are written after a minute, after many new inputs, and at exit, in one write each, so
that several processes may share the file. If that fails, calls are no longer counted, and the
program goes on.
"""

from __future__ import annotations

import atexit
import csv
import functools
import io
import math
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_FLUSH_S = 60
_MOST_INPUTS = 3072
_TOO_LARGE = 2**63  # whole numbers have 64 bits
_UNKNOWN = "?"


class CallCounter:
    """Counts calls, and appends them to a file.

    `header` begins the file; `choices` describes each configuration; `kinds` has the kind of each
    feature by its name in code: whole, real or word.
    """

    def __init__(
        self,
        name: str,
        file: str | os.PathLike[str],
        header: str,
        choices: Sequence[str],
        kinds: dict[str, str],
        is_tuned: Callable[..., bool],
    ) -> None:
        self._name, self._file, self._header = name, os.fspath(file), header
        self._choices, self._kinds, self._is_tuned = choices, kinds, is_tuned
        self._is_on = True
        self._begin()
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):  # the parent writes what it counted
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[Any, ...], list[Any]] = {}
        self._flush_at = time.monotonic() + _FLUSH_S

    def counting(self, choose: Callable[..., int], is_device: bool) -> Callable[..., int]:
        """Wrap what chooses an index, so that its calls are counted; `is_device`: as on another
        device."""
        names = tuple(self._kinds)

        def valued(arguments: tuple[Any, ...], features: dict[str, Any]) -> tuple[Any, ...]:
            return (*arguments, *(features[name] for name in names[len(arguments) :]))

        @functools.wraps(choose)
        def counted(*arguments: Any, **features: Any) -> int:
            try:
                index = choose(*arguments, **features)
            except LookupError:
                self._add(valued(arguments, features), -1, is_device)
                raise
            self._add(valued(arguments, features), index, is_device)
            return index

        return counted

    def _add(self, values: tuple[Any, ...], index: int, is_device: bool) -> None:
        if not self._is_on:
            return
        key = (is_device, *values)
        with self._lock:
            try:
                one = self._counts.get(key)
            except TypeError:  # such as an array of one number
                key = (is_device, *map(self._cell, self._kinds.values(), values))
                one = self._counts.get(key)
            if one is None:
                one = self._counts[key] = [0, values, index]
            one[0] += 1
            is_due = len(self._counts) >= _MOST_INPUTS or time.monotonic() >= self._flush_at
        if is_due:
            self.flush()

    def stop(self) -> None:
        """Write what was counted, and count no more."""
        self.flush()
        self._is_on = False
        atexit.unregister(self.flush)

    def flush(self) -> None:
        """Write what was counted. Call it before `os.exec` or `os._exit`."""
        with self._lock:
            counts, self._counts = self._counts, {}
            self._flush_at = time.monotonic() + _FLUSH_S
        if not counts or not self._is_on:
            return
        try:
            self._append("".join(self._lines(counts)))
        except OSError as error:
            self._is_on = False
            reason = f"{self._file} cannot be written: {error.strerror}"
            print(f"{self._name}: {reason}; calls are no longer counted", file=sys.stderr)

    def _lines(self, counts: dict[tuple[Any, ...], list[Any]]) -> Iterable[str]:
        for (is_device, *_), (calls, values, index) in counts.items():
            reason = "device" if is_device else "tuned" if self._is_tuned(*values) else "outside"
            choice = self._choices[index] if index >= 0 else ""
            cells = map(self._cell, self._kinds.values(), values)
            line = io.StringIO()
            row = (*cells, calls, choice, reason if index >= 0 else "none")
            csv.writer(line, lineterminator="\n").writerow(row)
            yield line.getvalue()

    def _cell(self, kind: str, value: Any) -> str:
        """Return a feature as a text; a value that is no input of the space is unknown."""
        if kind == "word":
            return str(value)
        try:
            number = int(value) if kind == "whole" else float(value)
        except (TypeError, ValueError, OverflowError):
            return _UNKNOWN
        if kind == "whole":
            is_known = number == value and -_TOO_LARGE <= number < _TOO_LARGE
        else:
            is_known = math.isfinite(number)
        return repr(number) if is_known else _UNKNOWN

    def _append(self, lines: str) -> None:
        """Append lines in one write, after the header where the file is empty, and on a line of
        their own; raises OSError."""
        header = self._header.encode()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        flags |= getattr(os, "O_NONBLOCK", 0)  # to open a pipe waits for its other end
        with os.fdopen(os.open(self._file, flags, 0o666), "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, "it is no file")
            there = file.read(len(header))
            if there and there != header:
                raise OSError(0, f"it is no workload of {self._name} with these features")
            if there:
                file.seek(-1, os.SEEK_END)
                header = b"" if file.read(1) == b"\n" else b"\n"
            text = header + lines.encode()
            if file.write(text) != len(text):
                raise OSError(0, "no room for all of it")
