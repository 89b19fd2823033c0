"""The sections of the page, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.causes import FAILURES_HEAD, causes, causes_lines, failures_rows
from harness.analysis.explain import shared_samples
from harness.analysis.failures import describe_failures
from harness.analysis.inputs import InputReport
from harness.core.records import Config
from harness.core.text import counted
from harness.dispatch.by_input import slowdowns_by_input
from harness.dispatch.most import PORTFOLIOS_HEAD, PORTFOLIOS_TITLE, portfolio_rows
from harness.dispatch.study import Study, sentence
from harness.dispatch.text import shown_tree, tree_lines, verdict_lines
from harness.display.by_input import BY_INPUT_HEAD, by_input_rows, by_input_title
from harness.display.energy import ENERGY_HEAD, energy_lines, energy_rows
from harness.display.inputs import (
    MOST_SHOWN,
    baselines_rows,
    best_configuration,
    best_time,
    default_time,
    format_speedup,
    not_shown,
    refused_lines,
    times_note,
)
from harness.models.starchart import describe, importance
from harness.report import figures, plots
from harness.report.findings import Findings
from harness.report.reproducing import commands
from harness.results.ablation import ablation_lines
from harness.results.notes import file_lines

_MOST_FAILURES = 40
_CHOICE = "Choice by input"
_FINAL_ROUNDS = (
    "These times are of the final rounds. The sections below also use earlier rounds; they compare "
    "each time with the best of the same rounds."
)


@dataclass(frozen=True)
class PageTable:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class PageSection:
    """A heading with paragraphs, a plot, a table and plain lines; `in_full` lists whole
    configurations, which the page shows on demand."""

    anchor: str
    title: str
    texts: tuple[str, ...] = ()
    picture: str = ""
    table: PageTable | None = None
    lines: tuple[str, ...] = ()
    in_full: tuple[str, ...] = ()


def sections(findings: Findings) -> Iterator[PageSection | None]:
    """Make each section; None for a section without content."""
    yield _winners(findings)
    if findings.results.measured:
        yield _boxes(findings)
        yield _search(findings)
        yield _workload(findings)
        yield from _across(findings)
        yield _failures(findings)
        yield from _explained(findings)
        yield _energy(findings)
        yield _power(findings)
    lines = tuple(commands(findings.results))
    yield PageSection("commands", "Commands to reproduce", lines=lines)


# ---------------------------------------------------------------------------- the winners


def _winners(findings: Findings) -> PageSection:
    """Show the table of the inputs and a plot of their speed-ups."""
    shown, default = findings.reports[:MOST_SHOWN], findings.default
    gains = figures.speed_ups(shown)
    winners = [(report.problem, m.config) for report in shown if (m := report.recommended)]
    notes = (run.notes for run in findings.results.runs)
    finals = [_FINAL_ROUNDS] if any(report.speedup for report in shown) else []
    return PageSection(
        "inputs",
        "Best configuration per input",
        (times_note(default, findings.reports), *finals, *not_shown(len(findings.reports))),
        findings.picture(plots.gains, gains) if gains else "",
        PageTable(_WINNERS_HEAD, [_winner(report, default) for report in shown]),
        lines=tuple(file_lines(notes, (config for _, config in winners))),
        in_full=(f"default: {default}", *(f"({problem}): {config}" for problem, config in winners)),
    )


_WINNERS_HEAD = (
    "input",
    "best configuration",
    "best",
    "default",
    "samples",
    "speed-up",
    "ties",
    "measured",
)


def _winner(report: InputReport, default: Config) -> tuple[str, ...]:
    timing = report.recommended.timing if report.recommended else None
    return (
        str(report.problem),
        best_configuration(report, default),
        best_time(report),
        default_time(report),
        str(timing.count) if timing else "-",
        format_speedup(report),
        str(report.within_noise),
        f"{report.measured:,}",
    )


def _boxes(findings: Findings) -> PageSection | None:
    """Show the final samples, the speed-ups over named baselines, and failed baselines."""
    found = figures.input_boxes(findings.results, findings.reports)
    refused = tuple(refused_lines(findings.reports))
    if not found and not refused:
        return None
    head, rows = baselines_rows(findings.reports[:MOST_SHOWN])
    ablations = findings.results.ablations
    required = tuple(ablation_lines(ablations)) if ablations else ()
    return PageSection(
        "boxes",
        "Best configurations and baselines",
        tuple(_box_texts(findings, len(found))),
        findings.picture(plots.tuned_against_baselines, found) if found else "",
        PageTable(head, rows) if rows else None,
        (*refused, *required),
    )


def _box_texts(findings: Findings, count: int) -> Iterator[str]:
    if count:
        shown = f"{count} of {len(findings.reports)} inputs" if count > 1 else "the input"
        yield f"Interleaved samples of {shown}. Boxes span the quartiles."
    if any(report.baseline_speedups for report in findings.reports):
        yield "The table shows the speed-up of the best configuration over each named baseline."


# ----------------------------------------------------------------------------- the search


def _search(findings: Findings) -> PageSection | None:
    found = figures.search_curves(findings.results)
    if not found:
        return None
    text = "Performance of the best configuration so far, over the best one of the input's search."
    if len(found) > 1:
        text += " Grey lines are inputs; the blue line is their median."
    picture = findings.picture(plots.best_over_time, found)
    return PageSection("search", "Search progress", (text,), picture)


# -------------------------------------------------------------------------- across inputs


def _workload(findings: Findings) -> PageSection | None:
    """Show how much of a workload is covered, and its most frequent inputs."""
    coverage = findings.coverage
    if coverage is None:
        return None
    workload = coverage.workload
    frequent = workload.most_frequent(1)
    rows = [
        (
            str(problem),
            f"{workload.calls[problem]:,}",
            f"{workload.calls[problem] / workload.total:.1%}",
            coverage.places[problem],
        )
        for problem in frequent[:MOST_SHOWN]
    ]
    head = ("input", "calls", "share", "place")
    most = f"The most frequent {len(rows):,} of {counted(len(frequent), 'input')}:"
    return PageSection("workload", "Workload", (*coverage.lines, most), table=PageTable(head, rows))


def _across(findings: Findings) -> Iterator[PageSection]:
    """Show slowdowns of configurations on inputs, the choice by input, and its verdict."""
    found = findings.across
    if found is None:
        return
    has_choice, learnt = found.has_choice, found.learnt(found.best)
    chosen = learnt.indices(found.matrix.features, found.matrix.applies) if has_choice else None
    shown = figures.heat_map(found.matrix, chosen, findings.default)
    rings = "Rings mark the dispatcher's choices. " if has_choice else ""
    text = f"Slowdown of each candidate on each input. {rings}Crosses mark failures."
    yield PageSection(
        "heat-map",
        "Inputs and configurations",
        (f"{text} Configurations list only changes from the default.",),
        findings.picture(plots.inputs_by_candidates, shown),
        lines=tuple(
            f"{label}: {change}"
            for label, change in zip(shown.labels, shown.changes, strict=True)
            if label != change
        ),
        in_full=tuple(
            f"{label}: {config}"
            for label, config in zip(shown.labels, shown.candidates, strict=True)
        ),
    )
    yield from _choice(findings, found) if has_choice else [_no_choice(found)]
    rows = slowdowns_by_input(findings.results, found)
    yield PageSection(
        "by-input",
        "Worst, default and predicted",
        (by_input_title(found.best), *not_shown(len(rows))),
        table=PageTable(BY_INPUT_HEAD, list(by_input_rows(rows))),
    )


def _choice(findings: Findings, found: Study) -> Iterator[PageSection]:
    """Show the tree that chooses, and its verdict."""
    name, heading = shown_tree(found)
    tree = found.learnt(name).program(found.matrix.candidates)
    lines = tuple(tree_lines(tree, findings.default))
    yield PageSection("choice", _CHOICE, (f"{heading}:",), lines=lines)
    yield PageSection(
        "verdict",
        "Verdict on held-out inputs",
        (sentence(found, found.best),),
        lines=tuple(verdict_lines(found)),
    )
    yield PageSection(
        "portfolios",
        "Few configurations",
        (f"{PORTFOLIOS_TITLE}:",),
        table=PageTable(PORTFOLIOS_HEAD, portfolio_rows(found.portfolios, findings.default)),
    )


def _no_choice(found: Study) -> PageSection:
    """Say that choosing by input does not pay."""
    return PageSection("choice", _CHOICE, (sentence(found, found.best),))


# ---------------------------------------------------------------------- explanations


def _failures(findings: Findings) -> PageSection:
    """Show a table of the kinds of failures, their causes, and the commonest reasons."""
    rows = failures_rows(findings.results)
    later = findings.results.failed_later
    if not rows and not later:
        return PageSection("failures", "Failures", ("No configuration failed.",))
    explained = causes_lines(causes(findings.results))
    reasons = tuple(describe_failures(findings.results.measured, findings.default, later))
    return PageSection(
        "failures",
        "Failures",
        table=PageTable(FAILURES_HEAD, rows) if rows else None,
        lines=(*explained, "", *reasons[:_MOST_FAILURES]),
    )


def _explained(findings: Findings) -> Iterator[PageSection]:
    """Show the importance of parameters and features, and the tree as a plot and as text."""
    found = findings.explanation
    if found is None:
        return
    if found.nothing:
        yield PageSection("importance", "Importance for the slowdown", (found.nothing,))
        return
    count = len(found.tree.samples)
    shared = shared_samples(count, found.measurements)
    drawn = "all" if found.unbiased == count else f"{found.unbiased:,}"
    text = (
        f"From {count:,} samples{shared}, {drawn} of them drawn uniformly. Trees of "
        f"this kind predict held-out samples with R2 {found.accuracy.r2:.3f} and a median "
        f"error of {found.accuracy.error.median.value:.1%}."
    )
    shares = importance(found.tree)
    yield PageSection(
        "importance",
        "Importance for the slowdown",
        (text,),
        findings.picture(plots.importances, shares, dict(shares)),
    )
    about, *lines = describe(found.tree, 4)
    yield PageSection(
        "tree",
        "Tree of slowdowns",
        (f"{about[0].upper()}{about[1:]}.",),
        findings.picture(plots.tree_picture, found.tree, lines),
        lines=tuple(lines),
    )


def _energy(findings: Findings) -> PageSection | None:
    """Show the energy of the default, of the best configuration, and the least."""
    found = findings.energies
    if not found:
        return None
    table = PageTable(ENERGY_HEAD, list(energy_rows(found, findings.default)))
    return PageSection("energy", "Energy", tuple(energy_lines(found)), table=table)


def _power(findings: Findings) -> PageSection | None:
    """Show the tree of the power."""
    found = findings.power
    if found is None:
        return None
    if found.nothing:
        return PageSection("power", "Tree of power", (found.nothing,))
    about, *lines = describe(found.tree, 4)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in importance(found.tree).items())
    text = (
        f"Importance: {shares}. Trees of this kind predict held-out samples with R2 "
        f"{found.accuracy.r2:.3f} and a median error of {found.accuracy.error.median.value:.1%}. "
        f"{about[0].upper()}{about[1:]}."
    )
    picture = findings.picture(plots.tree_picture, found.tree, lines)
    return PageSection("power", "Tree of power", (text,), picture, lines=tuple(lines))
