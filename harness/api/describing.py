"""Describe results as the documents that commands print with --json."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from harness.analysis.coverage import reservations
from harness.analysis.failures import group_failures
from harness.analysis.inputs import InputReport
from harness.analysis.summary import summarize
from harness.api.documents import (
    AnalyseDocument,
    AnalysisDocument,
    ChoiceDocument,
    InputDocument,
    ProgramDocument,
    ResultsDocument,
)
from harness.core.config_diff import DEFAULT
from harness.dispatch.study import Study
from harness.dispatch.text import rule_lines
from harness.display.inputs import health_line, noise_lines, refused_lines
from harness.models.starchart import importance
from harness.report.findings import Findings
from harness.results import without_password
from harness.results.measured import MeasuredConfigs
from harness.results.notes import noted_files


def describe_results(findings: Findings) -> ResultsDocument:
    """Describe the results of one space on one device."""
    results, study = findings.results, findings.across
    energies = {energy.problem: energy for energy in findings.energies}
    files = noted_files(run.notes for run in results.runs)

    def of_input(report: InputReport) -> InputDocument:
        failed, energy = report.failed_baselines.get(DEFAULT), energies.get(report.problem)
        return InputDocument.describe(
            report=report,
            default=failed or report.baseline,
            time_spread_s=report.spread_s(report.recommended),
            default_spread_s=report.spread_s(report.baseline),
            default_message=failed.message if failed else "",
            energy=energy,
            front=energy.front if energy else (),
        )

    return ResultsDocument.describe(
        findings=findings,
        campaign=results.campaign,
        databases=list(map(without_password, results.databases)),
        health=health_line(findings.reports),
        inputs=list(map(of_input, findings.reports)),
        warnings=[
            *refused_lines(findings.reports),
            *reservations(results),
            *noise_lines(findings.reports),
        ],
        choice=None if study is None else describe_choice(study, study.best),
        why_no_choice=findings.why_no_choice,
        flag_files=[
            {"flag": flag, "value": value, **file} for (flag, value), file in files.items()
        ],
    )


def _analysis(findings: Findings) -> AnalysisDocument:
    """Describe results, why configurations failed, and what the times depend on."""
    explanation, study = findings.explanation, findings.across
    measured = findings.results.measured.values()
    failed = [m for row in measured for m in MeasuredConfigs.of(row).failures()]
    return AnalysisDocument.describe(
        results=describe_results(findings),
        failures=group_failures(failed, lambda m: m.message, lambda m: m.outcome),
        importance=None if explanation is None else dict(importance(explanation.tree)),
        explanation=explanation,
        bits=findings.bits,
        portfolios=list(study.portfolios if study and study.has_choice else ()),
    )


def describe_analyses(all_findings: Sequence[Findings]) -> AnalyseDocument:
    """Describe what is found of each space on each device, and each program on each device:
    failures, and speed-ups by baseline."""
    summary = summarize((findings.results, findings.reports) for findings in all_findings)
    programs = [
        ProgramDocument.describe(
            **vars(cell), inputs={name: ratio.count for name, ratio in cell.speedups.items()}
        )
        for cell in summary
    ]
    return AnalyseDocument(analyses=list(map(_analysis, all_findings)), summary=programs)


def describe_choice(study: Study, name: str) -> ChoiceDocument:
    """Describe one way to choose by input, and its verdict beside the others."""
    gain = study.gain(name)
    return ChoiceDocument.describe(
        name=name,
        is_worth_it=gain.is_better,
        speedup={**dataclasses.asdict(gain.ratio.inverse), "is_faster": gain.is_better},
        inputs=len(study.matrix.features),
        rule=list(rule_lines(study)),
        sentence=study.sentence(name),
        judged=list(study.slowdowns.values()),
    )
