"""The command's body: run the campaign that the options ask for, and print its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from harness.api.documents import TuneDocument
from harness.api.request import PREDICTED, read_request
from harness.api.session import Tuned, tuned
from harness.api.tune_options import TuneOptions
from harness.commands.run import format_error, print_json
from harness.commands.tune.next_step import NextStep, next_steps
from harness.commands.tune.summary import learn_across, print_choice_by_input, print_result
from harness.core.errors import HarnessError
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line
from harness.results.url import shown_database
from harness.search import techniques

FAILED = 1


def print_techniques() -> int:
    """Print the names that --technique takes; return the exit code."""
    print("\n".join(sorted([*techniques(), "auto", PREDICTED])))
    return 0


def tune(options: TuneOptions) -> int:
    """Tune, and print the results. Return the exit code: FAILED where nothing was measured, or
    nothing worked on an input that was measured."""
    request, console = read_request(options), make_console(stderr=options.json)
    display = ProgressDisplay(console, not options.progress)
    with tuned(request, display) as done:
        if options.json:
            if options.report is not None:
                _write_report(options.report, done, console)
            print_json(_document(options, done, display.warnings))
        else:
            _print(options, done, console)
    return FAILED if done.has_failed else 0


def _print(options: TuneOptions, done: Tuned, console: Console) -> None:
    """Print the summary, and what to do next."""
    request = done.request
    is_measured = any(report.measured for report in done.reports)
    learns = is_measured and (len(done.campaign.spec.inputs) > 1 or request.recording is None)
    learnt = learn_across(console, done) if learns else None
    print_result(console, done, learnt)
    if learnt is not None:
        print_choice_by_input(console, done, learnt)
    if options.report is not None:
        _write_report(options.report, done, console)
    for log in filter(Path.exists, request.search.logs(len(request.spec.inputs))):
        print_line(console, f"{log}: the seconds and the time of each new best")
    print_line(console, "\n".join(step.text for step in _next(options, done)))


def _next(options: TuneOptions, done: Tuned) -> Iterator[NextStep]:
    return next_steps(options, done.campaign, done.reports, done.request.database)


def _document(options: TuneOptions, done: Tuned, warnings: Sequence[str]) -> TuneDocument:
    from harness.api.describing import describe_results  # here: it loads what learns
    from harness.api.results import findings_of

    stored = done.results()
    legal = {report.problem: report.legal for report in done.reports}
    return TuneDocument(
        database=shown_database(done.request.database),
        has_failed=done.has_failed,
        warnings=list(dict.fromkeys(warnings)),
        report=None if options.report is None else str(options.report),
        results=None if stored is None else describe_results(findings_of(stored), legal),
        next=[list(step.words) for step in _next(options, done) if step.words],
    )


def _write_report(page: Path, done: Tuned, console: Console) -> None:
    """Write the HTML report. If that fails, raise only where the tuning itself went well."""
    from harness.report import write_report  # here, since it loads what draws

    results = done.results()
    try:
        write_report(page, [] if results is None else [results])
    except HarnessError as error:
        if not done.has_failed:
            raise
        print_line(console, format_error(error))
        return
    print_line(console, f"The report is in {page}.")
