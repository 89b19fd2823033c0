"""Format times, shares, ratios and counts, and make the console that prints them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.segment import Segment

from harness.core.records import Outcome, Timing
from harness.core.text import format_time
from harness.stats.timing import TimeRatio, half_width_of

_PLAIN_WIDTH = 140


class _PlainConsole(Console):
    """A console whose lines do not end in the spaces that fill a table's last column."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return re.sub(" +(?=\n)", "", super()._render_buffer(buffer))

    def on_broken_pipe(self) -> None:
        """Leave it to the caller: rich would end the process with 1."""
        raise BrokenPipeError


def make_console(stderr: bool = False) -> Console:
    """Make a console that does not cut tables where neither a terminal nor COLUMNS sets a width."""
    console = _PlainConsole(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = _PlainConsole(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    return console


def format_share(share: float, digits: int = 2) -> str:
    """Format a share in percent with so many significant digits and no exponent: 0.28 %."""
    percent = float(f"{100 * share:.{digits - 1}e}")
    if percent == 0 or not math.isfinite(percent):
        return f"{percent:.0f} %"
    after_point = digits - 1 - math.floor(math.log10(abs(percent)))
    return f"{percent:,.{max(0, after_point)}f} %"


def format_timing(timing: Timing) -> str:
    """Format the median or the mean; with several samples, +- half the 95 % confidence interval of
    the mean (Student's t). A few outliers widen the interval but do not move the median."""
    if timing.count == 1:
        return format_time(timing.time_s)
    spread = format_time(half_width_of(timing), digits=2)
    return f"{format_time(timing.time_s)} +- {spread}"


def format_ratio(ratio: TimeRatio) -> str:
    """Format a speed-up with its interval, marked `within noise` where it may be chance."""
    return ratio.text(".2f", "x") + ("" if ratio.is_significant else " within noise")


def format_outcomes(outcomes: Mapping[Outcome, int]) -> str:
    """Format counts by outcome, ok first."""
    order = sorted(outcomes, key=lambda outcome: outcome is not Outcome.OK)
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in order if outcomes[outcome])
