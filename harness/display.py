"""What a person sees: progress on a terminal, plain lines elsewhere, tables at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from harness.analysis import InputReport
from harness.records import Config, Measurement, Outcome, Timing
from harness.search import Progress as TestProgress
from harness.timing import Ratio, half_width

_PLAIN_WIDTH = 140
_PLAIN_PERIOD_S = 5.0
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def make_console(stderr: bool = False) -> Console:
    """A console that does not cut tables where no terminal sets a width."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    return console


def format_time(seconds: float) -> str:
    """Seconds with three digits and a unit that people read: 412 us."""
    for scale, unit in _UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def format_timing(timing: Timing) -> str:
    """Median +- half the 95 % interval of the mean, with the number of samples."""
    spread = half_width(timing.samples_s)
    told = f" +- {format_time(spread)}" if timing.count > 1 else ""
    samples = "sample" if timing.count == 1 else "samples"
    return f"{format_time(timing.median_s)}{told} ({timing.count} {samples})"


def format_ratio(ratio: Ratio) -> str:
    """A speed-up and its interval; one that may be chance is called that."""
    told = f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
    return told if ratio.is_clear else f"{told} within noise"


def format_outcomes(outcomes: Mapping[Outcome, int]) -> str:
    """Counts by outcome, ok first."""
    order = sorted(outcomes, key=lambda outcome: outcome is not Outcome.OK)
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in order if outcomes[outcome])


class ProgressDisplay:
    """Tells of stages and tests: one live line on a terminal, plain lines where there is none."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live = console.is_terminal and not quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._title = ""
        self._outcomes: Counter[Outcome] = Counter()
        self._last_line_s = 0.0

    def __enter__(self) -> ProgressDisplay:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin_stage(self, title: str, steps: int) -> None:
        """A stage begins; one without steps is not shown."""
        self._title, self._outcomes = title, Counter()
        self._last_line_s = time.monotonic()
        if self._live:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(title, total=steps, told="")
        elif not self._quiet and steps:
            self._line(f"{title}: {steps} to do")

    def step(self, text: str) -> None:
        """One step has ended."""
        self._advance(text)

    def test(self, progress: TestProgress) -> None:
        """One test has ended; a search's last test closes its line."""
        self._outcomes[progress.measurement.outcome] += 1
        best = progress.best
        told = f"best {_short(best)}; " if best else ""
        told += format_outcomes(self._outcomes)
        self._advance(told)
        done = progress.ordinal == progress.total
        due = time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S
        if not self._live and not self._quiet and (done or due):
            self._last_line_s = time.monotonic()
            self._line(f"{self._title}: test {progress.ordinal} of {progress.total}, {told}")

    def _advance(self, told: str) -> None:
        if self._live and self._task is not None:
            self._bar.update(self._task, advance=1, told=told)

    def _line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _short(measurement: Measurement) -> str:
    assert measurement.timing is not None
    spread = half_width(measurement.timing.samples_s)
    return f"{format_time(measurement.time_s)} +- {format_time(spread)} ({measurement.config})"


def inputs_table(reports: Sequence[InputReport], title: str, default: Config) -> Table:
    """One row an input: its best configuration, time, speed-up and ties."""
    caption = (
        f"times: median +- half the 95 % interval; speed-up: over the default ({default}), "
        "re-measured in turn, with its 95 % interval"
    )
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for heading in ("input", "best configuration"):
        table.add_column(heading)
    for heading in ("best", "default", "speed-up"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("within noise", "measured"):
        table.add_column(heading, justify="right")
    for report in reports:
        table.add_row(*_cells(report))
    return table


def _cells(report: InputReport) -> Iterable[str]:
    best, baseline = report.best, report.baseline
    yield str(report.given)
    yield str(best.config) if best else "nothing worked"
    yield _spread(best)
    yield _spread(baseline)
    yield format_ratio(report.speedup) if report.speedup else "-"
    yield f"{report.within_noise} others"
    yield _counted(report)


def _counted(report: InputReport) -> str:
    """How much of the space was measured, and how much of that failed."""
    told = f"{report.measured}"
    if report.is_exhausted:
        told = f"all {report.measured}"
    elif report.legal is not None:
        told += f" of {report.legal:,}"
    failed = report.measured - report.outcomes.get(Outcome.OK, 0)
    return told + (f", {failed} failed" if failed else "")


def _spread(measurement: Measurement | None) -> str:
    if measurement is None or measurement.timing is None:
        return "-"
    timing = measurement.timing
    if timing.count == 1:
        return format_time(timing.median_s)
    return f"{format_time(timing.median_s)} +- {format_time(half_width(timing.samples_s))}"
