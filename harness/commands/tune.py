"""harness tune SPACE: find the fastest configuration of a kernel for each input."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group

from harness.analysis.failures import describe_failures
from harness.analysis.sensors import clock_lines
from harness.api.request import PREDICTED, read_request
from harness.api.running import Tuned, tuned
from harness.api.tune_options import TuneOptions
from harness.commands.run import format_error, print_json
from harness.core.errors import HarnessError
from harness.core.records import Config, shown
from harness.core.text import command_line, command_words, format_time
from harness.display.inputs import print_inputs
from harness.display.progress import ProgressDisplay
from harness.display.text import as_text, format_share, make_console, make_table, print_line
from harness.recordings.recording import Recording
from harness.results import campaigns
from harness.results.notes import Notes, files_of_flags
from harness.results.url import shown_database
from harness.search import EndReason, techniques

if TYPE_CHECKING:
    from harness.api.schemas import TuneDocument

FAILED = 1
_LEAST_TIME_S = 60

_LEGEND = (
    "Times are medians of the recorded samples. The optimum is the fastest recorded configuration. "
    "optimum / best is 1 where the search found it."
)


def run(options: TuneOptions) -> int:
    """Tune, and print the results. Return the exit code: FAILED where nothing was measured, or
    nothing worked on an input that was measured."""
    if options.list_techniques:
        print("\n".join(sorted([*techniques(), "auto", *PREDICTED])))
        return 0
    request, console = read_request(options), make_console(stderr=options.json)
    display = ProgressDisplay(console, not options.progress)
    with tuned(request, display) as done:
        if options.json:
            _write_report(done, console)
            print_json(_document(done, display.warnings))
        else:
            _print(done, console)
    return FAILED if done.has_failed else 0


def _print(done: Tuned, console: Console) -> None:
    """Print the summary, and what to do next."""
    request = done.request
    is_measured = any(report.measured for report in done.reports)
    learns = is_measured and (len(done.campaign.spec.inputs) > 1 or request.recording is None)
    if learns:
        with console.status("learning which configuration suits which input"):
            assert done.findings.advice  # it is computed when it is first read
    _print_result(console, done, learns)
    if learns:
        _print_choice_by_input(console, done)
    _write_report(done, console)
    print_line(console, "\n".join(step.text for step in _next_steps(done)))


def _document(done: Tuned, warnings: Sequence[str]) -> TuneDocument:
    # Here: text needs no documents.
    from harness.api.describing import describe_results
    from harness.api.schemas import TuneDocument

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


def _print_result(console: Console, done: Tuned, learns: bool) -> None:
    """Print what to use, the table of inputs, what a technique tested, and why configurations
    failed."""
    campaign, recording = done.campaign, done.campaign.plan.recording
    default = campaign.space(campaign.spec.inputs[0]).default
    console.print()
    if recording is not None:
        default = Config({})  # a recording has none, so configurations are shown whole
        console.print(_replay_result(done, recording))
        console.print()
    else:
        _print_inputs(console, done, learns, default)
    if campaign.replayed:
        again = "reads them from the recording" if done.measurer.is_replay else "measures them"
        print_line(
            console,
            f"{campaign.replayed} tests were answered from the database; --fresh {again} again.\n",
        )
    results = done.results
    measured = {p: m for p, m in results.measured.items() if p in campaign.spec.inputs}
    failures = list(describe_failures(measured, default, results.failed_later))
    clocks = list(clock_lines(results))
    for lines in (list(campaign.describe_tests()), failures, clocks):
        if lines:
            print_line(console, "\n".join([*lines, ""]))


def _replay_result(done: Tuned, recording: Recording) -> Group:
    """Render the searches of a recording for a console: a row for each input with the best
    configuration found and the recorded optimum, and the best configurations."""
    campaign, results = done.campaign, done.results
    rows, lines = [], list[str]()
    names = [p.name for p in recording.parameters if len(p.values) > 1]
    for problem in campaign.spec.inputs:
        last = campaign.last.get(problem)
        tests, best = (last.ordinal, last.best) if last else (0, None)
        if campaign.validation is not None and problem in results.measured:
            measured = results.measured[problem]
            tests, best = len(measured), measured.fastest
        if not tests:
            continue
        optimum = recording.optimum(problem)
        rows.append(
            [
                str(problem),
                format_time(best.time_s) if best else "nothing worked",
                format_time(optimum.time_s) if optimum else "-",
                f"{optimum.time_s / best.time_s:.3f}" if optimum and best else "-",
                f"{tests:,} of {len(recording.tables[problem].legal):,}",
            ]
        )
        if best:
            values = (f"{name}={shown(best.config[name])}" for name in names)
            lines.append(f"best on ({problem}): {', '.join(values)}")
    head = ("input", "best", "optimum", "optimum / best", "tests")
    return Group(
        as_text(f"{campaign.spec.name}: {recording.title} on {recording.device}", "bold"),
        make_table(head, rows, wrap=(0,)),
        as_text("\n".join(lines)),
        as_text(_LEGEND, "dim"),
    )


def _print_inputs(console: Console, done: Tuned, learns: bool, default: Config) -> None:
    """Print what to use, and the table of inputs."""
    spec, environment = done.campaign.spec, done.measurer.environment
    is_replay = done.measurer.is_replay
    where = f", replayed from {environment.device}" if is_replay else f" on {environment}"
    print_line(console, f"{spec.name}{where}", "bold")
    if learns:
        stored, now = len(done.results.measured), len(spec.inputs)
        more = f" {stored} inputs are in the database, {now} tuned now." if stored > now else ""
        print_line(console, f"\n{done.findings.advice}{more}")
    notes: Notes = {"flag_files": files_of_flags(spec)}
    print_inputs(console, done.reports, default, [notes], done.results.ablations)


def _print_choice_by_input(console: Console, done: Tuned) -> None:
    """Print the choice by input where it pays, and the command that generates code."""
    from harness.display.recommendation import print_rule

    learnt, results, path = done.findings, done.results, done.request.options.space_path
    if learnt.across is not None:
        print_rule(console, learnt.across, learnt.default)
    if learnt.single is not None and path is not None:
        tuned_on = results.campaign.environment.device
        spec, devices = done.campaign.spec, {tuned_on}
        for stored in done.store.transact(lambda: campaigns(done.store.connection)):
            if (stored.space_name, stored.key.program_sha256) == (spec.name, spec.program_sha256):
                devices.add(stored.environment.device)
        words = [shown_database(done.request.database), "-o", "out"]
        if len(devices) > 1:
            words += ["--device", tuned_on]
        command = command_line("dispatch", *words, "--spec", str(path))
        print_line(console, f"To write this as code: {command}\n")


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


def _run_again(options: TuneOptions, why: str, *changed: str) -> _NextStep:
    """Say that the same command goes on, with these options changed.

    Of an option that is given twice, argparse takes the last. --fresh would begin again.
    """
    again = f"with {' '.join(changed)}" if changed else "again"
    without = ", without --fresh" if options.fresh else ""
    typed = [word for word in options.command if word != "--fresh"]
    words = command_words("tune", *typed, *changed)
    return _NextStep(f"{why} run the same command {again}{without}.", words)
