"""The command carried out: what was asked for, measured and told."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.commands.run import format_error
from harness.commands.tune.request import PREDICTED, Asked, read_asked
from harness.commands.tune.summary import campaign_results, next_step, print_across, print_result
from harness.core.errors import HarnessError
from harness.core.records import Config
from harness.display import ProgressDisplay, make_console
from harness.display.text import print_line, print_lines
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.recordings.replay import ReplayMeasurer, open_replay
from harness.results import Store, writing
from harness.search import make_opentuner_tables, techniques
from harness.space_file import Spec
from harness.tuning import Campaign, CampaignPlan, Stages
from harness.tuning.replayed import RecordedCampaign, describe_recording

FAILED = 1


def tune(args: argparse.Namespace) -> int:
    """Tune; returns the exit code: FAILED where nothing worked on an input whose turn came, or
    nothing was measured at all."""
    if args.list_techniques:
        print("\n".join(sorted([*techniques(), "auto", PREDICTED])))
        return 0
    asked = read_asked(args)
    console = make_console()
    with writing(asked.place) as engine, _opened(asked, args, console) as measurer:
        asked = dataclasses.replace(asked, spec=fitted_to(asked.spec, measurer))
        for notice in () if args.quiet else asked.spec.notices:
            print_line(console, f"note: {notice}")
        store = Store(engine)
        make_opentuner_tables(store)
        seeds = asked.seeds_for(measurer.compiler) + _predicted(asked, measurer, console)
        options = dataclasses.replace(asked.options, seeds=seeds)
        default = None if asked.recording else _default(asked.spec, measurer)
        with ProgressDisplay(console, args.quiet, default) as display:
            stages = Stages(not args.no_cross, not args.no_reduce, args.finalists)
            plan = CampaignPlan(
                asked.spec, options, stages, args.validate, asked.warm_start, args.fresh
            )
            campaign = (
                RecordedCampaign(asked.recording, plan, measurer, store, display)
                if asked.recording
                else Campaign(plan, measurer, store, display)
            )
            campaign.check_seeds()
            _print_warm_start(campaign, asked, args.quiet, console)
            reports = campaign.run()
        print_result(console, campaign, reports, measurer)
        is_measured = any(report.measured for report in reports)
        if is_measured and (len(asked.spec.inputs) > 1 or asked.recording is None):
            print_across(console, campaign, store, asked.place, args.space)
        failed = [r for r in reports if not r.best and (r.measured or r.given in campaign.left_out)]
        status = FAILED if failed or not is_measured else 0
        if args.report is not None:
            _report(args, campaign, store, asked.place, console, status)
        told = next_step(campaign, args, asked.place, reports)
        print_line(console, told)
        store.sessions.remove()
    return status


def _default(spec: Spec, measurer: Measurer) -> Config:
    """What configurations are told beside; a recording has none."""
    return Config({p.name: p.default for p in spec.tuned_for(measurer.compiler)})


def _predicted(asked: Asked, measurer: Measurer, console: Console) -> tuple[Config, ...]:
    """The points that a predictor expects to be fast, for half of the tests; none without it."""
    if asked.predictor is None:
        return ()
    order = asked.predictor.order(measurer.environment)
    if order is None:
        told = f"no other stencil was tuned in {asked.place} on this device: auto instead"
    else:
        told = order.message
    print_line(console, f"{PREDICTED}: {told}")
    return () if order is None else order.configs[: max(1, asked.options.test_limit // 2)]


def _report(
    args: argparse.Namespace,
    campaign: Campaign,
    store: Store,
    place: str,
    console: Console,
    status: int,
) -> None:
    """The report of this campaign as a page. That it cannot be written is the worst that is to be
    told only where the tuning itself went well."""
    from harness.report import write_report  # here, since it loads what draws
    from harness.report.reproducing import Origin

    results = campaign_results(campaign, store, place)
    space = args.space and Origin(str(args.space), args.inputs, frozenset(campaign.spec.inputs))
    try:
        write_report(args.report, [] if results is None else [results], space)
    except HarnessError as error:
        if not status:
            raise
        print_line(console, format_error(error))
        return
    print_line(console, f"{args.report}: the report")


def _print_warm_start(campaign: Campaign, asked: Asked, quiet: bool, console: Console) -> None:
    """Print a line a file of the warm start; one of which nothing can be used ends the command."""
    lines = list(campaign.describe_warm_start())
    for recording, line in zip(asked.warm_start, lines, strict=True):
        if not quiet:
            print_line(console, f"warm start from {line}")
        _print_notes(recording, quiet, console)


def _print_notes(recording: Recording, quiet: bool, console: Console) -> None:
    """Print warnings about a recording and, unless quiet, notes on how it was read."""
    notes = () if quiet else recording.notes
    print_lines(console, (f"note: {note}" for note in notes))
    print_lines(console, (f"warning: {warning}" for warning in recording.warnings))


@contextmanager
def _opened(asked: Asked, args: argparse.Namespace, console: Console) -> Iterator[Measurer]:
    """The measurer that was asked for, told, and closed at the end."""
    if asked.recording is not None:
        measurer: Measurer = ReplayMeasurer.of(asked.recording)
        told = describe_recording(asked.recording)
    elif args.replay is not None:
        measurer, told = _replayed(asked.whole, args.replay, console)
    else:
        measurer, why = open_measurer(asked.whole, args.backend)
        told = f"backend {measurer.environment.backend}: {measurer.environment}"
        told += f"; {why}" if why else ""
    try:
        if not args.quiet:
            print_line(console, told)
        if asked.recording is not None:
            _print_notes(asked.recording, args.quiet, console)
        yield measurer
    finally:
        measurer.close()


def _replayed(spec: Spec, path: Path, console: Console) -> tuple[Measurer, str]:
    """Open a replay of a space, print its warnings, and describe it."""
    replay = open_replay(path, spec)
    print_lines(console, (f"warning: {warning}" for warning in replay.warnings))
    count, device = len(replay.measurements), replay.environment.device
    return replay, f"replaying {path}: {count:,} measurements from {device}; none is new"
