"""Render results as one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2

from harness import __version__
from harness.analysis.coverage import NOT_MEASURED, not_measured, reservations
from harness.analysis.sensors import clock_range
from harness.analysis.summary import summarize
from harness.core.errors import UsageError
from harness.core.kept import Kept
from harness.core.records import Outcome
from harness.display.inputs import claims_lines, health_line, noise_lines
from harness.display.sections import summary_sections
from harness.report import figures
from harness.report.findings import Findings
from harness.report.sections import sections
from harness.results import Run, without_password
from harness.results.caveats import record_lines
from harness.results.view import Results

_MOST_NAMED = 5  # inputs in a sentence; the first table lists all


def page(
    all_results: Sequence[Results], when: datetime.datetime, weights: Path | None = None
) -> str:
    """Render the page, with one part for each campaign and the reasons for inputs not measured.
    `weights` is a workload.

    Raises UsageError where there is nothing to report.
    """
    shown = [results for results in all_results if results.measured or not_measured(results)]
    cache = Kept.in_cache()
    all_findings = [Findings(results, cache, weights) for results in shown]
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
        "sections": [section for section in sections(findings) if section is not None],
    }


def _verdict(findings: Findings) -> Iterator[str]:
    """Say what to use, and how many speed-ups are significant."""
    if not findings.results.measured:
        yield "Nothing was measured."
        return
    yield findings.advice
    yield from claims_lines(findings.reports)
    yield from filter(None, [health_line(findings.reports)])


def warnings_of(findings: Findings) -> Iterator[str]:
    """List what limits the verdict: inputs not measured, unfinished work, noise."""
    missing = not_measured(findings.results)
    if missing:
        named = list(missing.items())[:_MOST_NAMED]
        reasons = "; ".join(
            f"({problem}): {why.removeprefix(NOT_MEASURED)}" for problem, why in named
        )
        more = f"; and {len(missing) - len(named)} more" if len(missing) > len(named) else ""
        count = f"{len(missing)} of {len(findings.reports)} inputs"
        yield f"{count} were not measured: {reasons}{more}."
    yield from reservations(findings.results)
    yield from noise_lines(findings.reports)


def facts_of(results: Results) -> list[tuple[str, str]]:
    """List what was measured, where, when, and how much of it."""
    environment, campaign = results.campaign.environment, results.campaign
    outcomes = sum((row.rows.outcomes for row in results.measured.values()), Counter[Outcome]())
    counts = f"{outcomes.total():,}: " + ", ".join(f"{n:,} {o}" for o, n in outcomes.most_common())
    missing, clock = len(not_measured(results)), clock_range(results)
    requested = f" of {len(results.measured) + missing:,} requested"
    # A program has no backend that a reader would know.
    backend = "" if environment.backend == "command" else f" ({environment.backend})"
    tried = [
        ("measurements", counts),
        ("distinct machine codes", figures.distinct_code(results)),
        ("samples", f"{figures.sample_count(results):,}"),
    ]
    return [
        ("space", f"{campaign.space_name} (program {campaign.key.program_sha256[:12]})"),
        ("device", f"{environment.device}{backend}"),
        ("platform, driver", f"{environment.platform}, {environment.driver}"),
        ("compiler", environment.compiler),
        *([("caches", environment.cache)] if environment.caches else []),
        *([("GPU clock", clock)] if clock else []),
        ("inputs", f"{len(results.measured):,}{requested if missing else ''}"),
        *(tried if results.measured else []),
        ("measured", _when_measured(results.runs)),
        ("databases", ", ".join(map(without_password, results.databases))),
    ]


def _when_measured(runs: Sequence[Run]) -> str:
    """Format the time from the first run's start to the last one's end, to the minute, UTC."""
    if not runs:
        return "unknown"
    ends = (min(run.started_at for run in runs), max(run.last_at for run in runs))
    first, last = (moment[:16].replace("T", " ") for moment in ends)
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"
