"""The summary of a campaign: results, failures, and the choice by input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from harness.analysis.failures import describe_failures
from harness.analysis.sensors import clock_lines
from harness.api.session import Tuned
from harness.commands.tune.next_step import dispatch_words
from harness.core.invocation import command_line
from harness.core.records import Config
from harness.display.inputs import print_inputs
from harness.display.text import print_line
from harness.results import campaigns
from harness.results.notes import Notes, files_of_flags
from harness.tuning.replayed import replay_result

if TYPE_CHECKING:
    from harness.report.findings import Findings
    from harness.space_file import Spec


def print_result(console: Console, done: Tuned, learnt: Findings | None) -> None:
    """Print what to use, the table of inputs, what a technique tested, and why configurations
    failed."""
    campaign, recording = done.campaign, done.campaign.plan.recording
    default = campaign.space(campaign.spec.inputs[0]).default
    console.print()
    if recording is not None:
        default = Config({})  # a recording has none, so configurations are shown whole
        console.print(replay_result(campaign, recording))
        console.print()
    else:
        _print_inputs(console, done, learnt)
    if campaign.replayed:
        again = "reads them from the recording" if done.measurer.is_replay else "measures them"
        print_line(
            console,
            f"{campaign.replayed} tests were answered from the database; --fresh {again} again.\n",
        )
    later = learnt.results.failed_later if learnt else ()
    measured = {problem: campaign.measured(problem) for problem in campaign.spec.inputs}
    failures = list(describe_failures(measured, default, later))
    clocks = list(clock_lines(learnt.results)) if learnt else []
    for lines in (list(campaign.describe_tests()), failures, clocks):
        if lines:
            print_line(console, "\n".join([*lines, ""]))


def _print_inputs(console: Console, done: Tuned, learnt: Findings | None) -> None:
    """Print what to use, and the table of inputs."""
    spec, environment = done.campaign.spec, done.measurer.environment
    default = done.campaign.space(spec.inputs[0]).default
    is_replay = done.measurer.is_replay
    where = f", replayed from {environment.device}" if is_replay else f" on {environment}"
    print_line(console, f"{spec.name}{where}", "bold")
    if learnt is not None:
        print_line(console, f"\n{learnt.advice}{_learnt_from(learnt, spec)}")
    notes: Notes = {"flag_files": files_of_flags(spec)}
    print_inputs(console, done.reports, default, [notes], done.campaign.ablations)


def _learnt_from(learnt: Findings, spec: Spec) -> str:
    """Say from how many inputs was learnt, where it is from more than were tuned now."""
    stored, tuned = len(learnt.results.measured), len(spec.inputs)
    return f" {stored} inputs are in the database, {tuned} tuned now." if stored > tuned else ""


def learn_across(console: Console, done: Tuned) -> Findings | None:
    """Learn which configuration suits which input, from all inputs that the database holds of the
    campaign; None where it has no results."""
    from harness.core.kept import Kept
    from harness.dispatch.study import QUICK  # here: they load pandas and scikit-learn
    from harness.report.findings import Findings

    results = done.results()
    if results is None:
        return None
    findings = Findings(results, Kept.in_cache(), learners=QUICK)
    with console.status("learning which configuration suits which input"):
        assert findings.advice  # it is computed when it is first read
    return findings


def print_choice_by_input(console: Console, done: Tuned, learnt: Findings) -> None:
    """Print the choice by input where it pays, and the command that generates code."""
    from harness.display.across import print_rule

    results, path = learnt.results, done.request.options.space_path
    if learnt.across is not None:
        print_rule(console, learnt.across, learnt.default)
    if learnt.single is not None and path is not None:
        stored = done.store.read(lambda: campaigns(done.store.connection))
        words = dispatch_words(results.campaign, stored, done.request.database)
        command = command_line("dispatch", *words, "--spec", str(path))
        print_line(console, f"To write this as code: {command}\n")
