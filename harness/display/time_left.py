"""The time left of a whole run, from the work that it has done so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it brings OpenTuner, which not every command needs
    from harness.search.records import Ahead

_LEAST_WORK = 3  # measurements; fewer say too little


class TimeLeft:
    """Counts finished work, in measurements, and extrapolates to the rest of the run."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._work = 0.0
        self._ahead: Ahead | None = None

    def begin_stage(self, ahead: Ahead | None) -> None:
        """Begin a stage; `ahead` is the work after it, None where the stage is all."""
        self._ahead = ahead
        if self._begun_s is None:
            self._begun_s = time.monotonic()

    def worked(self) -> None:
        """Count a step that has ended; an answer from the database is none."""
        self._work += 1 if self._ahead is None else self._ahead.weight

    def seconds(self, steps: int) -> float | None:
        """Return the seconds left of the run, with so many steps left of the stage; None where
        too little has been done."""
        if self._begun_s is None or self._work < _LEAST_WORK:
            return None
        now_s = time.monotonic()
        per_measurement_s = (now_s - self._begun_s) / self._work
        if self._ahead is None:
            return steps * per_measurement_s
        stage_s = (steps * self._ahead.weight + self._ahead.search) * per_measurement_s
        if self._ahead.stop_at is not None:
            stage_s = min(stage_s, max(0.0, self._ahead.stop_at - now_s))
        return stage_s + self._ahead.after * per_measurement_s

    def text(self, steps: int) -> str:
        """Describe the time left, such as `about 3 min left`; empty below a second."""
        left_s = self.seconds(steps)
        if left_s is None or left_s < 1:
            return ""
        if left_s < 90:
            return f"about {left_s:.0f} s left"
        minutes = left_s / 60
        return (
            f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"
        )
