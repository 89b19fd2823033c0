"""The time left of a whole run, from the work that it has done so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it brings OpenTuner, which not every command needs
    from harness.search.records import Ahead

_LEAST_WORK = 3  # measurements; fewer say too little


class TimeLeft:
    """Counts finished work, in measurements, and extrapolates to the rest of the run.

    The first of several inputs builds what the others use again, so its pace says nothing of
    them: until it ends, only its own time left is known.
    """

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._work = 0.0
        self._ahead: Ahead | None = None
        self._is_first = True  # of the stages that have worked

    def begin_stage(self, ahead: Ahead | None) -> None:
        """Begin a stage; `ahead` is the work after it, None where the stage is all."""
        if self._builds_for_others and self._work >= _LEAST_WORK:
            self._is_first, self._begun_s, self._work = False, None, 0.0
        self._ahead = ahead
        if self._begun_s is None:
            self._begun_s = time.monotonic()

    @property
    def _builds_for_others(self) -> bool:
        return self._is_first and self._ahead is not None and self._ahead.search > 0

    def worked(self) -> None:
        """Count a step that has ended; an answer from the database is none."""
        self._work += 1 if self._ahead is None else self._ahead.weight

    def seconds(self, steps: int) -> float | None:
        """Return the seconds left of the run, with so many steps left of the stage; of the first
        of several inputs, those of the input. None where too little has been done."""
        if self._begun_s is None or self._work < _LEAST_WORK:
            return None
        now_s = time.monotonic()
        per_measurement_s = (now_s - self._begun_s) / self._work
        if self._ahead is None:
            return steps * per_measurement_s
        alone = self._builds_for_others
        search = 0 if alone else self._ahead.search
        stage_s = (steps * self._ahead.weight + search) * per_measurement_s
        if self._ahead.stop_at is not None:
            stage_s = min(stage_s, max(0.0, self._ahead.stop_at - now_s))
        return stage_s if alone else stage_s + self._ahead.after * per_measurement_s

    def text(self, steps: int, devices: int = 1) -> str:
        """Describe the time left, such as `about 3 min left`; empty below a second. The first
        inputs on several devices are begun together."""
        left_s = self.seconds(steps)
        if left_s is None or left_s < 1:
            return ""
        these = " on these inputs" if devices > 1 else " on this input"
        return f"about {format_duration(left_s)} left{these * self._builds_for_others}"

    def pace(self, devices: int) -> str:
        """Describe how fast several devices work together; empty where too little was done."""
        if self._begun_s is None or self._work < _LEAST_WORK:
            return ""
        each_s = (time.monotonic() - self._begun_s) / self._work
        pace = f"{1 / each_s:.2g} tests/s" if each_s < 1 else f"{each_s:.2g} s a test"
        return f"{pace} on {devices} devices"


def format_duration(time_s: float) -> str:
    """Format a duration of which little is known: 40 s, 4 min, 1.5 h."""
    if time_s < 90:
        return f"{time_s:.0f} s"
    minutes = time_s / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
