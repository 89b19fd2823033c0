"""Run again where the host was too slow, so that its work would be in the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.core.errors import HostTooSlow
from harness.core.observations import HOST_RETRIES
from harness.core.records import Outcome
from harness.measure.trial import RunFailed

_MOST_TRIES = 5
"""The host may be too slow by chance for so many runs, one after the other."""


@dataclass
class HostRetries:
    """The runs of a measurement that were taken again, since the host was too slow."""

    count: int = 0

    def run(self, run: Callable[[], float]) -> float:
        """Return the seconds of the first run for which the host was fast enough.

        Raises RunFailed where it was too slow several times in a row.
        """
        for _ in range(_MOST_TRIES):
            try:
                return run()
            except HostTooSlow as error:
                self.count += 1
                reason = error
        raise RunFailed(
            Outcome.TIMEOUT,
            f"{reason}, {_MOST_TRIES} times in a row. Close other programs; no profiler or "
            "debugger may run, since these make the host wait for each launch",
        )

    def observed(self) -> dict[str, float]:
        """Return the number of these runs where there are some."""
        return {HOST_RETRIES: float(self.count)} if self.count else {}
