"""Failures of a run, which are outcomes of its configuration."""

from __future__ import annotations

from harness.core.errors import LaunchFailed, OutOfDeviceMemory
from harness.core.observations import WorstElement
from harness.core.records import Outcome


class RunFailed(Exception):
    """A run failed because of its configuration, with this outcome."""

    def __init__(self, outcome: Outcome, message: str, worst: WorstElement | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.worst = worst


def outcome_of(error: LaunchFailed | RunFailed) -> Outcome:
    """Return the outcome of a configuration that raised this error."""
    if isinstance(error, RunFailed):
        return error.outcome
    is_short = isinstance(error, OutOfDeviceMemory)
    return Outcome.OUT_OF_MEMORY if is_short else Outcome.LAUNCH_FAILED
