"""The time left of a stage, from the steps that it has done so far."""

from __future__ import annotations

import time

_LEAST_STEPS = 3  # fewer say too little


class TimeLeft:
    """Counts the finished steps of a stage, and extrapolates to the rest."""

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._done = 0

    def worked(self) -> None:
        """Count a step that has ended; an answer from the database is none."""
        self._done += 1

    def text(self, steps: int, devices: int = 1) -> str:
        """Describe the time of so many steps, such as `about 3 min left`, and how fast several
        devices work together; empty where little was done, or below a second."""
        if self._done < _LEAST_STEPS:
            return ""
        each_s = (time.monotonic() - self._begun_s) / self._done
        left_s = steps * each_s
        left = f"about {format_duration(left_s)} left" if left_s >= 1 else ""
        if devices == 1:
            return left
        pace = f"{1 / each_s:.2g} tests/s" if each_s < 1 else f"{each_s:.2g} s a test"
        return ", ".join(filter(None, (left, f"{pace} on {devices} devices")))


def format_duration(time_s: float) -> str:
    """Format a duration of which little is known: 40 s, 4 min, 1.5 h."""
    if time_s < 90:
        return f"{time_s:.0f} s"
    minutes = time_s / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
