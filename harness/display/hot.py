"""The table of hot times: of launches one right after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.inputs import InputReport
from harness.core.observations import HOT_SPREAD, HOT_TIME
from harness.core.records import Measurement
from harness.core.text import format_time

HOT_HEAD = ("input", "best, hot", "best", "default, hot", "default", "hot speed-up")
HOT_TITLE = "Hot times"
HOT_NOTE = (
    "Hot times are of launches one right after the other, as in a loop of an application: medians "
    "of five batches +- half their 95 % confidence interval. No choice and no claim depends on "
    "them, and the hot speed-up may be chance."
)


def hot_rows(reports: Sequence[InputReport]) -> Iterator[tuple[str, ...]]:
    """Make a row for each input on which a hot time is known."""
    for report in reports:
        best, default = report.recommended, report.baseline
        hot_s, default_hot_s = hot_time_of(best), hot_time_of(default)
        if hot_s is None and default_hot_s is None:
            continue
        gain = default_hot_s / hot_s if hot_s and default_hot_s else None
        yield (
            str(report.problem),
            _hot(best),
            _cold(best),
            _hot(default),
            _cold(default),
            "-" if gain is None else f"{gain:.2f}x",
        )


def hot_time_of(measured: Measurement | None) -> float | None:
    """Return the hot time of a measurement; None where it is not known."""
    return None if measured is None else measured.observed.get(HOT_TIME)


def _hot(measured: Measurement | None) -> str:
    hot_s = hot_time_of(measured)
    if measured is None or hot_s is None:
        return "-"
    spread_s = measured.observed.get(HOT_SPREAD)
    spread = "" if spread_s is None else f" +- {format_time(spread_s, digits=2)}"
    return f"{format_time(hot_s)}{spread}"


def _cold(measured: Measurement | None) -> str:
    return "-" if measured is None or not measured.timing else format_time(measured.time_s)
