"""Worker processes that somebody has stopped, as SIGSTOP does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time

from harness.measure.process_status import STATE, status_field

_STOPPED = "T"  # `t` is a process under a tracer, for a moment


class StoppedWorkers:
    """Watches the worker processes of this process, says which are stopped, and ends them in time.

    Linux alone says whether a process is stopped; elsewhere none seems to be.
    """

    def __init__(self) -> None:
        self._since_s: dict[int, float] = {}

    def look(self, patience_s: float) -> bool:
        """Say once of each worker that it is stopped, and kill it after `patience_s` seconds.

        Returns whether any is stopped.
        """
        now_s = time.monotonic()
        stopped = {pid for pid in _workers() if status_field(pid, STATE) == _STOPPED}
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


def _workers() -> list[int]:
    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]
