"""harness replay RECORDING: search recorded measurements in place of a device."""

from __future__ import annotations

from rich.console import Console

from harness.api.running import Tuned
from harness.commands.tune import LEARNING, print_results, print_tests, run_campaign
from harness.core.records import Config, shown
from harness.core.text import format_time
from harness.display.recommendation import print_rule
from harness.display.text import as_text, make_table, print_line
from harness.options.tune import ReplayOptions
from harness.recordings.recording import Recording

_LEGEND = (
    "Times are medians of the recorded samples. The optimum is the fastest recorded configuration. "
    "optimum / best is 1 where the search found it."
)


def run(options: ReplayOptions) -> int:
    """Search a recording, and print the results; return the exit code."""
    return run_campaign(options, _print if options.space is None else print_results)


def _print(console: Console, done: Tuned) -> None:
    """Print what the searches found, what was tested, and the choice by input."""
    recording = done.request.recording
    assert recording is not None, "there is no space"
    console.print()
    _print_found(console, done, recording)
    console.print()
    print_tests(console, done, Config({}))  # a recording has no default to compare with
    if len(done.reports) > 1 and any(report.measured for report in done.reports):
        with console.status(LEARNING):
            learnt = done.findings.across
        if learnt is not None:
            print_rule(console, learnt, done.findings.default)


def _print_found(console: Console, done: Tuned, recording: Recording) -> None:
    """Print a row for each input with the best configuration found and the recorded optimum, and
    the best configurations."""
    campaign, results = done.campaign, done.results
    names = [p.name for p in recording.parameters if len(p.values) > 1]
    rows, lines = [], list[str]()
    for problem in campaign.spec.inputs:
        last = campaign.last.get(problem)
        tests, best = (last.ordinal, last.best) if last else (0, None)
        if campaign.validation is not None and problem in results.measured:
            measured = results.measured[problem]
            tests, best = len(measured), measured.fastest
        if not tests:
            continue
        optimum = recording.optimum(problem)
        best_time, optimum_time, share = "nothing worked", "-", "-"
        if best:
            best_time = format_time(best.time_s)
            values = [f"{name}={shown(best.config[name])}" for name in names]
            lines.append(f"best on ({problem}): {', '.join(values)}")
        if optimum:
            optimum_time = format_time(optimum.time_s)
            if best:
                share = f"{optimum.time_s / best.time_s:.3f}"
        tried = f"{tests:,} of {len(recording.tables[problem].legal):,}"
        rows.append([str(problem), best_time, optimum_time, share, tried])
    head = ("input", "best", "optimum", "optimum / best", "tests")
    title = f"{campaign.spec.name}: {recording.title} on {recording.device}"
    print_line(console, title, "bold")
    console.print(make_table(head, rows, wrap=(0,)))
    console.print(as_text("\n".join(lines)))
    console.print(as_text(_LEGEND, "dim"))
