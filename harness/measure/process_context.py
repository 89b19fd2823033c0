"""How worker processes start: forked from a server that has loaded what they need.

A process that imports numpy, SciPy and the device's worker itself takes 0.4 s of a core for it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, forkserver, popen_forkserver, resource_tracker, util
from multiprocessing.context import (
    BaseContext,
    ForkServerContext,
    ForkServerProcess,
    SpawnContext,
    SpawnProcess,
)
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.measure.run_folder import RunFolder

_PRELOADED = "harness.measure.preloaded"
_LAUNCHING = threading.Lock()
_LAST = -100  # as multiprocessing's own folder

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What ends a run by a signal to all its processes."""

_AT_LOADING = ("LD_", "DYLD_", "OMP_", "OPENBLAS_", "MKL_")
"""How the variables begin that libraries read once, when they are loaded."""


class _WithoutMain:
    """A process that does not import the main module of its parent.

    That is a person's script where harness is called from Python. To import it would run it again,
    unless it has a guard; the functions that are run here are never its own.
    """

    _starts_as: type[BaseProcess]

    @classmethod
    def _Popen(cls, process_obj: BaseProcess) -> Any:  # noqa: N802 (multiprocessing's own name)
        with _LAUNCHING:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return cls._starts_as._Popen(process_obj)  # type: ignore[attr-defined]
            finally:
                sys.modules["__main__"] = main


class _SpawnedProcess(_WithoutMain, SpawnProcess):
    _starts_as = SpawnProcess


class _Forked(popen_forkserver.Popen):
    """A process whose end several threads may ask for at once: the server says it a single time,
    and who reads nothing takes it for exit status 255."""

    _asking = threading.Lock()

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Return the exit status; None where the process has not ended and `flag` is WNOHANG."""
        if flag != os.WNOHANG:
            connection.wait([self.sentinel])
        with self._asking:
            return super().poll(os.WNOHANG)


class _ForkServerProcess(ForkServerProcess):
    _Popen = _Forked


class _ForkedProcess(_WithoutMain, ForkServerProcess):
    _starts_as = _ForkServerProcess


class _Spawning(SpawnContext):
    Process = _SpawnedProcess


class _Forking(ForkServerContext):
    Process = _ForkedProcess


class ProcessStarter:
    """Chooses how the processes of this process start.

    The server is that of `multiprocessing`. It starts at the first use, with the environment of
    that moment; its processes must take over the present one. Where a variable has changed that
    only counts when a library is loaded, processes load all themselves. So they do in a fork of
    this process, which cannot use its server, and outside Linux, where to fork is not safe.
    """

    def __init__(self) -> None:
        self._begun: tuple[int, dict[str, str]] | None = None

    def context(self) -> BaseContext:
        """Return the context of `multiprocessing` that starts processes."""
        if sys.platform != "linux":
            return _Spawning()
        read = {name: value for name, value in os.environ.items() if name.startswith(_AT_LOADING)}
        now = os.getpid(), read
        if self._begun is None:
            _start_server()
            self._begun = now
        return _Forking() if now == self._begun else _Spawning()


def _start_server() -> None:
    """Start the server with ENDING held back, until it ignores them: at Ctrl-C it would print a
    traceback while it loads. Its socket is in a folder that is removed also where this process is
    killed."""
    forkserver.set_forkserver_preload([_PRELOADED])
    resource_tracker.ensure_running()  # which lets signals through when it has started
    folder = RunFolder()
    util.Finalize(None, folder.close, exitpriority=_LAST)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        with _sockets_in(folder.path):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _sockets_in(folder: Path) -> Iterator[None]:
    """Let `multiprocessing` make sockets in a folder, whose path may be long: an address has 107
    bytes at most, so it is that of the open folder."""
    config = vars(multiprocessing.current_process())["_config"]
    before = config.get("tempdir")
    config["tempdir"] = f"/proc/self/fd/{os.open(folder, os.O_PATH)}"
    try:
        yield
    finally:
        config["tempdir"] = before


def leave_server() -> None:
    """Let the server end with the parent, in a process that it has forked: it waits until nobody
    holds this pipe any more, and a process that hangs would hold it for ever."""
    held = vars(forkserver)["_forkserver"]
    if held._forkserver_alive_fd is not None:
        os.close(held._forkserver_alive_fd)
        held._forkserver_alive_fd = None


def parent_is_alive() -> bool:
    """Say whether the process that asked for this one lives; the server is not that one."""
    parent = multiprocessing.parent_process()
    return parent is not None and parent.is_alive()
