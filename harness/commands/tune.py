"""harness tune SPACE: find the fastest configuration of a kernel for each input."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from harness.analysis.failures import describe_failures
from harness.analysis.sensors import clock_lines
from harness.api.request import PREDICTED, read_request
from harness.api.running import Tuned, tuned
from harness.commands.run import format_error, print_json
from harness.core.errors import HarnessError
from harness.core.records import Config
from harness.core.text import command_line, command_words
from harness.display.inputs import print_inputs
from harness.display.progress import ProgressDisplay
from harness.display.recommendation import print_rule
from harness.display.text import format_share, make_console, print_line
from harness.options.tune import CampaignOptions, TuneOptions
from harness.results import campaigns
from harness.results.notes import Notes, files_of_flags
from harness.results.url import shown_database
from harness.search import EndReason, techniques

if TYPE_CHECKING:
    from harness.api.documents import TuneDocument

FAILED = 1
_LEAST_TIME_S = 60
LEARNING = "learning which configuration suits which input"


def run(options: TuneOptions) -> int:
    """Tune, and print the results; return the exit code."""
    if options.list_techniques:
        print("\n".join(sorted([*techniques(), "auto", *PREDICTED])))
        return 0
    return run_campaign(options, print_results)


def run_campaign(options: CampaignOptions, show: Callable[[Console, Tuned], None]) -> int:
    """Run a campaign, and show its results. Return the exit code: FAILED where nothing was
    measured, or nothing worked on an input that was measured."""
    request, console = read_request(options), make_console(stderr=options.json)
    display = ProgressDisplay(console, not options.progress)
    with tuned(request, display) as done:
        if options.json:
            _write_report(done, console)
            print_json(_document(done, display.warnings))
        else:
            show(console, done)
            _write_report(done, console)
            print_line(console, "\n".join(step.text for step in _next_steps(done)))
    return FAILED if done.has_failed else 0


def print_results(console: Console, done: Tuned) -> None:
    """Print what to use, the table of inputs, what was tested, and the choice by input."""
    campaign, learnt, results = done.campaign, done.findings, done.results
    spec, environment = campaign.spec, campaign.measurer.environment
    default = campaign.space(spec.inputs[0]).default
    advice = ""
    if any(report.measured for report in done.reports):
        with console.status(LEARNING):
            advice = learnt.advice
    where = f" on {environment}"
    if done.request.replay is not None:
        where = f", replayed from {environment.device}"
    print_line(console, f"\n{spec.name}{where}", "bold")
    if advice:
        stored, now = len(results.measured), len(spec.inputs)
        if stored > now:
            advice += f" {stored} inputs are in the database, {now} tuned now."
        print_line(console, f"\n{advice}")
    notes: Notes = {"flag_files": files_of_flags(spec)}
    print_inputs(console, done.reports, default, [notes], results.ablations)
    print_tests(console, done, default)
    if advice and learnt.across is not None:
        print_rule(console, learnt.across, learnt.default)
    if advice and learnt.single is not None:
        print_line(console, f"To write this as code: {_dispatch(done)}\n")


def _dispatch(done: Tuned) -> str:
    """Return the command that generates code; it names the device where there are several."""
    spec, store = done.campaign.spec, done.campaign.store
    tuned_on = done.results.campaign.environment.name
    devices = {tuned_on}
    for stored in store.transact(lambda: campaigns(store.connection)):
        if (stored.space_name, stored.key.program_sha256) == (spec.name, spec.program_sha256):
            devices.add(stored.environment.name)
    words = [shown_database(done.request.database), "-o", "out"]
    if len(devices) > 1:
        words += ["--device", tuned_on]
    return command_line("dispatch", *words, "--spec", str(spec.path))


def _document(done: Tuned, warnings: Sequence[str]) -> TuneDocument:
    # Here: text needs no documents.
    from harness.api.describing import describe_results
    from harness.api.documents import TuneDocument

    page = done.request.options.report
    return TuneDocument(
        database=shown_database(done.request.database),
        has_failed=done.has_failed,
        warnings=list(dict.fromkeys(warnings)),
        report=None if page is None else str(page),
        results=describe_results(done.findings) if done.results.runs else None,
        next=[list(step.words) for step in _next_steps(done) if step.words],
    )


def _write_report(done: Tuned, console: Console) -> None:
    """Write the HTML report, if asked for. If that fails, raise only where the tuning itself went
    well."""
    page = done.request.options.report
    if page is None:
        return
    from harness.report import write_report  # here, since it loads what draws

    try:
        write_report(page, [done.results] if done.results.runs else [])
    except HarnessError as error:
        if not done.has_failed:
            raise
        print_line(console, format_error(error))
        return
    print_line(console, f"The report is in {page}.")


def print_tests(console: Console, done: Tuned, default: Config) -> None:
    """Print what a technique tested, and why configurations failed."""
    campaign, results = done.campaign, done.results
    if campaign.replayed:
        again = "measures them" if done.request.replay is None else "reads them from the recording"
        print_line(
            console,
            f"{campaign.replayed} tests were answered from the database; --fresh {again} again.\n",
        )
    measured = {p: m for p, m in results.measured.items() if p in campaign.spec.inputs}
    failures = list(describe_failures(measured, default, results.failed_later))
    clocks = list(clock_lines(results))
    for lines in (list(campaign.describe_tests()), failures, clocks):
        if lines:
            print_line(console, "\n".join([*lines, ""]))


@dataclass(frozen=True)
class _NextStep:
    """What to know or to do next, and the words of the command that does it, if any."""

    text: str
    words: tuple[str, ...] = ()


def _next_steps(done: Tuned) -> Iterator[_NextStep]:
    """Say where the samples are, and what to run next."""
    options, campaign, reports = done.request.options, done.campaign, done.reports
    if not any(report.measured for report in reports) and not campaign.left_out:
        why = "Nothing was measured, because the time was up. To allow more time,"
        longer_s = max(_LEAST_TIME_S, 10 * (options.max_time_s or 0))  # something is measured
        yield _run_again(options, why, "--max-time", f"{longer_s:g}")
        return
    shown = shown_database(done.request.database)
    look = command_words("analyse", shown)
    ends = {searched.ended for searched in campaign.searched.values()}
    # A validation has no searches.
    is_time_up = EndReason.TIME in ends if ends else options.max_time_s is not None
    stored = f"All samples are in {shown}. To see the results again: {shlex.join(look)}"
    yield _NextStep(stored, look)
    if not any(report.best for report in reports):
        yield _NextStep("Fix what the messages above name, then run the same command again.")
    elif all(report.is_exhausted for report in reports):
        counts = {report.legal for report in reports}
        every = f"All {counts.pop():,}" if len(counts) == 1 else "All"
        where = " on each input" if len(reports) > 1 else ""
        measured = f"{every} legal configurations were measured{where}."
        yield _NextStep(f"{measured} The search is complete.")
    elif ends == {EndReason.PEAK}:
        share = format_share(campaign.spec.search.stop_at or 1)
        yield _NextStep(
            f"The best of each search reached {share} of the device's peak (search.stop_at). "
            "The search is complete."
        )
    elif campaign.has_ended:
        place = f" in place of {'--validate' if options.validate else '--technique'}"
        yield _NextStep(
            "This technique has ended. To continue with another, run the same command with "
            f"--technique auto{place if options.validate or options.technique else ''}."
        )
    elif is_time_up:
        yield _run_again(options, "To continue the search,")
    else:
        limit = options.test_limit or campaign.spec.search.test_limit
        yield _run_again(options, "To continue the search,", "--test-limit", str(2 * limit))


def _run_again(options: CampaignOptions, why: str, *changed: str) -> _NextStep:
    """Say that the same command goes on, with these options changed.

    Of an option that is given twice, argparse takes the last. --fresh would begin again.
    """
    again = f"with {' '.join(changed)}" if changed else "again"
    without = ", without --fresh" if options.fresh else ""
    typed = [word for word in options.command if word != "--fresh"]
    command = "tune" if options.recording is None else "replay"
    words = command_words(command, *typed, *changed)
    return _NextStep(f"{why} run the same command {again}{without}.", words)
