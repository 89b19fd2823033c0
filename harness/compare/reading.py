"""A results database -> its results of each kernel in each environment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.analysis.coverage import NOT_MEASURED, input_report, noted_reasons
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Statistic
from harness.core.text import command_line
from harness.results.campaigns import (
    LEFT_OUT,
    Command,
    StoredCampaign,
    campaigns,
    read_commands,
    read_runs,
)
from harness.results.columns import MeasurementRow, MeasurementRows
from harness.results.database import reading
from harness.results.measured import by_input
from harness.results.read import read_measurements
from harness.results.schema import FINAL, STAGES
from harness.results.url import without_password
from harness.results.view import Results
from harness.stats.timing import mean_log

Occasions = Mapping[Hashable, float]
"""The mean logarithm of each occasion, by a key that all copies of the occasion share."""


@dataclass(frozen=True)
class InputResults:
    """The results of one input.

    `measured` has the `best` and the `default`, where they are known: from the finals, which were
    measured again and interleaved, or else from the search. Either may have failed; the best has
    failed where nothing works. `uuids` identify these measurements in every copy. `groups` has the
    occasions of each configuration that was measured several times and not selected for its time.
    `tried` are the configurations that have a measurement. After a rerun (harness.compare.rerun)
    the n-th occasions of both sides belong together.
    """

    measured: Mapping[str, Measurement]
    is_remeasured: bool
    groups: Sequence[Occasions]
    tried: frozenset[Config]
    uuids: Mapping[str, str] = field(default_factory=dict)
    is_rerun: bool = False


@dataclass(frozen=True)
class KernelResults:
    """The results of a kernel in one environment, as it was last tuned there.

    `program` is the digest of its sources. `statistic` says whether its times are medians or means.
    `broken` has the inputs that failed in the last command that asked for them, with the reasons.
    """

    kernel: str
    environment: Environment
    program: str
    inputs: Mapping[Input, InputResults]
    broken: Mapping[Input, str] = field(default_factory=dict)
    statistic: Statistic = Statistic.MEDIAN


def read_kernel_results(
    database: str, kernel: str | None = None, programs: Mapping[str, str] | None = None
) -> list[KernelResults]:
    """Read the results of each kernel, or of the named one; those tuned last come first.

    `programs` has the digests of the wanted versions by kernel name; of other kernels the version
    tuned last is read. Raises UsageError where there are no results, ResultsError where they cannot
    be read.
    """
    with reading(database) as engine, engine.connect() as connection:
        stored = [c for c in campaigns(connection) if kernel in (None, c.space_name)]

        def read(campaign: StoredCampaign, stages: Sequence[str]) -> Results:
            rows = read_measurements(connection, campaign.key, stages)
            return Results(campaign, (database,), rows, read_runs(connection, campaign))

        results: list[KernelResults] = []
        for last, *earlier in _versions(stored, programs or {}):
            finals = [read(campaign, [FINAL]).rows for campaign in earlier]
            broken = _broken(read_commands(connection, last))
            results.append(_of_kernel(read(last, STAGES), finals, broken))
    lost = sorted(set(programs or {}) - {of_kernel.kernel for of_kernel in results})
    if lost:
        raise UsageError(
            f"{without_password(database)} has no results of {', '.join(lost)} with the current "
            f"sources; tune it first: {command_line('tune')} SPACE --database ..."
        )
    if not results:
        raise UsageError(f"{without_password(database)} has no results of {kernel or 'any kernel'}")
    return results


# ----------------------------------------------------------------------- databases


def _versions(
    stored: Iterable[StoredCampaign], programs: Mapping[str, str]
) -> Iterator[list[StoredCampaign]]:
    """Yield the campaigns of one version for each kernel and environment, the last one first.

    The version is the wanted one, or else the one tuned last.
    """
    groups: dict[tuple[str, str], list[StoredCampaign]] = {}
    for campaign in stored:
        if programs.get(campaign.space_name) in (None, campaign.key.program_sha256):
            groups.setdefault((campaign.space_name, campaign.key.fingerprint), []).append(campaign)
    for group in groups.values():
        last = group[0].key.program_sha256
        yield [campaign for campaign in group if campaign.key.program_sha256 == last]


def _of_kernel(
    results: Results, earlier_finals: Sequence[MeasurementRows], broken: Mapping[Input, str]
) -> KernelResults:
    """Select the results of the last campaign; the finals of earlier ones tell of the noise between
    runs, too."""
    last = results.campaign
    groups: dict[Input, dict[Config, dict[Hashable, float]]] = {}
    for rows in (results.rows, *earlier_finals):
        for row in _occasions(rows, results.default):
            m = row.measurement
            samples_s = m.timing.samples_s if m.timing else ()
            # A replay serves the same samples again; that is one occasion.
            occasion = samples_s if results.is_replay else row.uuid
            of_config = groups.setdefault(m.input, {}).setdefault(m.config, {})
            of_config[occasion] = mean_log(samples_s)
    rows_of = by_input(results.rows)
    inputs: dict[Input, InputResults] = {}
    for problem in results.measured:
        of_input = groups.get(problem, {})
        inputs[problem] = _of_input(results, problem, of_input, rows_of[problem])
    program = last.key.program_sha256
    return KernelResults(last.space_name, last.environment, program, inputs, broken, last.statistic)


def _broken(commands: Iterable[Command]) -> dict[Input, str]:
    """Return the inputs that failed in the last command that asked for them, with the reasons.

    An input that the command had no time for may work.
    """
    return {
        problem: reason.removeprefix(LEFT_OUT)
        for problem, reason in noted_reasons(commands).items()
        if reason and not reason.startswith(NOT_MEASURED)
    }


def _occasions(rows: MeasurementRows, default: Config) -> Iterator[MeasurementRow]:
    """Yield the rows of the finals, and those of the default in the search.

    Other configurations reach the finals because they were fast in the search, so their times in
    the search are biased.
    """
    columns = rows.columns
    wanted = rows.of(columns.stage) == FINAL
    wanted |= rows.of(columns.config_codes) == columns.configs.find(default)
    yield from rows.where(wanted & rows.of(columns.works))


def _of_input(
    results: Results, problem: Input, groups: Mapping[Config, Occasions], rows: MeasurementRows
) -> InputResults:
    """Select the measurements of an input, whose rows these are."""
    searched = results.measured[problem]
    finals = results.finals.get(problem, ())
    report = input_report(results, problem)
    measured = {"best": report.best or next(iter(searched.values()))}
    default = report.baseline or searched.get(results.default)
    if default is not None:
        measured["default"] = default
    uuids = {subject: _uuid(rows, m) for subject, m in measured.items()}
    # Baselines that the search did not propose have their first measurement in the finals.
    tried = frozenset(searched).union(final.config for final in finals)
    return InputResults(measured, not report.note, list(groups.values()), tried, uuids)


def _uuid(rows: MeasurementRows, measurement: Measurement) -> str:
    """Return the identifier of a measurement among the rows of its input; of equal ones the
    last."""
    code = rows.columns.configs.find(measurement.config)
    same = list(rows.where(rows.of(rows.columns.config_codes) == code))
    return next(row.uuid for row in reversed(same) if row.measurement == measurement)
