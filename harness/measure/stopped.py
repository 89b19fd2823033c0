"""Worker processes that somebody has stopped, as SIGSTOP does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO

from harness.measure.process_status import STATE, status_field

_STOPPED = "T"  # `t` is a process under a tracer, for a moment


class StoppedWorkers:
    """Watches worker processes, says which are stopped, and ends them in time.

    They are those children of this process that write to one file as their standard error: a
    stopped process of one device is no excuse for a timeout on another. Linux alone says whether a
    process is stopped; elsewhere none seems to be.
    """

    def __init__(self, stderr: BinaryIO) -> None:
        self._stderr = os.fstat(stderr.fileno())
        self._since_s: dict[int, float] = {}

    def look(self, patience_s: float) -> bool:
        """Say once of each worker that it is stopped, and kill it after `patience_s` seconds.

        Returns whether any is stopped.
        """
        now_s = time.monotonic()
        stopped = {pid for pid in self._workers() if status_field(pid, STATE) == _STOPPED}
        for pid in stopped - self._since_s.keys():
            print(
                f"warning: the worker process {pid} is stopped; continue it with "
                f"`kill -CONT {pid}`. After {patience_s:g} s harness replaces it.",
                file=sys.stderr,
            )
        self._since_s = {pid: self._since_s.get(pid, now_s) for pid in stopped}
        for pid, since_s in self._since_s.items():
            if now_s - since_s >= patience_s:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return bool(stopped)

    def _workers(self) -> Iterator[int]:
        for child in multiprocessing.active_children():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{child.pid}/fd/2"), self._stderr):
                    assert child.pid is not None, "it has begun"
                    yield child.pid
