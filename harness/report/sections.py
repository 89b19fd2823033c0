"""The parts of the page, in the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.effects import causes
from harness.analysis.effects import text as effects_text
from harness.analysis.effects.text import reduction_lines
from harness.analysis.explain import shared_told
from harness.analysis.inputs import InputReport, describe_failures
from harness.core.records import Config
from harness.dispatch.study import sentence
from harness.dispatch.text import shown_tree, tree_lines, verdict_lines
from harness.display import (
    baselines_rows,
    best_configuration,
    best_time,
    default_time,
    format_share,
    format_speedup,
    refused_lines,
    times_note,
)
from harness.models.starchart import describe, importance
from harness.report import figures, plots
from harness.report.findings import Findings
from harness.report.reproducing import commands

_MOST_FAILURES = 40


@dataclass(frozen=True)
class Table:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, then paragraphs, a picture, a table or plain lines; and
    configurations in full, for those who ask for them."""

    anchor: str
    title: str
    texts: tuple[str, ...] = ()
    picture: str = ""
    table: Table | None = None
    lines: tuple[str, ...] = ()
    in_full: tuple[str, ...] = ()


def sections(findings: Findings) -> Iterator[Section | None]:
    """Each part; None for one that there is nothing to say of."""
    yield _winners(findings)
    if findings.results.measured:
        yield _boxes(findings)
        yield _search(findings)
        yield _distribution(findings)
        yield from _across(findings)
        yield _failures(findings)
        yield _flags(findings)
        yield from _explained(findings)
        yield _noise(findings)
    lines = tuple(commands(findings.results, findings.origin))
    yield Section("commands", "To reproduce it", lines=lines)


# ---------------------------------------------------------------------------- the winners


def _winners(findings: Findings) -> Section:
    """A row an input, and the speed-ups as a picture."""
    gains = figures.speed_ups(findings.reports)
    default = findings.default
    winners = [(report.given, report.best) for report in findings.reports if report.best]
    return Section(
        "inputs",
        "Best configuration of each input",
        (times_note(default),),
        plots.gains(gains) if gains else "",
        Table(_WINNERS_HEAD, [_winner(report, default) for report in findings.reports]),
        in_full=(f"default: {default}", *(f"({given}): {m.config}" for given, m in winners)),
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
    timing = report.best.timing if report.best else None
    return (
        figures.name_of(report.given),
        best_configuration(report, default),
        best_time(report),
        default_time(report),
        str(timing.count) if timing else "-",
        format_speedup(report),
        str(report.within_noise),
        f"{report.measured:,}",
    )


def _boxes(findings: Findings) -> Section | None:
    """The samples of the finals, the speed-up over each named baseline, and what failed."""
    found = figures.boxes(findings.results, findings.reports)
    refused = tuple(refused_lines(findings.reports))
    if not found and not refused:
        return None
    head, rows = baselines_rows(findings.reports)
    reductions = findings.results.reductions
    needed = tuple(reduction_lines(reductions)) if reductions else ()
    return Section(
        "boxes",
        "Tuned against the baselines",
        tuple(_boxes_told(findings, len(found))),
        plots.tuned_against_baselines(found) if found else "",
        Table(head, rows) if rows else None,
        (*refused, *needed),
    )


def _boxes_told(findings: Findings, count: int) -> Iterator[str]:
    if count:
        shown = f"{count} of {len(findings.reports)} inputs" if count > 1 else "the input"
        yield f"Samples of {shown}, measured in turn; boxes over the quartiles."
    if any(report.over for report in findings.reports):
        yield "In the table, the speed-up of the best over each named baseline."


# ----------------------------------------------------------------------------- the search


def _search(findings: Findings) -> Section | None:
    found = figures.courses(findings.results)
    if not found:
        return None
    text = "The best so far, as a fraction of the best that is known of the input."
    if len(found) > 1:
        text += " A grey line an input; blue is their median."
    return Section("search", "Best over time", (text,), plots.best_over_time(found))


def _distribution(findings: Findings) -> Section | None:
    found = figures.distribution(findings.results)
    if not len(found.slowdowns):
        return None
    near = float((found.slowdowns <= 1.05).mean())
    text = (
        f"{len(found.slowdowns):,} configurations worked and {found.failed:,} failed, over all "
        f"inputs; {near:.1%} of those that worked are within 5 % of their input's best."
    )
    return Section("times", "Distribution of times", (text,), plots.times(found))


# -------------------------------------------------------------------------- across inputs


def _across(findings: Findings) -> Iterator[Section]:
    """Which configuration for which input, and how good that is."""
    found = findings.across
    if found is None:
        return
    learnt = found.learnt(found.best)
    chosen = learnt.indices(found.matrix.features, found.matrix.applies)
    shown = figures.heat_map(found.matrix, chosen, findings.default)
    text = (
        "Slowdown of each candidate on each input. A ring is what the dispatcher chooses, a "
        "cross what failed."
    )
    yield Section(
        "heat-map",
        "Inputs and configurations",
        (f"{text} Configurations list only changes from the default.",),
        plots.inputs_by_candidates(shown),
        in_full=tuple(
            f"{label}: {config}"
            for label, config in zip(shown.labels, shown.candidates, strict=True)
        ),
    )
    name, heading = shown_tree(found, {found.best: learnt})
    tree = found.learnt(name).program(found.matrix.candidates)
    yield Section(
        "choice",
        heading,
        lines=tuple(tree_lines(tree, findings.default)),
    )
    yield Section(
        "verdict",
        "Verdict on inputs that were held out",
        (sentence(found, found.best),),
        lines=tuple(verdict_lines(found)),
    )


# --------------------------------------------------------- what times and failures depend on


def _failures(findings: Findings) -> Section:
    """A row a kind, what explains it, and the commonest reasons with an example each."""
    rows = effects_text.failures_rows(findings.trials)
    if not rows:
        return Section("failures", "Failures", ("No configuration failed.",))
    explained = effects_text.causes_lines(causes(findings.trials), failed=True)
    reasons = tuple(describe_failures(findings.results.measured, findings.default))
    return Section(
        "failures",
        "Failures",
        table=Table(effects_text.FAILURES_HEAD, rows),
        lines=(*explained, "", *reasons[:_MOST_FAILURES]),
    )


def _flags(findings: Findings) -> Section | None:
    """What each value of each parameter does to the time, alone and in pairs."""
    found = findings.effects
    if found is None:
        return None
    told = tuple(effects_text.effects_lines(found, findings.results))
    clear = [effect for effect in found.first if effect.is_significant][: effects_text.MOST_EFFECTS]
    rows = effects_text.effects_rows(found)
    return Section(
        "flags",
        "Flags and parameters",
        told if found.is_enough else told[:1],
        plots.effects(clear) if clear else "",
        Table(effects_text.EFFECTS_HEAD, rows) if rows else None,
        tuple(effects_text.pairs_lines(found.pairs)) if found.is_enough else told[1:],
    )


def _explained(findings: Findings) -> Iterator[Section]:
    """Importance, and the tree as a picture and as text."""
    told = findings.explanation
    if told is None:
        return
    drawn = "all" if told.unbiased == len(told.tree.samples) else f"{told.unbiased:,}"
    text = (
        f"From {len(told.tree.samples):,} samples{shared_told(told)}, {drawn} of them designed or "
        "drawn uniformly. "
        f"Such trees predict held-out samples with R2 {told.accuracy.r2:.3f} and a median error of "
        f"{told.accuracy.error.median.value:.1%}."
    )
    yield Section(
        "importance",
        "What the slowdown depends on",
        (text,),
        plots.importances(importance(told.tree)),
    )
    about, *lines = describe(told.tree, 4)
    yield Section(
        "tree",
        "The tree of slowdowns",
        (f"{about[0].upper()}{about[1:]}.",),
        plots.tree_picture(told.tree),
        lines=tuple(lines),
    )


def _noise(findings: Findings) -> Section | None:
    found = figures.noise(findings.results)
    if not len(found):
        return None
    middle, tail = np.quantile(found, [0.5, 0.9])
    text = (
        f"Half of the measurements vary by less than {format_share(middle)}, nine in ten by less "
        f"than {format_share(tail)}: the standard deviation of their samples over their mean."
    )
    return Section("noise", "Measurement noise", (text,), plots.spreads(found))
