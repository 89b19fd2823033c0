"""Searches of a recording, compared with the recorded optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.console import Group

from harness.core.records import Measurement, shown
from harness.core.text import format_time
from harness.display.text import as_text, make_table
from harness.recordings.recording import Recording
from harness.tuning.campaign import Campaign

MILESTONES = (25, 50, 100, 200, 400)
"""The numbers of tests after which the table shows how near the optimum a search was."""

_LEGEND = (
    "Times are medians of the recorded samples. The optimum is the fastest recorded configuration. "
    "optimum / best is 1 where the search found it."
)
_AFTER = " after N is optimum / best after N tests."


def describe_recording(recording: Recording) -> str:
    """Describe a recording in a line."""
    tables = recording.tables.values()
    outcomes = Counter(outcome for table in tables for outcome in table.outcomes)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    searched = sum(len(p.values) > 1 for p in recording.parameters)
    return (
        f"{recording.path}: {recording.kind} of {recording.title} on {recording.device}; "
        f"{counts}; {searched} parameters to search"
    )


def replay_result(campaign: Campaign, recording: Recording) -> Group:
    """Render the searches of a recording for a console: a row for each input with the best
    configuration found and the recorded optimum, and the best configurations."""
    after, is_sampled = campaign.best_after, campaign.validation is not None
    reached = [n for n in MILESTONES if any(n <= max(of_input) for of_input in after.values())]
    rows, lines = [], list[str]()
    names = [p.name for p in recording.parameters if len(p.values) > 1]
    for problem in campaign.spec.inputs:
        of_input = after.get(problem, {})
        tests = len(campaign.measured(problem)) if is_sampled else max(of_input, default=0)
        if not tests:
            continue
        best = campaign.best(problem) if is_sampled else of_input[tests]
        optimum = recording.optimum(problem)
        rows.append(
            [
                str(problem),
                format_time(best.time_s) if best else "nothing worked",
                format_time(optimum.time_s) if optimum else "-",
                _fraction(optimum, best),
                f"{tests:,} of {len(recording.tables[problem].legal):,}",
                *(_fraction(optimum, _best_after(of_input, n)) for n in reached),
            ]
        )
        if best:
            values = (f"{name}={shown(best.config[name])}" for name in names)
            lines.append(f"best on ({problem}): {', '.join(values)}")
    head = ("input", "best", "optimum", "optimum / best", "tests", *(f"after {n}" for n in reached))
    return Group(
        as_text(f"{campaign.spec.name}: {recording.title} on {recording.device}", "bold"),
        make_table(head, rows, wrap=(0,)),
        as_text("\n".join(lines)),
        as_text(_LEGEND + _AFTER * bool(reached), "dim"),
    )


def _best_after(bests: Mapping[int, Measurement | None], tests: int) -> Measurement | None:
    """Return the best after so many tests; None where nothing worked, or fewer were made."""
    before = [ordinal for ordinal in bests if ordinal <= tests]
    return bests[max(before)] if before and tests <= max(bests) else None


def _fraction(optimum: Measurement | None, best: Measurement | None) -> str:
    return f"{optimum.time_s / best.time_s:.3f}" if optimum and best else "-"
