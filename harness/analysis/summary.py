"""Summarize several programs on several devices: failures, and speed-ups over each baseline.

These are figures 3 and 4 of Bruel, Gonzalez and Goldman, "Autotuning GPU Compiler Parameters Using
OpenTuner" (2015): a row for each program, a column for each GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT
from harness.core.records import Outcome, Statistic
from harness.results.campaigns import StoredCampaign
from harness.results.view import Results
from harness.space_file.baselines import level_of
from harness.stats.timing import TimeRatio, mean_ratio


@dataclass(frozen=True)
class ProgramSummary:
    """One program on one device: its tests, the failures by kind, and the speed-ups by baseline."""

    program: str
    device: str
    tests: int
    failures: Mapping[Outcome, int]
    speedups: Mapping[str, TimeRatio]
    """By baseline, the mean over as many inputs as `count` says."""
    statistic: Statistic
    """Whether configurations were compared by medians or by means."""


def summarize(reported: Iterable[tuple[Results, Sequence[InputReport]]]) -> list[ProgramSummary]:
    """Summarize results, each with the reports of its inputs; no two have one program and
    device."""
    pairs = list(reported)
    campaigns = [results.campaign for results, _ in pairs]
    summaries: list[ProgramSummary] = []
    for results, reports in pairs:
        counts = results.searched.outcomes
        campaign = results.campaign
        summary = ProgramSummary(
            program=_program_name(campaign, campaigns),
            device=_device_name(campaign, campaigns),
            tests=counts.total(),
            failures={o: n for o, n in counts.most_common() if o is not Outcome.OK},
            speedups=_speedups(reports),
            statistic=campaign.statistic,
        )
        summaries.append(summary)
    return summaries


def _device_name(campaign: StoredCampaign, campaigns: Iterable[StoredCampaign]) -> str:
    """Name an environment by its device, and by what else differs between environments of one
    device, such as the driver."""
    device = campaign.environment.device
    fields = [c.environment.compared for c in campaigns if c.environment.device == device]
    names = [device]
    for name, value in campaign.environment.compared.items():
        if any(other[name] != value for other in fields):
            names.append(value)
    return ", ".join(names)


def _program_name(campaign: StoredCampaign, campaigns: Iterable[StoredCampaign]) -> str:
    """Name a campaign by its space; by its version where the space has several, and by its number
    where a version has several on one device."""
    key = campaign.key
    name = campaign.space_name
    same = [other.key for other in campaigns if other.space_name == name]
    if any(other.program_sha256 != key.program_sha256 for other in same):
        name = f"{name}, version {key.program_sha256[:8]}"
    if sum(replace(other, campaign=key.campaign) == key for other in same) > 1:
        name = f"{name}, campaign {key.campaign}"
    return name


def _speedups(reports: Sequence[InputReport]) -> Mapping[str, TimeRatio]:
    """Return the mean speed-up over each baseline that was measured; levels of a compiler have
    short names."""
    ratios = {DEFAULT: [report.speedup for report in reports if report.speedup]}
    for report in reports:
        for name, ratio in report.baseline_speedups.items():
            ratios.setdefault(name, []).append(ratio)
    levels = Counter(map(level_of, ratios))
    speedups: dict[str, TimeRatio] = {}
    for name, of_name in ratios.items():
        level = level_of(name)
        if level is None or levels[level] > 1:
            level = name
        if of_name:
            speedups[level] = mean_ratio(of_name)
    return speedups
