"""Summarize several programs on several devices: failures, and speed-ups over each baseline.

These are figures 3 and 4 of Bruel, Gonzalez and Goldman, "Autotuning GPU Compiler Parameters Using
OpenTuner" (2015): a row for each program, a column for each GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.inputs import InputReport
from harness.core.config_diff import DEFAULT
from harness.core.records import Environment, Outcome, Statistic
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
    devices = _device_names([results.campaign.environment for results, _ in pairs])
    programs = _program_names([results for results, _ in pairs])
    return [
        ProgramSummary(
            program, device, *_failures(results), _speedups(reports), results.campaign.statistic
        )
        for (results, reports), program, device in zip(pairs, programs, devices, strict=True)
    ]


def _device_names(environments: Sequence[Environment]) -> list[str]:
    """Name each environment by its device, and by what else differs between environments of one
    device, such as the driver."""
    names = []
    for environment in environments:
        same = [other for other in environments if other.device == environment.device]
        fields = environment.compared.items()
        differing = [v for name, v in fields if any(o.compared[name] != v for o in same)]
        names.append(", ".join([environment.device, *differing]))
    return names


def _program_names(all_results: Sequence[Results]) -> list[str]:
    """Name each result by its space; by its version where the space has several, and by its
    campaign where a version has several on one device."""
    named = [(results.campaign.space_name, results.campaign.key) for results in all_results]
    names = []
    for name, key in named:
        same = [other for other_name, other in named if other_name == name]
        versions = {other.program_sha256 for other in same}
        places = [(other.program_sha256, other.fingerprint) for other in same]
        version = f", version {key.program_sha256[:8]}" if len(versions) > 1 else ""
        is_repeated = places.count((key.program_sha256, key.fingerprint)) > 1
        names.append(f"{name}{version}{f', campaign {key.campaign}' if is_repeated else ''}")
    return names


def _failures(results: Results) -> tuple[int, Mapping[Outcome, int]]:
    """Return the number of tests, and of failed ones by kind, the most frequent first."""
    counts = results.searched.outcomes
    return counts.total(), {o: n for o, n in counts.most_common() if o is not Outcome.OK}


def _speedups(reports: Sequence[InputReport]) -> Mapping[str, TimeRatio]:
    """Return the mean speed-up over each baseline that was measured; levels of a compiler have
    short names."""
    names = dict.fromkeys(name for report in reports for name in report.baseline_speedups)
    levels = Counter(level_of(name) for name in names)
    shown = {n: level if (level := level_of(n)) and levels[level] == 1 else n for n in names}
    ratios = {DEFAULT: [r.speedup for r in reports if r.speedup]}
    for name in names:
        over = (report.baseline_speedups.get(name) for report in reports)
        ratios[shown[name]] = [ratio for ratio in over if ratio is not None]
    return {name: mean_ratio(of_name) for name, of_name in ratios.items() if of_name}
