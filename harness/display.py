"""What a person sees: progress on a terminal, plain lines elsewhere, tables at the end."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement as Measured
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from harness.records import Config, Measurement, Outcome, Timing
from harness.timing import Ratio, half_width

if TYPE_CHECKING:  # they bring scikit-learn and OpenTuner, which not every command needs
    from harness.analysis import InputReport
    from harness.search import Progress as TestProgress

_PLAIN_WIDTH = 140
_PLAIN_PERIOD_S = 5.0
_CONFIGURATION_WIDTH = 28  # a table that leaves its configurations less becomes a list
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def make_console(stderr: bool = False) -> Console:
    """A console that does not cut tables where neither a terminal nor COLUMNS sets a width."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    return console


def format_time(seconds: float, digits: int = 3) -> str:
    """Seconds in the unit that people read, with so many significant digits: 412 us."""
    if seconds == 0:
        return "0 s"
    # Rounded first: 999.6 us is 1.00 ms.
    rounded = float(f"{seconds:.{digits - 1}e}")
    scale, unit = next((pair for pair in _UNITS if rounded >= pair[0]), _UNITS[-1])
    number = rounded / scale
    before_point = len(f"{number:.0f}") if number >= 1 else 1
    return f"{number:.{max(0, digits - before_point)}f} {unit}"


def format_timing(timing: Timing) -> str:
    """Median +- half the 95 % interval of the mean, with the number of samples."""
    samples = "sample" if timing.count == 1 else "samples"
    return f"{_median(timing)} ({timing.count} {samples})"


@lru_cache(maxsize=1)  # the best so far is told after each test
def _median(timing: Timing) -> str:
    """The median, and how well it is known where there is more than one sample."""
    if timing.count == 1:
        return format_time(timing.median_s)
    spread = format_time(half_width(timing.samples_s), digits=2)
    return f"{format_time(timing.median_s)} +- {spread}"


def format_ratio(ratio: Ratio) -> str:
    """A speed-up and its interval; one that may be chance is called that."""
    return _interval(ratio) + ("" if ratio.is_clear else " within noise")


def _interval(ratio: Ratio) -> str:
    return f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"


def format_outcomes(outcomes: Mapping[Outcome, int]) -> str:
    """Counts by outcome, ok first."""
    order = sorted(outcomes, key=lambda outcome: outcome is not Outcome.OK)
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in order if outcomes[outcome])


class ProgressDisplay:
    """Tells of stages and tests: one live line on a terminal, plain lines where there is none."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live = console.is_terminal and not console.is_dumb_terminal and not quiet
        # One line, whatever the width: what was told last gives way first.
        told = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[told]}", markup=False, table_column=told),
            console=console,
            expand=True,
            transient=True,
        )
        self._task: TaskID | None = None
        self._title, self._steps, self._done = "", 0, 0
        self._outcomes: Counter[Outcome] = Counter()
        self._shared = 0
        self._last_line_s = 0.0

    def __enter__(self) -> ProgressDisplay:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._bar.stop()

    def begin_stage(self, title: str, steps: int) -> None:
        """A stage begins; one without steps is not shown."""
        self._title, self._steps, self._done = title, steps, 0
        self._outcomes, self._shared = Counter(), 0
        self._last_line_s = time.monotonic()
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        if self._live and steps:
            self._task = self._bar.add_task(title, total=steps, told="")
        elif steps:
            self._line(f"{title}: {steps} to do")

    def warn(self, text: str) -> None:
        """Told in any case, above the live line."""
        self._console.print(Text(f"warning: {text}"), soft_wrap=True)

    def step(self, text: str) -> None:
        """One step has ended."""
        self._done += 1
        self._advance(text)
        self._line_when_due(f"{self._done} of {self._steps}, {text}")

    def test(self, progress: TestProgress) -> None:
        """One test has ended; a search's last test closes its line."""
        self._done, self._steps = progress.ordinal, progress.total
        self._outcomes[progress.measurement.outcome] += 1
        self._shared += progress.measurement.shared_with is not None
        best, outcomes = progress.best, format_outcomes(self._outcomes)
        outcomes += f", {self._shared} shared" if self._shared else ""
        time_told = f"best {_median(best.timing)}" if best and best.timing else "none has worked"
        config_told = f" ({best.config})" if best else ""
        # Where the line is cut, the counts are to be seen.
        self._advance(f"{time_told}; {outcomes}{config_told}")
        counted = f"test {progress.ordinal} of {progress.total}"
        self._line_when_due(f"{counted}, {time_told}{config_told}; {outcomes}")

    def _advance(self, told: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, advance=1, told=told)

    def _line_when_due(self, text: str) -> None:
        """A line at the end of a stage, and now and then before."""
        due = time.monotonic() - self._last_line_s > _PLAIN_PERIOD_S
        if not self._live and (due or self._done == self._steps):
            self._last_line_s = time.monotonic()
            self._line(f"{self._title}: {text}")

    def _line(self, text: str) -> None:
        if not self._quiet:
            self._console.print(Text(text), soft_wrap=True)


def inputs_table(reports: Sequence[InputReport], title: str, default: Config) -> InputsTable:
    """One row an input: its best configuration, time, speed-up and ties."""
    return InputsTable(reports, title, default)


class InputsTable:
    """What every input came to: a table, or a list where the console is too narrow for one."""

    def __init__(self, reports: Sequence[InputReport], title: str, default: Config) -> None:
        self._reports = reports
        self._title = title
        self._default = default

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        yield Text(self._title, style="bold")
        yield table if self._fits(table, console, options) else self._list()
        yield Text(self._legend(), style="dim")
        noisy = sum(map(_is_noisy, self._reports))
        if noisy:
            yield Text(_noise_told(noisy, len(self._reports)), style="yellow")

    def _fits(self, table: Table, console: Console, options: ConsoleOptions) -> bool:
        """Whether what must not be wrapped leaves enough for the configurations."""
        unbounded = options.update_width(10_000)
        told = max((len(_configuration(report)) for report in self._reports), default=0)
        others = Measured.get(console, unbounded, table).maximum - told
        return others + min(told, _CONFIGURATION_WIDTH) <= options.max_width

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("input", no_wrap=True)
        table.add_column("best configuration")
        for heading in ("best", "default", "speed-up", "ties", "measured"):
            table.add_column(heading, justify="right", no_wrap=True)
        for report in self._reports:
            table.add_row(*map(Text, _cells(report)))
        return table

    def _list(self) -> Text:
        return Text("\n".join(line for report in self._reports for line in _lines(report)) + "\n")

    def _legend(self) -> str:
        told = (
            "times: median +- half the 95 % interval of the mean; speed-up: over the default "
            f"({self._default}), mean ratio of launches in turn, with its confidence interval; "
            "ties: others that do not differ from the best for certain"
        )
        failed: Counter[Outcome] = Counter()
        for report in self._reports:
            failed.update({o: n for o, n in report.outcomes.items() if o is not Outcome.OK})
        if failed.total():
            told += f"; failed: {format_outcomes(failed)}"
        shared = sum(report.shared for report in self._reports)
        return f"{told}; {_shared_told(shared)}" if shared else told


def baselines_table(reports: Sequence[InputReport]) -> Table | None:
    """A row an input: the speed-up of its best over each named baseline; None without any."""
    names = list(dict.fromkeys(name for report in reports for name in report.over))
    if not names:
        return None
    table = Table(title="Speed-up over", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("input", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        if report.best is None:
            continue  # nothing worked, or nothing was measured; the table of inputs says which
        found = (report.over.get(name) for name in names)
        told = (_over(ratio) for ratio in found)
        table.add_row(Text(str(report.given)), *map(Text, told))
    return table


def _over(ratio: Ratio | None) -> str:
    if ratio is None:
        return "failed"
    return "is the best" if ratio.low == ratio.high == 1 else format_ratio(ratio)


def _shared_told(count: int) -> str:
    if count == 1:
        return "shared: 1 has the machine code of another and was not measured again"
    return f"shared: {count:,} have the machine code of another and were not measured again"


def _is_noisy(report: InputReport) -> bool:
    """Whether a time that is shown is known only to a quarter."""
    shown = (m.timing for m in (report.best, report.baseline) if m)
    return any(t and t.count > 1 and half_width(t.samples_s) > t.median_s / 4 for t in shown)


def _noise_told(noisy: int, inputs: int) -> str:
    return (
        f"On {noisy} of {inputs} inputs the time is known to no better than a quarter: other work "
        "on the device or changing clocks. Measure with nothing beside it, or with more --repeats."
    )


def _cells(report: InputReport) -> Iterable[str]:
    yield str(report.given)
    yield _configuration(report)
    yield _time(report.best)
    yield _time(report.baseline)
    yield _speedup(report).replace(" within", "\nwithin")
    yield str(report.within_noise)
    yield _counted(report).replace(", ", "\n")


def _lines(report: InputReport) -> Iterable[str]:
    """An input as a few short lines."""
    yield f"\n{report.given}"
    yield f"    {_configuration(report)}"
    yield f"    best {_time(report.best)}, default {_time(report.baseline)}"
    ties = "1 tie" if report.within_noise == 1 else f"{report.within_noise} ties"
    yield f"    speed-up {_speedup(report)}; {ties}; measured {_counted(report)}"


def _configuration(report: InputReport) -> str:
    return str(report.best.config) if report.best else report.note or "nothing worked"


def _speedup(report: InputReport) -> str:
    if report.best and report.baseline and report.best.config == report.baseline.config:
        return "default is best"
    if report.speedup:
        return format_ratio(report.speedup)
    return report.note if report.best and report.note else "-"


def _time(measurement: Measurement | None) -> str:
    if measurement is None or measurement.timing is None:
        return "-"
    return _median(measurement.timing)


def _counted(report: InputReport) -> str:
    """How much of the space was measured, and how much of that failed."""
    told = f"{report.measured}"
    if report.is_exhausted:
        told = f"all {report.measured}"
    elif report.legal is not None:
        told += f" of {report.legal:,}"
    failed = report.measured - report.outcomes.get(Outcome.OK, 0)
    told += f", {failed} failed" if failed else ""
    return told + (f", {report.shared} shared" if report.shared else "")
