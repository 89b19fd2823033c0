"""What a database says of each input that a search was asked for, measured or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from harness.analysis.inputs import InputReport, report_input
from harness.core.records import Input
from harness.core.text import first_few
from harness.results import Command, Run
from harness.results.view import Results, left_out_lines

NOT_MEASURED = "not measured: "
"""What the reason begins with, where it is none of the input's own."""


def input_reports(results: Results) -> list[InputReport]:
    """What each input came to; last those that were not measured, with the reason as their note."""
    default, finals = results.default, results.finals
    measured = [
        report_input(
            given, known, finals.get(given, ()), default, None, baselines=results.baselines
        )
        for given, known in results.measured.items()
    ]
    empty = [
        dataclasses.replace(report_input(given, {}, (), default, None), note=why)
        for given, why in not_measured(results).items()
    ]
    return [*measured, *empty]


def not_measured(results: Results) -> dict[Input, str]:
    """The inputs that were asked for and have no measurement, and why, as far as it is known."""
    last, reasons = _last_runs(results), _reasons(results)
    return {
        given: reasons.get(given) or NOT_MEASURED + _why(results, given, last.get(given))
        for given in {**reasons, **last}
        if given not in results.measured
    }


def _last_runs(results: Results) -> dict[Input, Run]:
    """The run of each input that was last worked on."""
    return {run.problem: run for run in sorted(results.runs, key=lambda run: run.last_at)}


def _reasons(results: Results) -> dict[Input, str]:
    """Of each input that a command was asked for why the last of these left it out; nothing where
    it did not, or was stopped before it could tell."""
    return {
        given: command.left_out.get(given, "")
        for command in _commands(results)
        for given in command.inputs
    }


def _commands(results: Results) -> list[Command]:
    """The first begun first."""
    return sorted(results.commands, key=lambda command: command.started_at)


def _why(results: Results, given: Input, run: Run | None) -> str:
    """Why nothing is known of an input, where no command has told it."""
    if given in results.compatible.left_out.inputs:
        return "all that is known of it has other parameters than the space now has"
    if run is None:
        return "the search ended before its turn"
    if run.state == "running":
        return "its search was killed, or is going on"
    return "its search was stopped" if run.state == "interrupted" else "nothing was asked for"


def reservations(results: Results) -> Iterator[str]:
    """What of the measurements is left out, and what was begun and not brought to its end, a
    sentence each."""
    yield from left_out_lines(results)
    reasons, last = _reasons(results), _last_runs(results)
    stopped = [g for g in results.measured if g in last and last[g].state != "complete"]
    told = [f"({given})" for given in stopped if not reasons.get(given)]
    if told:
        yield (
            f"The search is not complete on {first_few(told)}: it was stopped by hand or by "
            "--max-time, or is still running."
        )
    broken = [f"({given}): {reasons[given]}" for given in results.measured if reasons.get(given)]
    if broken:
        yield f"Not measured to the end: {first_few(broken)}."
    for notice in _notices(results):
        yield f"{notice[0].upper()}{notice[1:]}."


def _notices(results: Results) -> list[str]:
    """What stages left out, until a later command on all of the same inputs has come through the
    same stage, or tells what it left out in turn."""
    later: dict[str, set[frozenset[Input]]] = {}
    found: list[str] = []
    for command in reversed(_commands(results)):
        inputs = frozenset(command.inputs)
        for stage, text in command.stages.items():
            covering = later.setdefault(stage, set())
            if text and not any(inputs <= others for others in covering):
                found.append(text)
            covering.add(inputs)
    return list(dict.fromkeys(reversed(found)))
