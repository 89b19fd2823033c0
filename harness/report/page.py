"""Render results as one self-contained HTML page: its sections, in their order, and what stands
above them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import __version__
from harness.analysis.coverage import NOT_MEASURED, not_measured, reservations
from harness.analysis.explain import Explanation
from harness.analysis.sensors import clock_range
from harness.analysis.summary import summarize
from harness.core.errors import UsageError
from harness.core.records import Outcome
from harness.core.text import command_line, counted, first_few
from harness.dispatch.study import AUTO, slowdowns_by_input
from harness.display.inputs import (
    INPUTS_HEAD,
    MOST_SHOWN,
    baselines_section,
    claims_lines,
    health_line,
    input_cells,
    noise_lines,
    not_shown,
    times_note,
)
from harness.display.recommendation import choice_sections
from harness.display.sections import (
    bits_section,
    by_input_section,
    energy_section,
    failures_section,
    front_section,
    roofline_section,
    summary_sections,
)
from harness.display.text import Section, SectionTable
from harness.models.starchart import describe, importance
from harness.report import figures, plots
from harness.report.findings import Findings
from harness.results import Run, without_password
from harness.results.caveats import record_lines
from harness.results.notes import file_lines
from harness.results.view import Results

_TREE_DEPTH = 4
_FINAL_ROUNDS = (
    "These times are of the final rounds. The sections below also use earlier rounds; they compare "
    "each time with the best of the same rounds."
)


def page(
    all_results: Sequence[Results], when: datetime.datetime, weights: Path | None = None
) -> str:
    """Render the page, with one part for each campaign and the reasons for inputs not measured.
    `weights` is a workload.

    Raises UsageError where there is nothing to report.
    """
    import jinja2  # here: analyse, which prints some sections, needs none

    shown = [results for results in all_results if results.measured or not_measured(results)]
    all_findings = [Findings(results, weights=weights) for results in shown]
    parts = [_part(findings) for findings in all_findings]
    if not parts:
        why = [sentence for results in all_results for sentence in record_lines(results)]
        raise UsageError(" ".join(["there are no measurements to report; tune first.", *why]))
    summary = summarize((findings.results, findings.reports) for findings in all_findings)
    loader = jinja2.PackageLoader("harness.report")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template("report.html.j2").render(
        title=", ".join(dict.fromkeys(results.campaign.space_name for results in shown)),
        parts=parts,
        summary=list(summary_sections(summary)) if len(parts) > 1 else (),
        when=when.strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
    )


def _part(findings: Findings) -> dict[str, object]:
    results = findings.results
    return {
        "title": results.campaign.title or results.campaign.space_name,
        "verdict": list(_verdict(findings)),
        "warnings": list(warnings_of(findings)),
        "facts": facts_of(results),
        "sections": list(filter(None, sections(findings))),
    }


def _verdict(findings: Findings) -> Iterator[str]:
    """Say what to use, and how many speed-ups are significant."""
    if not findings.results.measured:
        yield "Nothing was measured."
        return
    yield findings.advice
    if findings.tried:
        yield f"{findings.tried[0].upper()}{findings.tried[1:]}."
    yield from claims_lines(findings.reports)
    yield from filter(None, [health_line(findings.reports)])


def warnings_of(findings: Findings) -> Iterator[str]:
    """List what limits the verdict: inputs not measured, unfinished work, noise."""
    missing = not_measured(findings.results)
    if missing:
        why = (f"({problem}): {why.removeprefix(NOT_MEASURED)}" for problem, why in missing.items())
        count = f"{len(missing)} of {len(findings.reports)} inputs"
        yield f"{count} were not measured: {first_few(why)}."
    yield from reservations(findings.results)
    yield from noise_lines(findings.reports)


def facts_of(results: Results) -> list[tuple[str, str]]:
    """List what was measured, where, when, and how much of it."""
    environment, campaign = results.campaign.environment, results.campaign
    outcomes = sum((row.rows.outcomes for row in results.measured.values()), Counter[Outcome]())
    counts = f"{outcomes.total():,}: " + ", ".join(f"{n:,} {o}" for o, n in outcomes.most_common())
    # A program has no backend that a reader would know.
    backend = "" if environment.backend == "command" else f" ({environment.backend})"
    inputs = f"{len(results.measured):,}"
    missing = len(not_measured(results))
    if missing:
        inputs += f" of {len(results.measured) + missing:,} requested"
    facts = [
        ("space", f"{campaign.space_name} (program {campaign.key.program_sha256[:12]})"),
        ("device", f"{environment.device}{backend}"),
        ("platform, driver", f"{environment.platform}, {environment.driver}"),
        ("compiler", environment.compiler),
    ]
    if environment.conditions:
        facts.append(("conditions", ", ".join(environment.conditions)))
    clock = clock_range(results)
    if clock:
        facts.append(("GPU clock", clock))
    facts.append(("inputs", inputs))
    if results.measured:
        facts.append(("measurements", counts))
        facts.append(("samples", f"{figures.sample_count(results):,}"))
    facts.append(("measured", _when_measured(results.runs)))
    facts.append(("databases", ", ".join(map(without_password, results.databases))))
    return facts


def _when_measured(runs: Sequence[Run]) -> str:
    """Format the time from the first run's start to the last one's end, to the minute, UTC."""
    if not runs:
        return "unknown"
    ends = [min(run.started_at for run in runs), max(run.last_at for run in runs)]
    days = dict.fromkeys(moment[:16].replace("T", " ") for moment in ends)
    return f"{' to '.join(days)} UTC"


# ------------------------------------------------------------------------------- sections


def sections(findings: Findings) -> Iterator[Section | None]:
    """Make each section; None for a section without content."""
    yield _winners(findings)
    if findings.results.measured:
        yield baselines_section(findings.reports, findings.results.ablations)
        yield _boxes(findings)
        yield _search(findings)
        yield _workload(findings)
        yield _heat_map(findings)
        yield from choice_sections(findings.across or findings.why_no_choice, findings.default)
        yield by_input(findings)
        yield failures_section(findings.results, findings.default)
        yield bits_section(findings.bits)
        yield from _explained(findings, findings.explanation, "slowdown")
        yield _roofline(findings)
        yield energy_section(findings.energies)
        yield front_section(findings.energies, findings.default)
        yield from _explained(findings, findings.power, "power")
    lines = list(commands(findings.results))
    yield Section("commands", "Commands to reproduce", lines=lines)


def by_input(findings: Findings, choice: str = AUTO) -> Section | None:
    """Show the slowdowns of each input; None where nothing was learnt across inputs."""
    study = findings.across
    if study is None:
        return None
    slowdowns = slowdowns_by_input(findings.results, study, choice)
    return by_input_section(slowdowns, study.best if choice == AUTO else choice)


def _winners(findings: Findings) -> Section:
    """Show the table of the inputs and a plot of their speed-ups."""
    reports, default = findings.reports[:MOST_SHOWN], findings.default
    gains = figures.speed_ups(reports)
    winners = (m.config for report in reports if (m := report.recommended))
    finals = [_FINAL_ROUNDS] if any(report.speedup for report in reports) else []
    rows = []
    for report in reports:
        timing = report.recommended.timing if report.recommended else None
        samples = str(timing.count) if timing else "-"
        tried = f"{report.measured:,}"
        if report.legal is not None:
            tried = f"{tried} of {report.legal:,}"
        more = samples, str(report.within_noise), tried
        rows.append((*input_cells(report, default), *more))
    return Section(
        "inputs",
        "Best configuration per input",
        [times_note(default, findings.reports), *finals, *not_shown(len(findings.reports))],
        findings.picture(plots.gains, gains) if gains else "",
        SectionTable((*INPUTS_HEAD, "samples", "ties", "tried"), rows),
        list(file_lines((run.notes for run in findings.results.runs), winners)),
    )


def _search(findings: Findings) -> Section | None:
    curves = figures.search_curves(findings.results)
    if not curves:
        return None
    text = "Performance of the best configuration so far, over the best one of the input's search."
    if len(curves) > 1:
        text += " Grey lines are inputs; the blue line is their median."
    picture = findings.picture(plots.best_by_tests, curves)
    if not findings.results.is_replay:
        picture += findings.picture(plots.best_by_seconds, curves)
        text += " Seconds count builds, checks, and pauses between commands."
    return Section("search", "Search progress", [text], picture)


def _boxes(findings: Findings) -> Section | None:
    """Show the samples of the final rounds beside those of the baselines."""
    samples = figures.final_samples(findings.results, findings.reports)
    if not samples:
        return None
    text = "Quartiles of the samples, whiskers of at most 1.5 times their distance, and outliers."
    if len(findings.reports) > figures.MOST_BOXES:
        text += f" The first {figures.MOST_BOXES} inputs are shown."
    return Section("finals", "Final samples", [text], findings.picture(plots.boxes, samples))


def _workload(findings: Findings) -> Section | None:
    """Show how much of a workload is covered, and its most frequent inputs."""
    coverage = findings.coverage
    if coverage is None:
        return None
    workload = coverage.workload
    frequent = workload.most_frequent(1)
    rows = []
    for problem in frequent[:MOST_SHOWN]:
        calls, place = workload.calls[problem], coverage.places[problem]
        rows.append((str(problem), f"{calls:,}", f"{calls / workload.total:.1%}", place))
    most = f"The most frequent {len(rows):,} of {counted(len(frequent), 'input')}:"
    table = SectionTable(("input", "calls", "share", "place"), rows)
    return Section("workload", "Workload", [*coverage.lines, most], table=table)


def _heat_map(findings: Findings) -> Section | None:
    """Show slowdowns of configurations on inputs."""
    study = findings.across
    if study is None:
        return None
    learnt = study.learnt(study.best)
    chosen = learnt.indices(study.matrix.features, study.matrix.applies)
    shown = figures.heat_map(study.matrix, chosen if study.has_choice else None, findings.default)
    rings = "Rings mark the dispatcher's choices. " if study.has_choice else ""
    return Section(
        "heat-map",
        "Inputs and configurations",
        [
            f"Slowdown of each candidate on each input. {rings}Crosses mark failures. "
            "Configurations list only changes from the default."
        ],
        findings.picture(plots.inputs_by_candidates, shown),
        lines=[
            f"{label}: {change}"
            for label, change in zip(shown.labels, shown.changes, strict=True)
            if label != change
        ],
    )


def _roofline(findings: Findings) -> Section | None:
    """Show the rates of the best configurations, and a picture where the space says bytes and
    operations."""
    shown = figures.roofline(findings.reports)
    picture = findings.picture(plots.roofline, shown) if shown else ""
    return roofline_section(findings.reports, picture)


def _explained(
    findings: Findings, explanation: Explanation | None, target: str
) -> Iterator[Section]:
    """Show the importance of parameters and features for a target, and the tree behind it."""
    if explanation is None:
        return
    anchor, title = f"importance-{target}", f"Importance for the {target}"
    if explanation.nothing:
        yield Section(anchor, title, [explanation.nothing])
        return
    shares = importance(explanation.tree)
    picture = findings.picture(plots.importances, shares, dict(shares))
    text, *lines = explanation.lines()
    yield Section(anchor, title, [text], picture, lines=lines)
    about, *lines = describe(explanation.tree, _TREE_DEPTH)
    picture = findings.picture(plots.tree_picture, explanation.tree, lines)
    title = f"Tree of the {target}"
    yield Section(
        f"tree-{target}", title, [f"{about[0].upper()}{about[1:]}."], picture, lines=lines
    )


def commands(results: Results) -> Iterator[str]:
    """List the tuning commands as they were typed, then those that analyse and report them."""
    tuned, of_space = results.tuned_space, [*map(without_password, results.databases)]
    of_space += ["--space", results.campaign.space_name]
    typed = dict.fromkeys(c.arguments for c in results.commands if c.arguments)
    if typed and tuned.place:
        yield f"# {tuned.place}:"
    command = "replay" if results.is_replay else "tune"
    for arguments in typed:
        yield command_line(command, *arguments)
    yield command_line("analyse", *of_space)
    if tuned.is_recording:
        return
    if tuned.is_in_python:
        yield 'harness.tune(space, ...).dispatcher("out")'
    else:
        yield command_line("dispatch", *of_space, "-o", "out/")
    yield command_line("report", *of_space, "-o", f"{results.campaign.space_name}.html")
