"""What every input came to, as `harness.tune` and `harness.analyse` tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement as Measured
from rich.table import Table
from rich.text import Text

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT, NOTE, default_told, difference
from harness.core.records import Config, Measurement, Outcome
from harness.display.baselines import baselines_table, refused_lines
from harness.display.formats import format_outcomes, format_ratio, format_timing
from harness.display.text import print_lines
from harness.stats.timing import half_width

TIMES_TOLD = (
    "times: the median of the samples, and after +- half the 95 % confidence interval of their "
    "mean, which outliers widen"
)

_CONFIGURATION_WIDTH = 28  # a table that leaves its configurations less becomes a list


def print_inputs(
    console: Console, reports: Sequence[InputReport], title: str, default: Config
) -> None:
    """The table of the inputs, and the named baselines with those that failed."""
    console.print(inputs_table(reports, title, default))
    beside = baselines_table(reports)
    if beside is not None:
        console.print(beside)
    print_lines(console, refused_lines(reports))
    console.print()


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
        warning = noise_warning(self._reports)
        if warning:
            yield Text(warning, style="yellow")

    def _fits(self, table: Table, console: Console, options: ConsoleOptions) -> bool:
        """Whether what must not be wrapped leaves enough for the configurations."""
        unbounded = options.update_width(10_000)
        told = max((len(best_configuration(r, self._default)) for r in self._reports), default=0)
        others = Measured.get(console, unbounded, table).maximum - told
        return others + min(told, _CONFIGURATION_WIDTH) <= options.max_width

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("input", no_wrap=True)
        table.add_column("best configuration")
        for heading in ("best", "default", "speed-up", "ties", "measured"):
            table.add_column(heading, justify="right", no_wrap=True)
        for report in self._reports:
            table.add_row(*map(Text, _cells(report, self._default)))
        return table

    def _list(self) -> Text:
        lines = (line for report in self._reports for line in _lines(report, self._default))
        return Text("\n".join(lines) + "\n")

    def _legend(self) -> str:
        told = (
            f"{NOTE} ({default_told(self._default)}); {TIMES_TOLD}; speed-up: over the default, "
            "mean ratio of launches in turn, with its confidence interval; "
            "ties: others that do not differ from the best for certain"
        )
        failed: Counter[Outcome] = Counter()
        for report in self._reports:
            failed.update({o: n for o, n in report.outcomes.items() if o is not Outcome.OK})
        if failed.total():
            told += f"; failed: {format_outcomes(failed)}"
        shared = sum(report.shared for report in self._reports)
        return f"{told}; {_shared_told(shared)}" if shared else told


def _shared_told(count: int) -> str:
    if count == 1:
        return "shared: 1 has the machine code of another and was not measured again"
    return f"shared: {count:,} have the machine code of another and were not measured again"


def noise_warning(reports: Sequence[InputReport]) -> str | None:
    """On how many inputs a time that is shown is known to no better than a quarter, and what
    helps; None where there is none."""
    noisy, inputs = sum(map(_is_noisy, reports)), len(reports)
    if not noisy:
        return None
    return (
        f"On {noisy} of {inputs} inputs the time is known to no better than a quarter: other work "
        "on the device or changing clocks. Measure with nothing beside it, or with more --repeats."
    )


def _is_noisy(report: InputReport) -> bool:
    shown = (m.timing for m in (report.best, report.baseline) if m)
    return any(t and t.count > 1 and half_width(t.samples_s) > t.median_s / 4 for t in shown)


# ------------------------------------------------------------------------- an input's cells


def _cells(report: InputReport, default: Config) -> Iterable[str]:
    yield str(report.given)
    yield best_configuration(report, default)
    yield best_time(report)
    yield default_time(report)
    yield speedup_told(report).replace(" within", "\nwithin")
    yield str(report.within_noise)
    yield _counted(report).replace(", ", "\n")


def _lines(report: InputReport, default: Config) -> Iterable[str]:
    """An input as a few short lines."""
    yield f"\n{report.given}"
    yield f"    {best_configuration(report, default)}"
    if not report.measured:
        return
    yield f"    best {best_time(report)}, default {default_time(report)}"
    ties = "1 tie" if report.within_noise == 1 else f"{report.within_noise} ties"
    yield f"    speed-up {speedup_told(report)}; {ties}; measured {_counted(report)}"


def best_configuration(report: InputReport, default: Config) -> str:
    """In what the best differs from the default; without a best, why there is none."""
    if report.best is None:
        return report.note or "nothing worked"
    return difference(report.best.config, default)


def speedup_told(report: InputReport) -> str:
    """Over the default; where there is none, why."""
    if report.best and report.baseline and report.best.config == report.baseline.config:
        return "default is best"
    if report.speedup:
        return format_ratio(report.speedup)
    return report.note if report.best and report.note else "-"


def best_time(report: InputReport) -> str:
    """The time of the best."""
    return _time(report.best)


def default_time(report: InputReport) -> str:
    """The default's time, or how it failed."""
    refused = report.refused.get(DEFAULT)
    return f"{refused.outcome}" if refused else _time(report.baseline)


def _time(measurement: Measurement | None) -> str:
    if measurement is None or measurement.timing is None:
        return "-"
    return format_timing(measurement.timing)


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
