"""A person's function that says whether a run is right."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from harness.core.errors import HostModuleError
from harness.core.modules import load_module
from harness.core.records import Value
from harness.measure.programs.outputs import WrongOutput


@dataclass(frozen=True)
class ProgramRun:
    """A run as check() gets it: the input's features, the configuration, the folder with the
    files that it wrote, and what it wrote to its streams."""

    features: Mapping[str, Value]
    config: Mapping[str, Value]
    folder: Path
    stdout: str
    stderr: str


_TICK_S = 0.01


class CheckTimeout(Exception):
    """check() did not end within its time."""


class _TimeUp(BaseException):
    """Raised within check(), which may catch every Exception."""


class _Deadline:
    """Raises _TimeUp, again and again, in what runs longer; between two steps of Python, so not
    within one long call of a library. In a process's main thread alone."""

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
    """A host module with check(run), which returns None where the run is right, and else says
    what is wrong; what it raises is a wrong result as well.

    Raises HostModuleError for a module that cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = self._loaded()

    def check(self, run: ProgramRun, timeout_s: float) -> None:
        """Raises WrongOutput, CheckTimeout, and HostModuleError where check() returns something
        else."""
        told, raised, deadline = None, None, _Deadline(timeout_s)
        try:
            with deadline:
                told = self._module.check(run)
        except (_TimeUp, Exception, SystemExit) as error:
            raised = error
        if deadline.is_up:  # check() may have swallowed what told it so
            raise CheckTimeout(
                f"check() of {self._path.name} did not end within {timeout_s:.3g} s, what was left "
                "of measure.timeout_s"
            )
        if raised is not None:
            raise WrongOutput(
                f"check() of {self._path.name} raised {type(raised).__name__}: {raised}"
            )
        if isinstance(told, str):
            raise WrongOutput(told or "check() gave an empty text")
        if told is not None:
            raise HostModuleError(
                f"{self._path}: check() must return None where the run is right, or a text that "
                f"says what is wrong, but got {told!r}"
            )

    def _loaded(self) -> ModuleType:
        try:
            module = load_module(self._path, "harness_check")
        except (Exception, SystemExit) as error:
            raise HostModuleError(f"{self._path}: {type(error).__name__}: {error}") from error
        if module is None:
            raise HostModuleError(f"{self._path}: is not a Python file")
        if not callable(getattr(module, "check", None)):
            raise HostModuleError(f"{self._path}: must define the function `check`")
        return module
