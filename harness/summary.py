"""What a database says of each input that a search was asked for, measured or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from harness.analysis import InputReport, report_input
from harness.records import Input
from harness.results import Run
from harness.tables import Results

NOT_MEASURED = "not measured: "
"""What the reason begins with, where it is none of the input's own."""

_MOST_NAMED = 5  # inputs of a sentence


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
    runs = sorted(results.runs, key=lambda run: run.last_at)
    asked = dict.fromkeys(given for run in runs for given in (*run.asked, run.given))
    reasons = {given: why for run in runs for given, why in run.left_out.items()}
    last = {run.given: run for run in runs}
    return {
        given: reasons.get(given) or NOT_MEASURED + _why(last.get(given))
        for given in asked
        if given not in results.measured
    }


def _why(run: Run | None) -> str:
    """Why the last run of an input has measured nothing, where the command could not note it."""
    if run is None:
        return "the search ended before its turn"
    if run.state == "running":
        return "its search was killed, or is going on"
    return "its search was stopped" if run.state == "interrupted" else "nothing was asked for"


def unfinished(results: Results) -> Iterator[str]:
    """What was begun and not brought to its end, a sentence each."""
    runs = sorted(results.runs, key=lambda run: run.last_at)
    last = {run.given: run for run in runs}
    stopped = [g for g in results.measured if g in last and last[g].state != "complete"]
    if stopped:
        told = "; ".join(f"({given})" for given in stopped[:_MOST_NAMED])
        more = f" and {len(stopped) - _MOST_NAMED} more" if len(stopped) > _MOST_NAMED else ""
        yield (
            f"The search has not come to its end on {told}{more}: it was stopped by hand or by "
            "--max-time, or goes on."
        )
    commands = [run for run in runs if run.asked or run.left_out or run.notices]
    for notice in commands[-1].notices if commands else ():
        yield f"{notice[0].upper()}{notice[1:]}."
