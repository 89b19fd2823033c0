"""Report every input that a search was asked for, measured or not, and what was left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from operator import attrgetter

import numpy as np

from harness.analysis.inputs import InputReport, hold_discoveries, report_input, with_needed_parts
from harness.analysis.sensors import sensor_lines
from harness.constraints.expression import Expression
from harness.core.records import Input
from harness.core.text import first_few
from harness.results import Command, MeasurementRows, Run
from harness.results.caveats import record_lines
from harness.results.fitting import changed_data_lines
from harness.results.measured import by_input
from harness.results.notes import RERUN
from harness.results.schema import CROSS
from harness.results.view import Results

NOT_MEASURED = "not measured: "
"""The start of a reason that no command noted."""

MOST_ROWS = 20_000
"""Causes of failures and trees come from at most so many measurements."""

_SEED = 0


def input_reports(results: Results) -> list[InputReport]:
    """Report each input; those that were not measured come last, with the reason as their note."""
    reports = winner_reports(results)
    return with_needed_parts(reports, results.ablations, results.ablation_sessions)


def winner_reports(results: Results) -> list[InputReport]:
    """Report the same with the winners as they were found, before their ablation."""
    unmeasured = not_measured(results)
    reasons = noted_reasons(results.commands) | unmeasured
    reports: list[InputReport] = []
    for problem in [*results.measured, *unmeasured]:
        report = input_report(results, problem)
        if reasons.get(problem):
            report = dataclasses.replace(report, note=reasons[problem])
        reports.append(report)
    return hold_discoveries(reports)


def input_report(results: Results, problem: Input) -> InputReport:
    """Report an input alone; `input_reports` judges the speed-ups of all together."""
    measured = results.measured.get(problem)
    report = report_input(
        problem,
        measured or {},
        results.finals.get(problem, ()),
        results.default,
        legal=results.legal.get(problem),
        confidence=results.campaign.confidence,
        baselines=results.baselines,
        has_choice=problem in results.choices,
        same=list(map(Expression, results.same)),
    )
    if measured is None:
        return report
    rows = measured.rows.of_stages([CROSS])
    crossed = rows.of(rows.columns.requestor).tolist().count(None)
    return dataclasses.replace(report, crossed=crossed)


def not_measured(results: Results) -> dict[Input, str]:
    """Return the requested inputs that have no measurement, with the reason as far as known."""
    last = _last_runs(results)
    reasons = noted_reasons(results.commands)
    unmeasured: dict[Input, str] = {}
    for problem in reasons | last:
        if problem not in results.measured:
            why = reasons.get(problem)
            if not why:
                why = NOT_MEASURED + _reason(results, problem, last.get(problem))
            unmeasured[problem] = why
    return unmeasured


def _last_runs(results: Results) -> dict[Input, Run]:
    """Return the latest run of each input."""
    return {run.problem: run for run in sorted(results.runs, key=lambda run: run.last_at)}


def noted_reasons(commands: Iterable[Command]) -> dict[Input, str]:
    """Return why the last command on each input left it out; empty if it did not, or was stopped
    before it could note a reason."""
    reasons: dict[Input, str] = {}
    for command in sorted(commands, key=attrgetter("started_at")):
        for problem in command.inputs:
            reasons[problem] = command.left_out.get(problem, "")
    return reasons


def _reason(results: Results, problem: Input, run: Run | None) -> str:
    """Say why an input has no measurement, where no command noted a reason."""
    if problem in by_input(results.fitting.others):
        return "its measurements belong to another version of the space"
    if run is None:
        return "the search ended before it"
    if run.technique == RERUN:
        return "`harness compare --rerun` measured it, and searched nothing"
    if run.state == "running":
        return "its search was killed, or is still running"
    return "its search was stopped" if run.state == "interrupted" else "no tests were requested"


def reservations(results: Results) -> Iterator[str]:
    """Yield a sentence for each thing that was left out, or begun and not completed."""
    yield from record_lines(results)
    yield from changed_data_lines(results.fitting.changed)
    yield from _sampling_lines(results)
    yield from sensor_lines(results)
    reasons = noted_reasons(results.commands)
    last = _last_runs(results)
    unexplained: list[str] = []
    broken: list[str] = []
    for problem in results.measured:
        if reasons.get(problem):
            broken.append(f"({problem}): {reasons[problem]}")
        elif problem in last and last[problem].state != "complete":
            unexplained.append(f"({problem})")
    if unexplained:
        yield (
            f"The search is not complete on {first_few(unexplained)}: it was stopped by hand or by "
            "--max-time, or is still running."
        )
    if broken:
        yield f"Not completely measured: {first_few(broken)}."
    for notice in _notices(results):
        yield f"{notice[0].upper()}{notice[1:]}."


def _notices(results: Results) -> list[str]:
    """Return what stages left out.

    A notice is dropped when a later command on at least the same inputs has passed the same stage;
    that command's own notice replaces it.
    """
    later: dict[str, set[frozenset[Input]]] = {}
    notices: list[str] = []
    in_order = sorted(results.commands, key=attrgetter("started_at"))
    for command in reversed(in_order):
        inputs = frozenset(command.inputs)
        for stage, text in command.stages.items():
            covering = later.setdefault(stage, set())
            if text and not any(inputs <= others for others in covering):
                notices.append(text)
            covering.add(inputs)
    return list(dict.fromkeys(reversed(notices)))


# ---------------------------------------------------------------------------------- samples


def sampled(rows: MeasurementRows) -> MeasurementRows:
    """Draw at most MOST_ROWS at random, always the same ones, in their order."""
    if len(rows) <= MOST_ROWS:
        return rows
    drawn = np.random.default_rng(_SEED).choice(len(rows), MOST_ROWS, replace=False)
    return rows.take(rows.selected[np.sort(drawn)])


def _sampling_lines(results: Results) -> Iterator[str]:
    """Yield a sentence where some results come from a sample of the measurements."""
    if len(results.searched) > MOST_ROWS:
        yield (
            f"Causes of failures and trees come from random samples of {MOST_ROWS:,} of the "
            f"{len(results.searched):,} measurements (seed {_SEED})."
        )
