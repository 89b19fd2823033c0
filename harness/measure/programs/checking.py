"""Verify runs with check(), a function of the user."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HostModuleError
from harness.core.records import Value
from harness.measure.programs.outputs import WrongOutput
from harness.measure.trial.host_module import load_host


@dataclass(frozen=True)
class ProgramRun:
    """A run, for check(): the input's features, the configuration, the folder with the files that
    the run wrote, its streams, and the value of `{seed}` in its command."""

    features: Mapping[str, Value]
    config: Mapping[str, Value]
    folder: Path
    stdout: str
    stderr: str
    seed: int


_TICK_S = 0.01


class CheckTimeout(Exception):
    """check() did not end within its time."""


class _TimeUp(BaseException):
    """Raised within check(), which may catch every Exception."""


class _Deadline:
    """Raise _TimeUp in a function that runs too long, repeatedly, in case it is caught.

    Works between two steps of Python, so not within one long call of a library, and only in a
    process's main thread.
    """

    def __init__(self, timeout_s: float) -> None:
        self.is_up = False
        self._timeout_s = max(timeout_s, _TICK_S)  # 0 would be none at all
        self._is_over = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._timeout_s, _TICK_S)

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, *_: object) -> None:
        if not self._is_over:
            self.is_up = True
            raise _TimeUp


class Checker:
    """A module with check(run), which returns None for a right run, and else says what is wrong.

    An exception in it is a wrong result as well. Raises HostModuleError for a module that cannot be
    loaded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = load_host(path, "harness_check", ("check",))

    def check(self, run: ProgramRun, timeout_s: float) -> None:
        """Call check(); raises WrongOutput, CheckTimeout, or HostModuleError for another result."""
        reason, raised, deadline = None, None, _Deadline(timeout_s)
        try:
            with deadline:
                reason = self._module.check(run)
        except (_TimeUp, Exception, SystemExit) as error:
            raised = error
        if deadline.is_up:  # check() may have caught _TimeUp
            raise CheckTimeout(
                f"check() of {self._path.name} did not end within {timeout_s:.3g} s, the rest of "
                "measure.timeout_s"
            )
        if raised is not None:
            raise WrongOutput(
                f"check() of {self._path.name} raised {type(raised).__name__}: {raised}"
            )
        if isinstance(reason, str):
            raise WrongOutput(reason or "check() returned an empty text")
        if reason is not None:
            raise HostModuleError(
                f"{self._path}: check() must return None where the run is right, or a text that "
                f"says what is wrong, but got {reason!r}"
            )
