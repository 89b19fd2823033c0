"""Every error that a user can meet, in one tree; commands catch `HarnessError` once.

HarnessError
    UsageError              a command line that cannot be carried out
    SpecError               a space file with faults; carries all of them
    ExpressionError         a constraint or launch size that cannot be parsed
    HostModuleError         a host module that is missing, broken or incomplete
        DataDoesNotFit      data of an input for which the device has no memory
    BackendUnavailable      a device, driver or compiler that is not there
        DeviceBusy          another process measures on it; a Busy
    RecordingError          recorded measurements that cannot be read
    ResultsError            a results database that cannot be used
        DatabaseBusy        another process holds it; a Busy
    BuildFailed             of one configuration: becomes an outcome, never ends a run
    LaunchFailed            the same
        HostTooSlow         the host's work is in a time: measure again
        OutOfDeviceMemory   other programs may hold the memory: not the configuration's fault
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class HarnessError(Exception):
    """An error with a message for the user: what went wrong and, if there is one, the next step."""


class UsageError(HarnessError):
    """The command line asks for something that does not exist or does not fit together."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault of a file, with its 1-based line; line 0 is the file as a whole."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.text}"


class SpecError(HarnessError):
    """A space file is not usable; `faults` holds everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(map(str, self.faults)))


class ExpressionError(HarnessError):
    """An expression uses something that the expression language does not have."""


class HostModuleError(HarnessError):
    """The Python file next to a kernel lacks what it must define, or raised."""


class DataDoesNotFit(HostModuleError):
    """The data of an input finds no room on the device; other programs may hold its memory."""


class BackendUnavailable(HarnessError):
    """A backend cannot run here; the message names what is missing and what to install."""


class Busy(HarnessError):
    """Another process is at work on the same; `fact` leaves out what to do."""

    def __init__(self, fact: str, advice: str) -> None:
        super().__init__(fact, advice)
        self.fact = fact
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.fact}. {self.advice}"


class DeviceBusy(BackendUnavailable, Busy):
    """Another process measures on the same device."""


class RecordingError(HarnessError):
    """A file of recorded measurements is truncated, mistyped or does not fit the space."""


class ResultsError(HarnessError):
    """A results database cannot be opened, read or written."""


class DatabaseBusy(ResultsError, Busy):
    """Another process is writing to the same results database."""


class BuildFailed(HarnessError):
    """The compiler refused the configuration; the message is its log."""


class LaunchFailed(HarnessError):
    """The device refused or aborted the launch."""


class HostTooSlow(LaunchFailed):
    """The device did not wait for the host, whose work is therefore in the time: run again."""


class OutOfDeviceMemory(LaunchFailed):
    """The device has no memory left for a launch or its data; other programs may hold it."""
