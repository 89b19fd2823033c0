"""The command's body: open a measurer and a database, run the campaign, print its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.analysis.inputs import InputReport
from harness.commands.run import format_error
from harness.commands.tune.next_step import next_step
from harness.commands.tune.options import TuneOptions
from harness.commands.tune.request import PREDICTED, TuneRequest, read_request
from harness.commands.tune.summary import campaign_results, print_choice_by_input, print_result
from harness.core.errors import HarnessError
from harness.core.records import Config
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line, print_lines
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.recordings.replay import ReplayMeasurer, open_replay
from harness.results import Store, writing
from harness.search import make_opentuner_tables, techniques
from harness.space_file import Spec
from harness.tuning import Campaign
from harness.tuning.progress import Display
from harness.tuning.replayed import RecordedCampaign, describe_recording

FAILED = 1


def print_techniques() -> int:
    """Print the names that --technique takes; return the exit code."""
    print("\n".join(sorted([*techniques(), "auto", PREDICTED])))
    return 0


def tune(options: TuneOptions) -> int:
    """Tune, and print the results. Return the exit code: FAILED where nothing was measured, or
    nothing worked on an input that was measured."""
    request, console = read_request(options), make_console()
    database = request.database
    with writing(database) as engine, _opened(request, console) as measurer:
        spec = fitted_to(request.spec, measurer)
        if not options.quiet:
            print_lines(console, (f"note: {notice}" for notice in spec.notices))
        store = Store(engine)
        make_opentuner_tables(store)
        default = None if request.recording else _default(spec, measurer)
        with ProgressDisplay(console, options.quiet, default) as display:
            campaign = _campaign(request, spec, measurer, store, display, console)
            reports = campaign.run()
        print_result(console, campaign, reports, measurer)
        is_measured = any(report.measured for report in reports)
        if is_measured and (len(spec.inputs) > 1 or request.recording is None):
            print_choice_by_input(console, campaign, store, database, options.space)
        status = _status(campaign, reports)
        if options.report is not None:
            _write_report(options.report, request, campaign, store, console, status)
        print_line(console, next_step(options, campaign, reports, database))
        store.sessions.remove()
    return status


def _default(spec: Spec, measurer: Measurer) -> Config:
    """Return the configuration that others are shown as changes from."""
    return Config({p.name: p.default for p in spec.tuned_for(measurer.compiler)})


def _campaign(
    request: TuneRequest,
    spec: Spec,
    measurer: Measurer,
    store: Store,
    display: Display,
    console: Console,
) -> Campaign:
    """Make the campaign, check its seeds, and print its warm start."""
    request = dataclasses.replace(request, spec=spec)
    seeds = request.seeds_for(measurer.compiler) + _predicted(request, measurer, console)
    plan = request.plan(dataclasses.replace(request.search, seeds=seeds))
    recording = request.recording
    campaign = (
        Campaign(plan, measurer, store, display)
        if recording is None
        else RecordedCampaign(recording, plan, measurer, store, display)
    )
    campaign.check_seeds()
    _print_warm_start(campaign, request, console)
    return campaign


def _status(campaign: Campaign, reports: Sequence[InputReport]) -> int:
    left_out = campaign.state.left_out
    failed = any(not r.best and (r.measured or r.problem in left_out) for r in reports)
    return FAILED if failed or not any(report.measured for report in reports) else 0


def _predicted(request: TuneRequest, measurer: Measurer, console: Console) -> tuple[Config, ...]:
    """Return the configurations predicted to be the fastest, for half of the tests."""
    if request.predictor is None:
        return ()
    order = request.predictor.order(measurer.environment)
    if order is None:
        database = request.database
        message = f"{database} has no other stencil tuned on this device; using auto instead"
        print_line(console, f"{PREDICTED}: {message}")
        return ()
    print_line(console, f"{PREDICTED}: {order.message}")
    return order.configs[: max(1, request.search.test_limit // 2)]


def _write_report(
    page: Path,
    request: TuneRequest,
    campaign: Campaign,
    store: Store,
    console: Console,
    status: int,
) -> None:
    """Write the HTML report. If that fails, raise only where the tuning itself went well."""
    from harness.report import write_report  # here, since it loads what draws
    from harness.report.reproducing import Origin

    results = campaign_results(campaign, store, request.database)
    space, inputs = request.options.space, request.options.inputs
    origin = None if space is None else Origin(str(space), inputs, frozenset(campaign.spec.inputs))
    try:
        write_report(page, [] if results is None else [results], origin)
    except HarnessError as error:
        if not status:
            raise
        print_line(console, format_error(error))
        return
    print_line(console, f"The report is in {page}.")


def _print_warm_start(campaign: Campaign, request: TuneRequest, console: Console) -> None:
    """Print a line for each file of --warm-start. Raises UsageError for one without use."""
    lines = list(campaign.describe_warm_start())
    for recording, line in zip(request.warm_start, lines, strict=True):
        if not request.options.quiet:
            print_line(console, f"warm start from {line}")
        _print_notes(recording, request.options.quiet, console)


def _print_notes(recording: Recording, quiet: bool, console: Console) -> None:
    """Print warnings about a recording and, unless quiet, notes on how it was read."""
    notes = () if quiet else recording.notes
    print_lines(console, (f"note: {note}" for note in notes))
    print_lines(console, (f"warning: {warning}" for warning in recording.warnings))


@contextmanager
def _opened(request: TuneRequest, console: Console) -> Iterator[Measurer]:
    """Open the measurer, print a line about it, and close it at the end."""
    options, recording = request.options, request.recording
    if recording is not None:
        measurer: Measurer = ReplayMeasurer.of(recording)
        line = describe_recording(recording)
    elif options.replay is not None:
        measurer, line = _replayed(request.whole, options.replay, console)
    else:
        measurer, why = open_measurer(request.whole, options.backend)
        line = f"backend {measurer.environment.backend}: {measurer.environment}"
        line += f"; {why}" if why else ""
    try:
        if not options.quiet:
            print_line(console, line)
        if recording is not None:
            _print_notes(recording, options.quiet, console)
        yield measurer
    finally:
        measurer.close()


def _replayed(spec: Spec, path: Path, console: Console) -> tuple[Measurer, str]:
    """Open a replay of a space, print its warnings, and describe it."""
    replay = open_replay(path, spec)
    print_lines(console, (f"warning: {warning}" for warning in replay.warnings))
    count, device = len(replay.measurements), replay.environment.device
    return replay, f"replaying {path}: {count:,} measurements from {device}; none is new"
