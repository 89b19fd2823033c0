"""Run a function in a copy of this process: it may hang, crash or leave its mark there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

from harness.core.errors import UsageError
from harness.core.machine import end_with_parent, libc
from harness.core.text import signal_name


class ForkLost(Exception):
    """A child ended without a result; the message says how.

    `is_late` means that it exceeded its deadline.
    """

    def __init__(self, message: str, is_late: bool = False) -> None:
        super().__init__(message)
        self.is_late = is_late


def run_forked(function: Callable[[], bytes], timeout_s: float) -> bytes:
    """Return what a function returns in a child of this process.

    The child holds what the process holds, but of its threads only the one that calls, so that the
    function may not need another one. It ends with this thread. Raises ForkLost where the child
    crashes, hangs, or the function raises, and UsageError where the system has no process left.
    """
    libc()  # here, since the child should load nothing
    parent, (reader, writer) = os.getpid(), os.pipe()
    end_s = time.monotonic() + timeout_s
    with os.fdopen(reader, "rb") as result, os.fdopen(writer, "wb") as answer:
        try:
            child = os.fork()
        except OSError as error:
            text = (
                f"a process cannot be started: {error.strerror}; see `ulimit -u`, and free memory"
            )
            raise UsageError(text) from None
        if child == 0:
            status = 1
            try:
                end_with_parent()
                if os.getppid() == parent:
                    answer.write(function())
                    answer.flush()
                    status = 0
            finally:
                os._exit(status)
        answer.close()
        killer = threading.Timer(timeout_s, os.kill, (child, signal.SIGKILL))
        killer.daemon = True  # after Ctrl-C nothing waits for it
        killer.start()
        content = result.read()  # until the child ends
    is_late = time.monotonic() >= end_s
    killer.cancel()
    killer.join()
    status = 0
    with contextlib.suppress(ChildProcessError):  # who started this process ignores SIGCHLD
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if is_late:
        raise ForkLost(f"did not finish within {timeout_s:g} s and was killed", is_late=True)
    if status < 0:
        raise ForkLost(f"crashed ({signal_name(-status)})")
    if status:
        raise ForkLost(f"ended with status {status}")
    if not content:
        raise ForkLost("ended without a result")
    return content
