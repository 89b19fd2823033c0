"""Report on single inputs: the best configuration, its speed-up, ties and finalists.

Pure functions over measurements; harness.tune calls them on what it has just measured,
harness analyse on what a database holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from harness.constraints.expression import Expression
from harness.core.config_diff import DEFAULT, preference
from harness.core.observations import UNCLAIMED
from harness.core.records import Config, Input, Interleaved, Measurement, Outcome, Timing
from harness.results.ablation import Ablation
from harness.results.measured import Measured, MeasuredConfigs
from harness.stats.samples import within_noise
from harness.stats.timing import (
    TimeRatio,
    half_width_of,
    hold_false_discoveries,
    log_time,
    time_ratio,
    trimmed_ratio,
)


@dataclass(frozen=True)
class InputReport:
    """The result of tuning one input.

    `best` and `baseline` come from the finals, which measure the winner and the default
    interleaved; without finals they come from the search, and are None where nothing worked. The
    best is the default where the winner was not faster. `speedup` needs finals of both; the rounds
    that it comes from had no part in the choice of the winner. `within_noise` counts the
    configurations that tie with the best, once per machine code.

    `legal` is the number of legal configurations, None if unknown. `note` is the reason why an
    input was not measured, or not measured again. `shared` configurations have the measurement of
    another one with the same machine code.
    """

    problem: Input
    best: Measurement | None
    baseline: Measurement | None
    speedup: TimeRatio | None
    within_noise: int
    outcomes: Mapping[Outcome, int]
    legal: int | None
    note: str = ""
    shared: int = 0
    baseline_speedups: Mapping[str, TimeRatio] = field(default_factory=dict)
    """The speed-up over each named baseline that worked in the finals."""
    failed_baselines: Mapping[str, Measurement] = field(default_factory=dict)
    """The last failure of the default and of each named baseline that failed, by name."""
    worst: float | None = None
    """The time of the slowest configuration of the search over that of the fastest."""
    may_use_default: bool = True
    """False where the default has another value of what is the same on all inputs."""
    finalist: Config | None = None
    """The configuration that the finals measured: the best, or one that the best stands for, with
    the same machine code or with settings that have no effect."""
    crossed: int = 0
    """How many of the measured configurations no search asked for: the default, and the winners of
    other inputs."""
    confidence: float = 0.95
    """The probability of the confidence intervals."""

    @property
    def recommended(self) -> Measurement | None:
        """The configuration to use: the best, or the default where the best is not significantly
        faster."""
        is_best = self.speedup is None or self.speedup.is_faster or not self.may_use_default
        return self.best if is_best else self.baseline

    def spread_s(self, measured: Measurement | None) -> float | None:
        """Return half the confidence interval of a time; None where there are no two samples."""
        timing = measured.timing if measured is not None else None
        if timing is None or timing.count == 1:
            return None
        return half_width_of(timing, self.confidence)

    @property
    def measured(self) -> int:
        """The number of configurations with a measurement, including failed and shared ones."""
        return sum(self.outcomes.values())

    @property
    def is_default_alone(self) -> bool:
        """Whether nothing but the default was measured."""
        has_default = self.baseline is not None or DEFAULT in self.failed_baselines
        return self.measured == 1 and has_default

    @property
    def is_exhausted(self) -> bool:
        """Whether every legal configuration was measured."""
        return bool(self.legal) and self.measured >= (self.legal or 0)


def report_input(
    problem: Input,
    measured: Measured,
    finals: Iterable[Measurement],
    default: Config,
    legal: int | None,
    confidence: float = 0.95,
    baselines: Mapping[str, Config] = MappingProxyType({}),
    has_choice: bool = False,
    same: Sequence[Expression] = (),
) -> InputReport:
    """Report on an input from what the search `measured`, and from the `finals`: of the winner,
    then of the default, the named baselines, and the single configuration of all inputs. With
    `has_choice`, other rounds chose the winner. Constraints of `same` keep values the same on all
    inputs.

    Of configurations with the machine code of the winner, the one with the fewest changes from the
    default is the best, without a measurement. `hold_discoveries` judges several inputs.
    """
    configs = MeasuredConfigs.of(measured)
    final = {m.config: m for m in finals}
    note = ""
    winner, judged = _winner(final, has_choice, default)
    best = final.get(winner) if winner else None
    baseline = final.get(default)

    def speedup_over(config: Config) -> TimeRatio | None:
        if best is None or best.config not in judged or config not in judged:
            return None
        faster = judged[best.config]
        slower = judged[config]
        ratio = time_ratio(slower, faster, confidence)
        # A few rounds that other work disturbed are no speed-up of the typical round.
        is_typical = ratio.value <= 1 or slower.time_s > faster.time_s
        if UNCLAIMED in best.observed or not is_typical:
            return dataclasses.replace(ratio, p_value=1.0, may_be_chance=True)
        return ratio

    def may_win(config: Config) -> bool:
        return all(constraint.allows(config) for constraint in same)

    speedup = speedup_over(default)
    may_use_default = may_win(default)
    if speedup and speedup.value < 1 and may_use_default:
        best = baseline
        speedup = time_ratio(judged[default], judged[default], confidence)
    elif not best and (best := configs.fastest):
        # The best of a search was lucky, so its time gives no speed-up.
        baseline = measured.get(default)
        note = "not measured again"
    speedups: dict[str, TimeRatio] = {}
    failed: dict[str, Measurement] = {}
    for name, config in {DEFAULT: default, **baselines}.items():
        ratio = speedup_over(config)
        if ratio is not None and name in baselines:
            speedups[name] = ratio
        last = final.get(config) or measured.get(config)
        if last and not last.timing:
            failed[name] = last
    finalist = None
    ties = 0
    if best:
        finalist = best.config
        if finalist != default:
            best = _named(best, configs.shortest(finalist, default, may_win))
        ties = configs.ties(best.config, confidence)
    return InputReport(
        problem=problem,
        best=best,
        baseline=baseline,
        speedup=speedup,
        within_noise=ties,
        outcomes=configs.rows.outcomes,
        legal=legal,
        note=note,
        shared=int(configs.rows.is_shared.sum()),
        baseline_speedups=speedups,
        failed_baselines=failed,
        worst=configs.worst,
        may_use_default=may_use_default,
        finalist=finalist,
        confidence=confidence,
    )


def _named(measured: Measurement, config: Config) -> Measurement:
    """Return the measurement of a configuration as that of another one with its machine code."""
    if config == measured.config:
        return measured
    origin = measured.shared_with or measured.config.digest
    shared_with = None if origin == config.digest else origin
    return dataclasses.replace(measured, config=config, shared_with=shared_with)


def with_needed_parts(
    reports: Iterable[InputReport],
    ablations: Mapping[Input, Ablation],
    sessions: Mapping[Input, Sequence[Interleaved]],
) -> list[InputReport]:
    """Put the part of each winner that its ablation has found to be as fast in the winner's place,
    where it takes it (`Ablation.replaces_winner`). `sessions` are the ablations' interleaved
    measurements."""
    changed = []
    for report in reports:
        ablation = ablations.get(report.problem)
        if ablation is not None and ablation.replaces_winner:
            report = _with_part(report, ablation, sessions.get(report.problem, ()))
        changed.append(report)
    return changed


def _with_part(
    report: InputReport, ablation: Ablation, sessions: Iterable[Interleaved]
) -> InputReport:
    """Report the needed part: where it has the winner's machine code, with what was measured of the
    winner; else with its last time beside the winner, and with the speed-up of the winner over that
    of the part's time."""
    best = report.best
    ratio = ablation.ratio
    if best is None or ablation.winner not in (best.config, report.finalist):
        return report
    if ratio is None:
        return dataclasses.replace(report, best=_named(best, ablation.config))
    part = None
    for session in sessions:
        if [measured.config for measured in session] == [ablation.winner, ablation.config]:
            part = session[1]
    speedup = report.speedup.over(ratio) if report.speedup else None
    if part is None or part.timing is None or speedup is None or not speedup.is_faster:
        return report
    return dataclasses.replace(
        report,
        best=part,
        speedup=speedup,
        baseline_speedups={n: over.over(ratio) for n, over in report.baseline_speedups.items()},
    )


def hold_discoveries(reports: Sequence[InputReport]) -> list[InputReport]:
    """Mark the speed-ups that may be chance: over all inputs, the rate of false discoveries is
    held (`harness.stats.timing`); so it is for the speed-ups over each named baseline."""
    speedups = hold_false_discoveries([report.speedup for report in reports])
    names: dict[str, None] = {}
    for report in reports:
        names |= dict.fromkeys(report.baseline_speedups)
    of_baselines: list[dict[str, TimeRatio]] = [{} for _ in reports]
    for name in names:
        ratios = [report.baseline_speedups.get(name) for report in reports]
        for over, ratio in zip(of_baselines, hold_false_discoveries(ratios), strict=True):
            if ratio is not None:
                over[name] = ratio
    judged: list[InputReport] = []
    for report, speedup, over in zip(reports, speedups, of_baselines, strict=True):
        if names or speedup is not report.speedup:
            report = dataclasses.replace(report, speedup=speedup, baseline_speedups=over)
        judged.append(report)
    return judged


def ranked(
    interleaved: Iterable[Measurement],
    default: Config,
    confidence: float = 0.95,
    single: Config | None = None,
) -> list[Config]:
    """Rank configurations that were measured interleaved, without failures.

    The first is the one to use: of those that are not significantly slower than the fastest, the
    `single` one that is used on all inputs, else the first by `preference`. The others follow, the
    fastest first.
    """
    timings = {m.config: m.timing for m in interleaved if m.timing}
    if not timings:
        return []
    first_timing = next(iter(timings.values()))
    order = sorted(timings, key=lambda config: trimmed_ratio(timings[config], first_timing).value)
    best = timings[order[0]]
    tied = [c for c in order if not trimmed_ratio(timings[c], best, confidence).is_significant]
    first = min(tied, key=lambda config: (config != single, preference(config, default)))
    return list(dict.fromkeys([first, *order]))


def _winner(
    final: Measured, has_choice: bool, default: Config
) -> tuple[Config | None, Mapping[Config, Timing]]:
    """Return the configuration to judge, and the samples of each one that judge it.

    What chose the winner does not judge it: other rounds do. The finals measure the winner first.
    A recording has no rounds that choose: the first half of its finals does, the other half judges.
    """
    timings = {config: m.timing for config, m in final.items() if m.timing}
    others = [config for config in timings if config != default]
    if not others:
        return (default if timings else None), timings
    if has_choice or len(others) == 1:
        return others[0], timings
    halves = {config: _halves(timing) for config, timing in timings.items()}
    winner = min(others, key=lambda config: log_time(halves[config][0]))
    return winner, {config: second for config, (_, second) in halves.items()}


def _halves(timing: Timing) -> tuple[Timing, Timing]:
    """Split samples into the first half and the second, which has more; one sample is both."""
    half = timing.count // 2
    if not half:
        return timing, timing
    first = timing.samples_s[:half]
    second = timing.samples_s[half:]
    return (
        dataclasses.replace(timing, samples_s=first, occasions=()),
        dataclasses.replace(timing, samples_s=second, occasions=()),
    )


def choose_finalists(
    measured: Measured,
    default: Config,
    count: int | None = None,
    interleaved: Iterable[Measurement] = (),
) -> list[Config]:
    """Choose the configurations to measure again, since the best of a search was lucky.

    These are the `count` fastest; by default two, and of all within noise of the fastest the first
    by `preference`. The first of the `interleaved` measurements, which are more reliable than those
    of a search, is added (see `ranked`). Each machine code counts once, by the configuration with
    the fewest changes from the default.
    """
    configs = MeasuredConfigs.of(measured)
    columns = configs.columns
    working = configs.one_per_code(default)
    working = working[columns.works[working]]
    order = working[np.argsort(columns.time_s[working], kind="stable")]
    finalists = list(map(columns.config, order[: count or 2].tolist()))
    if count is None and len(order):
        tied = order[within_noise(columns.statistics, int(order[0]), order)].tolist()
        others = [config for config in map(columns.config, tied) if config != default]
        finalists += sorted(others, key=lambda config: preference(config, default))[:1]
    again = [m for m in interleaved if m.config in configs and configs[m.config].timing]
    for leader in ranked(again, default)[:1]:
        finalists.append(configs.shortest(leader, default))
    return list(dict.fromkeys(finalists))
