"""Run a function in a copy of this process: it may hang, crash or leave its mark there."""

from __future__ import annotations

import contextlib
import os
import select
import signal
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
    try:
        child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        text = f"a process cannot be started: {error.strerror}; see `ulimit -u`, and free memory"
        raise UsageError(text) from None
    if child == 0:
        _serve(function, writer, parent)
    os.close(writer)
    is_late, status, content = True, 0, b""
    try:
        content = _read(reader, time.monotonic() + timeout_s)
        is_late = False
    except TimeoutError:
        pass
    finally:
        os.close(reader)
        if is_late:
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # who started this process ignores SIGCHLD
            _, status = os.waitpid(child, 0)
    if is_late:
        raise ForkLost(f"did not finish within {timeout_s:g} s and was killed", is_late=True)
    if os.WIFSIGNALED(status):
        raise ForkLost(f"crashed ({signal_name(os.WTERMSIG(status))})")
    if os.WEXITSTATUS(status):
        raise ForkLost(f"ended with status {os.WEXITSTATUS(status)}")
    if not content:
        raise ForkLost("ended without a result")
    return content


def _serve(function: Callable[[], bytes], writer: int, parent: int) -> None:
    """Write the function's result, and end this process without cleaning up."""
    status = 1
    try:
        end_with_parent()
        if os.getppid() == parent:
            with os.fdopen(writer, "wb") as file:
                file.write(function())
            status = 0
    finally:
        os._exit(status)


def _read(reader: int, end_s: float) -> bytes:
    """Read until the other end is closed; raises TimeoutError."""
    poll, parts = select.poll(), list[bytes]()
    poll.register(reader, select.POLLIN)
    while True:
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1e3):
            raise TimeoutError
        with contextlib.suppress(InterruptedError):
            part = os.read(reader, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
