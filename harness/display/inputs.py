"""The table of the inputs that `harness.tune` and `harness analyse` print, with the speed-ups over
named baselines and the baselines that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.measure import Measurement as Width
from rich.table import Table

from harness.analysis.failures import group_failures, headline
from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT, default_text, difference
from harness.core.observations import SPILL_BYTES, UNCLAIMED
from harness.core.records import Config, Input, Measurement, Outcome, Statistic, StopReason
from harness.core.text import command_line, counted, format_factor
from harness.display.text import (
    Section,
    SectionTable,
    as_text,
    format_outcomes,
    format_ratio,
    format_share,
    format_timing,
    make_table,
    print_lines,
)
from harness.results.ablation import Ablation, ablation_lines
from harness.results.notes import Notes, file_lines
from harness.stats.timing import FALSE_DISCOVERIES

MOST_SHOWN = 1_000
"""The most inputs in a table; of more, the first are shown."""

INPUTS_HEAD = ("input", "best configuration", "best", "default", "speed-up")
_LEFT_OUT = ((), (3,), (2, 3))  # columns; the first of these with which a table fits
_LEAST_WIDTHS = (16, 20)  # of inputs and configurations, which wrap
NOT_FASTER = "within noise"
PAIRED = "speed-ups over the default compare paired rounds, not these medians"
ONLY_DEFAULT = "only the default was tried"
_MANY = 10_000_000
_NOISY = 0.25  # half the interval over the time


def print_inputs(
    console: Console,
    reports: Sequence[InputReport],
    default: Config,
    notes: Sequence[Notes] = (),
    ablations: Mapping[Input, Ablation] = MappingProxyType({}),
) -> None:
    """Print the table of the inputs, and the section of the baselines.

    `notes` of the runs name the files that flags of winners pass to the compiler.
    """
    console.print(
        _fitting_table(console, [[*input_cells(r, default)] for r in reports[:MOST_SHOWN]])
    )
    _print_wrapped(console, not_shown(len(reports)))
    _print_wrapped(console, [" ".join(_legend(reports, default))], "dim")
    _print_wrapped(console, [*claims_lines(reports), *filter(None, [health_line(reports)])])
    _print_wrapped(console, noise_lines(reports), "yellow")
    winners = (m.config for report in reports if (m := report.recommended))
    print_lines(console, [*file_lines(notes, winners), ""])
    baselines = baselines_section(reports, ablations)
    if baselines is not None:
        baselines.print(console)


def _print_wrapped(console: Console, lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        console.print(as_text(line, style))


def _fitting_table(console: Console, rows: Sequence[Sequence[str]]) -> Table:
    """Make a table of the inputs. Where the console is narrow, times are left out, the default's
    first, and long inputs and configurations wrap."""
    widest = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for left_out in _LEFT_OUT:
        head, *body = (
            [cell for column, cell in enumerate(row) if column not in left_out]
            for row in (INPUTS_HEAD, *rows)
        )
        table = make_table(head, body, left=(0, 1), wrap=(0, 1))
        whole = Width.get(console, console.options.update_width(10_000), table).maximum
        # The columns that never wrap must leave enough room for those that do.
        if whole - sum(widest) + sum(map(min, widest, _LEAST_WIDTHS)) <= console.width:
            break
    return table


def _legend(reports: Sequence[InputReport], default: Config) -> Iterator[str]:
    yield times_note(default, reports)
    tried = tried_text(reports)
    if tried:
        yield f"{tried[0].upper()}{tried[1:]}."
    failed: Counter[Outcome] = Counter()
    for report in reports:
        failed.update({o: n for o, n in report.outcomes.items() if o is not Outcome.OK})
    if failed.total():
        yield f"Failed: {format_outcomes(failed)}."
    shared = sum(report.shared for report in reports)
    if shared:
        yield f"Shared: {counted(shared, 'configuration')} with the machine code of another."


def not_shown(inputs: int) -> Iterator[str]:
    """Say that a table has not all inputs, and where all are."""
    if inputs > MOST_SHOWN:
        yield (
            f"These are the first {MOST_SHOWN:,} of {inputs:,} inputs; "
            f"`{command_line('export')}` writes all."
        )


def times_note(default: Config, reports: Sequence[InputReport]) -> str:
    """Explain the configurations and the times of a table."""
    timings = [m.timing for r in reports for m in (r.best, r.baseline) if m and m.timing]
    statistic = timings[0].statistic if timings else Statistic.MEDIAN
    is_interleaved = any(timing.stopped is StopReason.INTERLEAVED for timing in timings)
    is_paired = is_interleaved and statistic is Statistic.MEDIAN
    return (
        f"Configurations list only changes from the default ({default_text(default)}). "
        f"Times are {statistic.value}s +- half the {format_confidence(reports)} confidence "
        "interval; "
        f"{PAIRED if is_paired else 'speed-ups are over the default'}."
    )


def format_confidence(reports: Sequence[InputReport]) -> str:
    """Format the probability of the intervals of reports, such as 95 %."""
    return f"{100 * reports[0].confidence:.6g} %" if reports else "95 %"


def claims_lines(reports: Sequence[InputReport]) -> Iterator[str]:
    """Say how many speed-ups are significant, and how many of these may be chance; nothing where
    no speed-up was measured."""
    judged = [report.speedup for report in reports if report.speedup]
    faster = sum(speedup.is_faster for speedup in judged)
    if not judged:
        return
    if not faster:
        yield "No speed-up is significant."
    elif len(judged) == 1:
        # What one side of the interval leaves out, and no more than the rate that is held.
        rate = format_share(min((1 - judged[0].confidence) / 2, FALSE_DISCOVERIES))
        yield f"The speed-up is significant: equal code looks so in at most {rate} of measurements."
    else:
        share = format_share(FALSE_DISCOVERIES, digits=1)
        yield (
            f"{faster} of {len(judged)} speed-ups are significant; of these, at most {share} are "
            "expected to be chance."
        )
    clear = [report for report in reports if report.speedup and report.speedup.is_clear]
    unshown = [report for report in clear if report.best and UNCLAIMED in report.best.observed]
    if unshown:
        first = unshown[0]
        reason = headline(first.best.message) if first.best else ""
        where = _where([report.problem for report in unshown], reports)
        yield f"A gain is not claimed on {where}: {reason}."


def tried_text(reports: Sequence[InputReport]) -> str:
    """Say what a verdict rests on: `12 of 162 configurations tried on each input`. The number of
    legal configurations may be unknown. Empty where nothing was measured."""
    measured = [report for report in reports if report.measured]
    if not measured:
        return ""
    alone = sum(report.is_default_alone for report in measured)
    if alone == len(measured):
        return ONLY_DEFAULT
    text = _span([report.measured for report in measured])
    legal = [report.legal for report in measured if report.legal]
    if all(report.is_exhausted for report in measured):
        text = f"all {text}"
    elif len(legal) == len(measured):
        text = f"{text} of {_span(legal)}"
    text = f"{text} configurations tried"
    if len(measured) > 1:
        text = f"{text} on each input"
    return f"{text}; {ONLY_DEFAULT} on {alone} of {len(measured)} inputs" if alone else text


def _span(counts: Sequence[int]) -> str:
    """Format the least and the greatest of some counts; large ones with two digits."""
    ends = dict.fromkeys([min(counts), max(counts)])
    return " to ".join(f"{n:,}" if n < _MANY else f"{n:.1e}" for n in ends)


def health_line(reports: Sequence[InputReport]) -> str:
    """Say in a line whether the best spill registers, how long the slowest configurations took, and
    how many failed; empty where nothing worked."""
    winners = [report.recommended for report in reports if report.recommended]
    ratios = [report.worst for report in reports if report.worst is not None]
    if not winners or not ratios:
        return ""
    sentences: list[str] = []
    spilled = [m.observed[SPILL_BYTES] / 4 for m in winners if SPILL_BYTES in m.observed]
    is_single = len(winners) == 1
    if spilled:
        most = f"{max(spilled):.0f} registers"
        many = f"{len(spilled)} of {len(winners)} best configurations spill up to {most}."
        sentences.append(f"The best spills {most}." if is_single else many)
    tests = sum(report.measured for report in reports)
    failed = tests - sum(report.outcomes.get(Outcome.OK, 0) for report in reports)
    crossed = sum(report.crossed for report in reports)
    counts = counted(tests - crossed, "test")
    if crossed:
        counts += f" and {counted(crossed, 'measurement')} across inputs"
    text = f"of {counts}, {failed:,} failed."
    if max(ratios) > 1:
        up_to = "" if is_single else "up to "
        slowest = f"The slowest took {up_to}{format_factor(max(ratios))}x as long as the best"
        sentences.append(f"{slowest}; {text}")
    else:
        sentences.append(text.capitalize())
    return " ".join(sentences)


def noise_lines(reports: Sequence[InputReport]) -> Iterator[str]:
    """Say on how many inputs a printed time is noisy, and what helps; nothing without noise."""
    noisy = list(filter(_is_noisy, reports))
    if noisy:
        timings = [m.timing for report in noisy for m in (report.best, report.baseline) if m]
        is_recorded = any(t and t.stopped is StopReason.RECORDED for t in timings)
        advice = "" if is_recorded else " Close other programs, or use more --repeats."
        yield (
            f"Timings are noisy on {len(noisy)} of {len(reports)} inputs (interval wider than +- "
            f"{format_share(_NOISY)}).{advice}"
        )


def _is_noisy(report: InputReport) -> bool:
    measured = [m for m in (report.best, report.baseline) if m]
    return any((report.spread_s(m) or 0) > _NOISY * m.time_s for m in measured)


# ------------------------------------------------------------------------- an input's cells


def input_cells(report: InputReport, default: Config) -> Iterator[str]:
    """Yield the cells of an input under INPUTS_HEAD."""
    best, failed = report.recommended, report.failed_baselines.get(DEFAULT)
    yield str(report.problem)
    yield difference(best.config, default) if best else report.note or "nothing worked"
    yield _time(best, report)
    yield str(failed.outcome) if failed else _time(report.baseline, report)
    yield _format_speedup(report)


def _format_speedup(report: InputReport) -> str:
    """Format the speed-up over the default, or why there is none."""
    if report.best and report.baseline and report.best.config == report.baseline.config:
        return ONLY_DEFAULT if report.is_default_alone else "default is best"
    if report.speedup:
        return report.speedup.text(".2f", "x") if report.speedup.is_faster else NOT_FASTER
    return report.note if report.best and report.note else "-"


def _time(measurement: Measurement | None, report: InputReport) -> str:
    if measurement is None or measurement.timing is None:
        return "-"
    return format_timing(measurement.timing, report.confidence)


def _over(report: InputReport, name: str) -> str:
    ratio, failed = report.baseline_speedups.get(name), report.failed_baselines.get(name)
    if ratio is None:
        return f"{failed.outcome}" if failed else "not measured"
    return "is the best" if ratio.low == ratio.high == 1 else format_ratio(ratio)


def refused_lines(reports: Sequence[InputReport]) -> Iterator[str]:
    """Say on how many inputs the default or a named baseline failed, a line for each reason."""
    failed = [(r, name, measured) for r in reports for name, measured in r.failed_baselines.items()]
    groups = group_failures(failed, lambda at: at[2].message, lambda at: (at[1], at[2].outcome))
    for group in groups:
        _, name, measured = group.members[0]
        failing = "The default" if name == DEFAULT else f"The baseline {name}"
        where = _where([at[0].problem for at in group.members], reports)
        yield f"{failing} failed on {where}: {measured.outcome}: {group.headline}"


def _where(problems: Sequence[Input], reports: Sequence[InputReport]) -> str:
    """Say on how many inputs of all something happened, with an example."""
    example = f"{'such as ' if len(problems) > 1 else ''}({problems[0]})"
    return f"{len(problems)} of {counted(len(reports), 'input')}, {example}"


def baselines_section(
    reports: Sequence[InputReport], ablations: Mapping[Input, Ablation]
) -> Section | None:
    """Show the speed-ups over named baselines, baselines that failed, and the flags that winners
    need; None without any of these."""
    names: dict[str, None] = {}
    for report in reports[:MOST_SHOWN]:
        names.update(dict.fromkeys(report.baseline_speedups))
        names.update(dict.fromkeys(report.failed_baselines))
    names.pop(DEFAULT, None)
    lines = list(refused_lines(reports))
    if ablations:
        lines += ablation_lines(ablations)
    working = [report for report in reports[:MOST_SHOWN] if report.best]
    if not (names and working):
        return Section("baselines", "Baselines", lines=lines) if lines else None
    rows = [(str(report.problem), *(_over(report, n) for n in names)) for report in working]
    text = "The speed-up of the best configuration over each named baseline."
    table = SectionTable(("input", *names), rows, range(1 + len(names)))
    return Section("baselines", "Baselines", [text], table=table, lines=lines)
