"""Describe results as the documents that commands print with --json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from harness.analysis.coverage import reservations
from harness.analysis.energy import InputEnergy
from harness.analysis.failures import group_failures, informative_line
from harness.analysis.inputs import InputReport
from harness.analysis.summary import Summary
from harness.api.documents import (
    AnalysisDocument,
    ChoiceDocument,
    FailureDocument,
    FlagFileDocument,
    InputDocument,
    JsonConfig,
    JudgedDocument,
    ObservedDocument,
    PortfolioDocument,
    ProgramDocument,
    RatioDocument,
    ResultsDocument,
    ShareDocument,
    SingleDocument,
    WeightsDocument,
)
from harness.core.config_diff import DEFAULT
from harness.core.observations import ENERGY_SPREAD
from harness.core.records import Config, Input, Measurement
from harness.dispatch.single import Single
from harness.dispatch.study import Study
from harness.dispatch.text import rule_lines
from harness.dispatch.weighted import Coverage
from harness.display.inputs import noise_warning, refused_lines
from harness.measure.sensors.energy import ENERGY
from harness.models.starchart import importance
from harness.report.findings import Findings
from harness.results import without_password
from harness.results.measured import MeasuredConfigs
from harness.results.notes import noted_files
from harness.stats import Estimate
from harness.stats.timing import TimeRatio, half_width_of


def describe_results(
    findings: Findings, legal: Mapping[Input, int | None] = MappingProxyType({})
) -> ResultsDocument:
    """Describe the results of one space on one device. `legal` counts the legal configurations of
    inputs, as far as they are known."""
    stored, found = findings.results, findings.across
    campaign, environment = stored.campaign, stored.campaign.environment
    energies = {energy.problem: energy for energy in findings.energies}
    files = noted_files(run.notes for run in stored.runs)
    return ResultsDocument(
        space=campaign.space_name,
        device=environment.device,
        backend=environment.backend,
        platform=environment.platform,
        driver=environment.driver,
        compiler=environment.compiler,
        cache=environment.cache,
        program_sha256=campaign.key.program_sha256,
        campaign=campaign.key.campaign,
        statistic=campaign.statistic.value,
        databases=list(map(without_password, stored.databases)),
        default=plain(stored.default),
        advice=findings.advice,
        inputs=[
            _input(report, legal.get(report.problem), energies.get(report.problem))
            for report in findings.reports
        ],
        warnings=_warnings(findings),
        single=describe_single(findings.single) if findings.single else None,
        choice=describe_choice(found, found.best) if found else None,
        why_no_choice="" if found else findings.why_no_choice,
        flag_files=[
            FlagFileDocument(flag=flag, value=value, **file)
            for (flag, value), file in files.items()
        ],
    )


def _warnings(findings: Findings) -> list[str]:
    noise = noise_warning(findings.reports)
    lines = [*refused_lines(findings.reports), *reservations(findings.results)]
    return [*lines, *([noise] if noise else [])]


def describe_analysis(findings: Findings) -> AnalysisDocument:
    """Describe results, why configurations failed, and what the times depend on."""
    known = findings.explanation
    shares = (
        None if known is None else {str(k): float(v) for k, v in importance(known.tree).items()}
    )
    r2 = None if known is None else finite(known.accuracy.r2)
    found = findings.across
    portfolios = [
        PortfolioDocument(list(map(plain, one.configs)), _ratio(one.slowdowns.mean, False))
        for one in (found.portfolios if found and found.has_choice else ())
    ]
    return AnalysisDocument(describe_results(findings), _failures(findings), shares, r2, portfolios)


def describe_summary(summary: Summary) -> list[ProgramDocument]:
    """Describe each program on each device: failures, and speed-ups by baseline."""
    return [
        ProgramDocument(
            cell.program,
            cell.device,
            cell.tests,
            {str(outcome): count for outcome, count in cell.failures.items()},
            {name: _ratio(r, r.is_faster) for name, r in cell.speedups.items()},
            {name: ratio.count for name, ratio in cell.speedups.items()},
            cell.statistic.value,
        )
        for cell in summary.cells
    ]


def describe_choice(found: Study, name: str) -> ChoiceDocument:
    """Describe one way to choose by input, and its verdict beside the others."""
    gain = found.gain(name)
    return ChoiceDocument(
        name=name,
        is_worth_it=gain.is_better,
        speedup=_ratio(gain.ratio.inverse, gain.is_better),
        inputs=len(found.matrix.features),
        rule=list(rule_lines(found)),
        sentence=found.sentence(name),
        judged=[
            JudgedDocument(one.name, _ratio(one.mean, False), one.worst, one.near)
            for one in found.slowdowns.values()
        ],
    )


def describe_single(single: Single) -> SingleDocument:
    """Describe the configuration to use on every input."""
    speedup = single.speedup
    return SingleDocument(
        config=plain(single.config),
        where_illegal=list(map(plain, single.others)),
        speedup=None if speedup is None else _ratio(speedup, speedup.is_faster),
        inputs=single.inputs,
    )


def describe_weights(coverage: Coverage) -> WeightsDocument:
    """Describe a workload, and how much of it the tuned range covers."""
    workload = coverage.workload
    return WeightsDocument(
        workload=str(workload.path),
        calls=workload.total,
        inputs=len(workload.calls),
        measured=_share(coverage.measured),
        between=_share(coverage.near),
        outside=_share(coverage.outside),
    )


def plain(values: Config | Input) -> JsonConfig:
    """Return a configuration or an input as plain data."""
    return dict(values)


def finite(number: float) -> float | None:
    """Return a number that JSON has; None for infinity and NaN."""
    return number if math.isfinite(number) else None


def _share(share: Estimate) -> ShareDocument:
    return ShareDocument(share.value, share.low, share.high)


def _ratio(ratio: Estimate, is_faster: bool) -> RatioDocument:
    return RatioDocument(ratio.value, ratio.low, finite(ratio.high), is_faster)


def _speedup(ratio: TimeRatio | None) -> RatioDocument | None:
    return None if ratio is None else _ratio(ratio, ratio.is_faster)


def _input(report: InputReport, legal: int | None, energy: InputEnergy | None) -> InputDocument:
    best, baseline = report.recommended, report.baseline
    failed = report.failed_baselines.get(DEFAULT)
    best_j, baseline_j = (energy.best, energy.default) if energy else (None, None)
    return InputDocument(
        input=plain(report.problem),
        best=None if report.best is None else plain(report.best.config),
        recommended=None if best is None else plain(best.config),
        time_s=None if best is None else finite(best.time_s),
        time_spread_s=_spread_s(best),
        default_s=None if baseline is None else finite(baseline.time_s),
        default_spread_s=_spread_s(baseline),
        default_outcome=_outcome(failed or baseline),
        default_message=failed.message if failed else "",
        speedup=_speedup(report.speedup),
        ties=report.within_noise,
        measured=report.measured,
        legal=legal,
        outcomes={str(outcome): count for outcome, count in report.outcomes.items()},
        note=report.note,
        energy_j=_observed(best_j, ENERGY, ENERGY_SPREAD),
        default_energy_j=_observed(baseline_j, ENERGY, ENERGY_SPREAD),
    )


def _spread_s(measured: Measurement | None) -> float | None:
    """Return half the confidence interval of a time, as the table of inputs has it."""
    if measured is None or measured.timing is None or measured.timing.count == 1:
        return None
    return finite(half_width_of(measured.timing))


def _outcome(measured: Measurement | None) -> str | None:
    return None if measured is None else str(measured.outcome)


def _observed(measured: Measurement | None, name: str, spread: str) -> ObservedDocument | None:
    """Return an observation with its spread; None where it is not known."""
    observed = {} if measured is None else measured.observed
    return ObservedDocument(observed[name], observed.get(spread)) if name in observed else None


def _failures(findings: Findings) -> list[FailureDocument]:
    measured = findings.results.measured.values()
    failed = [m for row in measured for m in MeasuredConfigs.of(row).failures()]
    groups = group_failures(failed, lambda m: m.message, lambda m: m.outcome)
    return [
        FailureDocument(
            str(group.kind),
            informative_line(group.members[0].message),
            len(group.members),
            plain(group.members[0].config),
            plain(group.members[0].input),
        )
        for group in groups
    ]
