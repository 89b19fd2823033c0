"""What a person is told at the end of the command: results, failures, and what to run next."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from harness.analysis.effects.text import ablation_lines
from harness.analysis.failures import describe_failures
from harness.analysis.inputs import InputReport
from harness.commands.tune.options import kept_options
from harness.core.records import Config
from harness.dispatch.candidates import matrix_of
from harness.display import print_inputs
from harness.display.text import print_line
from harness.measure.measurer import Measurer
from harness.results import Store, StoredCampaign, campaigns, sqlite_path, without_password
from harness.search import EndReason
from harness.tuning import Campaign
from harness.tuning.replayed import RecordedCampaign

if TYPE_CHECKING:
    from harness.results.view import Results

_LEAST_TIME_S = 60


def print_result(
    console: Console, campaign: Campaign, reports: Sequence[InputReport], measurer: Measurer
) -> None:
    """The table of the inputs, what a technique came to, and why configurations failed."""
    spec, where = campaign.spec, measurer.environment
    default = campaign.space(spec.inputs[0]).default
    console.print()
    if isinstance(campaign, RecordedCampaign):
        default = Config({})  # a recording has none: configurations are told whole
        console.print(campaign.result)
        console.print()
    else:
        told = f", replayed from {where.device}" if measurer.is_replay else f" on {where}"
        print_inputs(console, reports, f"{spec.name}{told}", default)
    if campaign.ablations:
        print_line(console, "\n".join([*ablation_lines(campaign.ablations), ""]))
    if campaign.replayed:
        anew = "asks the recording" if measurer.is_replay else "measures"
        told = f"{campaign.replayed} tests were answered from the database; --fresh {anew} anew."
        print_line(console, told)
        console.print()
    failures = list(describe_failures(campaign.measured(), default))
    for part in (list(campaign.describe_tests()), failures):
        if part:
            print_line(console, "\n".join([*part, ""]))


def print_across(
    console: Console, campaign: Campaign, store: Store, place: str, space: Path | None
) -> None:
    """Which configuration suits which input; and how to write it as code, if that is worth it."""
    # Here, since they load pandas and scikit-learn, which a search need not wait for.
    from harness.dispatch.study import QUICK
    from harness.display.across import print_across

    results = campaign_results(campaign, store, place)
    if results is None:
        return
    there, asked = len(results.measured), len(campaign.spec.inputs)
    if there > asked:
        told = f"Across all {there} inputs that the database has, not these {asked} alone:"
        print_line(console, told)
    with console.status("which configuration for which input, judged on inputs held out"):
        is_better = print_across(console, matrix_of(results), QUICK)
    if is_better and space is not None:
        command = dispatch_command(results.campaign, campaigns(store.session.connection()), place)
        told = shlex.join([*command, "--spec", str(space)])
        print_line(console, f"To write the choice by input as code: {told}")
    console.print()


def dispatch_command(
    tuned: StoredCampaign, held: Iterable[StoredCampaign], place: str
) -> list[str]:
    """What writes the choice by input of a campaign, of those that a database holds."""
    program = tuned.space_name, tuned.key.program_sha256
    same = [there for there in held if (there.space_name, there.key.program_sha256) == program]
    is_alone = len({there.environment.device for there in same}) == 1
    device = [] if is_alone else ["--device", tuned.environment.device]
    return ["python", "-m", "harness.dispatch", _shown(place), "-o", "out", *device]


def campaign_results(campaign: Campaign, store: Store, place: str) -> Results | None:
    """What the database holds of a campaign; None where it has not begun."""
    from harness.results.view import results_of  # here, since it loads pandas

    key = dataclasses.replace(campaign.run_plan(campaign.spec.inputs[0]).key, problem=None)
    return results_of(store, key, place)


def _shown(place: str) -> str:
    return f"{sqlite_path(place) or without_password(place)}"


def next_step(
    campaign: Campaign, args: argparse.Namespace, place: str, reports: Sequence[InputReport]
) -> str:
    """The command to run next."""
    shown = _shown(place)
    look = shlex.join(["python", "-m", "harness.analyse", shown])
    kept = f"Every sample is in {shown}; look again with: {look}"
    command = ["python", "-m", "harness.tune"]
    limit = args.test_limit or campaign.spec.search.test_limit
    if not any(report.measured for report in reports) and not campaign.left_out:
        longer = [*kept_options(args), "--test-limit", str(limit), "--max-time", _longer(args)]
        told = shlex.join([*command, *longer])
        return f"Nothing was measured: the time was up. With more of it: {told}"
    if not any(report.best for report in reports):
        return f"{kept}\nMend what the messages above name, then run the same command again."
    if all(report.is_exhausted for report in reports):
        return f"{kept}\nEvery legal configuration was measured: nothing is left to search."
    if campaign.has_ended:
        other = [*command, *kept_options(args, with_technique=False), "--technique", "auto"]
        return f"{kept}\nThis sampling has ended. To search on: {shlex.join(other)}"
    if not _is_time_up(campaign, args):
        limit *= 2  # the tests ran out
    again = [*command, *kept_options(args), "--test-limit", str(limit)]
    return f"{kept}\nTo search on: {shlex.join(again)}"


def _is_time_up(campaign: Campaign, args: argparse.Namespace) -> bool:
    """Whether the time ran out before the tests did; of a sampling, whether it was bounded."""
    ends = [found.ended for found in campaign.searched.values()]
    return EndReason.TIME in ends if ends else args.stop_after is not None


def _longer(args: argparse.Namespace) -> str:
    """Seconds in which something is measured."""
    return f"{max(_LEAST_TIME_S, 10 * (args.stop_after or 0)):g}"
