"""The summary of a campaign: results, failures, and the choice by input."""

from __future__ import annotations

from rich.console import Console

from harness.analysis.effects.text import ablation_lines
from harness.analysis.failures import describe_failures
from harness.api.session import Tuned
from harness.commands.tune.next_step import dispatch_words
from harness.core.invocation import command_line
from harness.core.records import Config
from harness.dispatch.candidates import matrix_of
from harness.display.inputs import print_inputs
from harness.display.text import print_line
from harness.results import campaigns
from harness.tuning.replayed import RecordedCampaign


def print_result(console: Console, done: Tuned) -> None:
    """Print the table of inputs, what a technique tested, and why configurations failed."""
    campaign, measurer = done.campaign, done.measurer
    spec, environment = campaign.spec, measurer.environment
    default = campaign.space(spec.inputs[0]).default
    console.print()
    if isinstance(campaign, RecordedCampaign):
        default = Config({})  # a recording has none, so configurations are shown whole
        console.print(campaign.result)
        console.print()
    else:
        where = (
            f", replayed from {environment.device}" if measurer.is_replay else f" on {environment}"
        )
        print_inputs(console, done.reports, f"{spec.name}{where}", default)
    if campaign.ablations:
        print_line(console, "\n".join([*ablation_lines(campaign.ablations), ""]))
    replayed = campaign.state.replayed
    if replayed:
        again = "reads them from the recording" if measurer.is_replay else "measures them"
        print_line(
            console,
            f"{replayed} tests were answered from the database; --fresh {again} again.\n",
        )
    failures = list(describe_failures(campaign.measured(), default))
    for lines in (list(campaign.describe_tests()), failures):
        if lines:
            print_line(console, "\n".join([*lines, ""]))


def print_choice_by_input(console: Console, done: Tuned) -> None:
    """Print which configuration suits which input and, if choosing pays, how to generate code."""
    # Here, since they load pandas and scikit-learn, which a search need not wait for.
    from harness.dispatch.study import QUICK
    from harness.display.across import print_across

    results, path = done.results(), done.request.options.space_path
    if results is None:
        return
    stored, tuned = len(results.measured), len(done.campaign.spec.inputs)
    if stored > tuned:
        print_line(console, f"For all {stored} inputs in the database ({tuned} tuned now):")
    with console.status("learning which configuration suits which input"):
        is_better = print_across(console, matrix_of(results), QUICK)
    if is_better and path is not None:
        found = campaigns(done.store.session.connection())
        words = dispatch_words(results.campaign, found, done.request.database)
        command = command_line("dispatch", *words, "--spec", str(path))
        print_line(console, f"To generate code that chooses by input: {command}")
    console.print()
