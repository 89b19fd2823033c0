"""Results of databases by space, device and campaign, for scripts and for the rooms above."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import Connection

from harness.constraints.expression import Expression
from harness.core.arrays import Flags
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Interleaved, Measurement
from harness.core.text import command_line, suggestion
from harness.results.ablation import Ablation
from harness.results.campaigns import (
    Command,
    Run,
    StoredCampaign,
    campaigns,
    read_campaign,
    read_commands,
    read_runs,
)
from harness.results.columns import MeasurementRow, MeasurementRows, as_rows, joined
from harness.results.database import reading
from harness.results.fitting import VersionRows, fitting
from harness.results.measured import (
    MeasuredConfigs,
    by_input,
    interleaved_groups,
    measured_by_input,
)
from harness.results.notes import Notes
from harness.results.provenance import KernelVersion, TunedSpace, kernel_versions
from harness.results.read import CampaignKey
from harness.results.schema import ABLATION, CANDIDATE, CHOICE, FINAL, LATER, SEARCHED
from harness.results.url import without_password
from harness.space_file import Spec

if TYPE_CHECKING:
    import pandas as pd


_UNBIASED = "UniformRandom"
"""The technique whose samples are fit for statistics over parameters: it draws uniformly, whatever
was measured before. A search prefers what it expects to be fast."""


@dataclass(frozen=True)
class Results:
    """Measurements that may be compared: one space, one device, one campaign."""

    campaign: StoredCampaign
    databases: tuple[str, ...]
    all_rows: Sequence[MeasurementRow]
    """All measurements as read; see `rows`."""
    runs: Sequence[Run] = ()
    commands: Sequence[Command] = ()
    others: tuple[KernelVersion, ...] = ()
    """The other versions of the kernel in the databases, whose measurements are not here."""

    @property
    def title(self) -> str:
        """The space and the device."""
        return f"{self.campaign.space_name} on {self.campaign.environment}"

    @property
    def last_at(self) -> str:
        """When the campaign was last worked on, ISO 8601 in UTC."""
        return max((run.last_at for run in self.runs), default="")

    @cached_property
    def fitting(self) -> VersionRows:
        """The measurements that count for the campaign's version of the space, and the others."""
        rows = as_rows(self.all_rows).by(self.campaign.statistic)
        inputs = {run.problem for run in self.runs}
        present = self._noted_data(by_input(rows))
        return fitting(rows, self.campaign, self.limits, inputs, present=present)

    def _noted_data(self, measured: Mapping[Input, MeasurementRows]) -> dict[Input, str]:
        """Return the digests of the data that commands found last, of the inputs that were not
        measured since: the data may be those of an earlier time again."""
        digests: dict[Input, str] = {}
        for run in self._runs_in_order:
            if run.problem not in measured or "data_sha256" not in run.notes:
                continue
            rows = measured[run.problem]
            noted_at = np.datetime64(run.last_at.removesuffix("+00:00"))
            if rows.of(rows.columns.measured_at).max() <= noted_at:
                digests[run.problem] = run.notes["data_sha256"]
        return digests

    @property
    def rows(self) -> MeasurementRows:
        """The measurements that count for the campaign's version of the space."""
        return self.fitting.rows

    def of_spec(self, spec: Spec) -> Results:
        """Return the results for the version of the space that a spec has."""
        return replace(self, campaign=self.campaign.of_spec(spec))

    @cached_property
    def searched(self) -> MeasurementRows:
        """The measurements of the search, and across inputs."""
        return self.rows.of_stages(SEARCHED)

    @cached_property
    def measured(self) -> Mapping[Input, MeasuredConfigs]:
        """By input, the configurations that were searched or measured across inputs."""
        return measured_by_input(self.searched)

    @cached_property
    def finals(self) -> Mapping[Input, Sequence[Measurement]]:
        """By input, the last interleaved measurements of the winner and the default for this
        version of the space; where there are none, for another version."""
        rows = self.rows.of_stages([FINAL])
        is_of_version = rows.of(rows.columns.space) == self.campaign.space_sha256
        sessions = {**by_input(rows), **by_input(rows.where(is_of_version))}
        return {problem: interleaved_groups(of_input)[-1] for problem, of_input in sessions.items()}

    @cached_property
    def choices(self) -> Mapping[Input, MeasurementRows]:
        """By input, the interleaved measurements of the finalists, which chose the winner."""
        return by_input(self.rows.of_stages([CHOICE]))

    @cached_property
    def candidates(self) -> Mapping[Input, Sequence[Interleaved]]:
        """By input, the interleaved measurements of a dispatcher's candidates, oldest first."""
        return self._interleaved(CANDIDATE)

    @cached_property
    def interleaved(self) -> Mapping[Input, Sequence[Interleaved]]:
        """By input, the interleaved measurements of finalists, of winners, and of candidates."""
        sessions: dict[Input, list[Interleaved]] = {}
        for stage in (CHOICE, FINAL, CANDIDATE):
            for problem, groups in self._interleaved(stage).items():
                sessions.setdefault(problem, []).extend(groups)
        return sessions

    def _interleaved(self, stage: str) -> Mapping[Input, Sequence[Interleaved]]:
        rows = by_input(self.rows.of_stages([stage]))
        return {problem: interleaved_groups(of_input) for problem, of_input in rows.items()}

    @cached_property
    def failed_later(self) -> list[Measurement]:
        """The failures of all stages after the search."""
        later = self.rows.of_stages(LATER)
        return list(later.where(~later.of(later.columns.works)).measurements())

    @cached_property
    def default(self) -> Config:
        """The default, without the flags of compilers that were not used."""
        default, names = self.campaign.default, self.fitting.names
        return Config({name: value for name, value in default.items() if name in names})

    @cached_property
    def baselines(self) -> Mapping[str, Config]:
        """The named baselines, whole: the default with each baseline's own values."""
        baselines: dict[str, Config] = {}
        for name, values in self.campaign.baselines.items():
            if set(values) <= set(self.default):
                baselines[name] = Config({**self.default, **values})
        return baselines

    @cached_property
    def _runs_in_order(self) -> Sequence[Run]:
        """The runs as they were last worked on, those of this version of the space at the end."""
        sha256 = self.campaign.space_sha256
        return sorted(self.runs, key=lambda run: (run.space_sha256 == sha256, run.last_at))

    @cached_property
    def notes(self) -> Mapping[Input, Notes]:
        """By input, the notes of its runs; of notes with equal names the last run's."""
        notes: dict[Input, Notes] = {}
        for run in self._runs_in_order:
            notes.setdefault(run.problem, {}).update(run.notes)
        return notes

    @cached_property
    def legal(self) -> Mapping[Input, int]:
        """By input, the number of its legal configurations, where that was counted."""
        legal: dict[Input, int] = {}
        for run in self._runs_in_order:
            if "legal" in run.notes and run.space_sha256 == self.campaign.space_sha256:
                legal[run.problem] = run.notes["legal"]
        return legal

    @property
    def is_replay(self) -> bool:
        """Whether a recording answered the tests, so that nothing was measured here."""
        return self.campaign.environment.backend == "replay"

    @property
    def is_recorded(self) -> bool:
        """Whether OpenTuner made the results without harness."""
        return any("record" in notes for notes in self.notes.values())

    @cached_property
    def tuned_space(self) -> TunedSpace:
        """The space that was tuned last."""
        last_first = sorted(self.runs, key=lambda run: run.last_at, reverse=True)
        files = [run.notes["space_file"] for run in last_first if "space_file" in run.notes]
        return TunedSpace(
            name=self.campaign.space_name,
            noted=tuple(dict.fromkeys(files)),
            databases=self.databases,
            is_tuned=not self.is_recorded,
        )

    @cached_property
    def ablations(self) -> Mapping[Input, Ablation]:
        """By input, the settings that its winner needs, where that was measured; an ablation of
        another winner than that of the last finals says nothing about it."""
        ablations: dict[Input, Ablation] = {}
        for problem, notes in self.notes.items():
            ablation = notes.get("reduced")
            if ablation is None:
                continue
            for final in self.finals.get(problem, ()):
                shortest = self.measured[problem].shortest(final.config, self.default)
                if ablation.winner in (final.config, shortest):
                    ablations[problem] = ablation
        return ablations

    @cached_property
    def ablation_sessions(self) -> Mapping[Input, Sequence[Interleaved]]:
        """By input, the interleaved measurements of winners beside parts of them, oldest first."""
        return self._interleaved(ABLATION)

    @property
    def is_exhausted(self) -> bool:
        """Whether every legal configuration of every input was measured."""
        return all(map(self._is_exhausted, self.measured))

    def _is_exhausted(self, problem: Input) -> bool:
        return len(self.measured.get(problem, ())) >= self.legal.get(problem, math.inf)

    def unbiased(self, rows: MeasurementRows) -> Flags:
        """Say which measurements are fit for statistics over parameters: they were drawn
        uniformly, or every legal configuration of their input was measured."""
        columns = rows.columns
        is_whole = np.array(list(map(self._is_exhausted, columns.inputs)), dtype=np.bool_)
        unbiased: Flags = rows.of(columns.requestor) == _UNBIASED
        unbiased |= is_whole[rows.of(columns.input_codes)]
        return unbiased

    @cached_property
    def _last_notes(self) -> Notes:
        """The notes of all runs; of notes with equal names the last run's."""
        notes = Notes()
        for run in self._runs_in_order:
            notes.update(run.notes)
        return notes

    @property
    def limits(self) -> Mapping[str, int]:
        """The device limits that constraints and launches may name (`DeviceLimits.names()`);
        empty where there was no device."""
        return self._last_notes.get("limits", {})

    @property
    def same(self) -> tuple[str, ...]:
        """Constraints that keep values the same on all inputs."""
        return tuple(self._last_notes.get("same", ()))

    @cached_property
    def constraints(self) -> tuple[str, ...]:
        """The space's constraints, without those over device limits that are not known, and those
        that the device puts on launches or that keep values the same on all inputs."""
        names = self.fitting.names | self.limits.keys()
        for problem in by_input(self.rows):
            names |= problem.keys()
        launches = self._last_notes.get("launch_limits", {})
        texts = (*self.campaign.constraints, *launches, *self.same)
        return tuple(text for text in texts if Expression(text).names <= names)

    def table(self) -> pd.DataFrame:
        """Return a table with one row a measurement, and a column for each feature, each parameter
        and what was measured; a feature or parameter whose name is taken is `input.NAME` or
        `config.NAME`.

        `time_s` is the median, or the mean if the space asks for means; NaN unless the outcome is
        `ok`; `samples_s` are the raw samples; `unbiased` marks measurements that are fit for
        statistics over parameters.
        """
        return measurements_table(self.rows, self.unbiased(self.rows))


# ------------------------------------------------------------------------------ reading


def results_of(
    connection: Connection,
    key: CampaignKey,
    spec: Spec,
    environment: Environment,
    rows: MeasurementRows,
) -> Results:
    """Return the results of a campaign whose measurements are at hand, for the version of its space
    that a spec has; its runs and commands are read."""
    campaign = StoredCampaign.begun(key, spec, environment)
    for stored in campaigns(connection):
        if (stored.key, stored.space_name) == (key, spec.name):
            campaign = stored.of_spec(spec)
    runs = read_runs(connection, campaign)
    if not runs:
        rows = rows.take(rows.selected[:0])  # they are of another space with the same program
    return Results(campaign, (), rows, runs, read_commands(connection, campaign))


def read_results(
    databases: str | Sequence[str],
    space: str | None = None,
    all_campaigns: bool = False,
    builds: bool = True,
    all_versions: bool = False,
) -> list[Results]:
    """Read one Results for each campaign of one or several databases, the last worked on first.

    A campaign that is in several databases becomes one Results, with each measurement once.
    Without `all_campaigns`, only the last campaign of each space and environment is read: after a
    kernel was edited, that of the version that was tuned last, and `Results.others` lists the other
    versions; with `all_versions`, that of each. Without `builds`, measurements lack theirs, which
    saves memory.

    Raises UsageError where nothing is found.
    """
    databases = [databases] if isinstance(databases, str) else databases
    results: dict[tuple[CampaignKey, str], list[Results]] = {}
    names: set[str] = set()
    for database in databases:
        with reading(database) as engine, engine.connect() as connection:
            there = campaigns(connection)
            names |= {campaign.space_name for campaign in there}
            chosen = [c for c in there if space in (None, c.space_name)]
            if not all_campaigns:
                chosen = _latest(chosen, all_versions)
            for campaign in chosen:
                key, name = campaign.key, campaign.space_name
                read = read_campaign(connection, campaign, builds)
                now = campaign.program_parts
                versions = kernel_versions(connection, there, name, key.fingerprint, now)
                others = tuple(v for v in versions if v.program_sha256 != key.program_sha256)
                same = results.setdefault((key, name), [])
                same.append(Results(campaign, (database,), *read, others))
    if not results:
        raise UsageError(_nothing(databases, space, names))
    return [_joined(parts) for parts in results.values()]


def _latest(campaigns: Iterable[StoredCampaign], all_versions: bool) -> list[StoredCampaign]:
    """Keep the last campaign of each space and environment, or of each version of its kernel."""
    latest: dict[tuple[str, ...], StoredCampaign] = {}
    for campaign in campaigns:
        place = [campaign.space_name, campaign.key.fingerprint]
        if all_versions:
            place.append(campaign.key.program_sha256)
        latest.setdefault(tuple(place), campaign)
    return list(latest.values())


def _joined(parts: Sequence[Results]) -> Results:
    """Join one campaign of several databases; of two copies of a run the last updated counts."""
    if len(parts) == 1:
        return parts[0]
    rows = joined([as_rows(part.all_rows) for part in parts])
    _, first = np.unique(rows.of(rows.columns.uuid), return_index=True)
    runs: dict[str, Run] = {}
    commands: dict[str, Command] = {}
    databases: list[str] = []
    others: dict[KernelVersion, None] = {}
    for part in parts:
        for run in part.runs:
            if run.uuid not in runs or run.last_at > runs[run.uuid].last_at:
                runs[run.uuid] = run
        for command in part.commands:
            if command.uuid not in commands or command.ended_at is not None:
                commands[command.uuid] = command
        databases += part.databases
        others |= dict.fromkeys(part.others)
    return Results(
        max(parts, key=lambda part: part.last_at).campaign,
        tuple(databases),
        rows.take(rows.selected[np.sort(first)]),
        tuple(runs.values()),
        tuple(commands.values()),
        tuple(others),
    )


def _nothing(databases: Sequence[str], space: str | None, names: Iterable[str]) -> str:
    shown = ", ".join(map(without_password, databases))
    if not names:
        return f"{shown}: no runs yet; `{command_line('tune')} SPACE --database ...` adds some"
    hint = suggestion(space or "", names)
    return f"{shown}: no results of a space `{space}`; {hint}"


def the_one(
    campaigns: Sequence[Results],
    advice: str = "choose one with --space NAME, or give the database of one device alone",
) -> Results:
    """Return the only Results; raises UsageError that says in what several differ, since their
    times must not be mixed."""
    if len(campaigns) == 1:
        return campaigns[0]
    values: dict[str, dict[str, None]] = {}
    for results in campaigns:
        campaign = results.campaign
        facts = {
            "space": campaign.space_name,
            "program (kernel source and host module)": campaign.key.program_sha256[:8],
            **campaign.environment.compared,
            "campaign": str(campaign.key.campaign),
        }
        for name, value in facts.items():
            values.setdefault(name, {})[value] = None
    lines = [f"    {name}: {', '.join(them)}\n" for name, them in values.items() if len(them) > 1]
    raise UsageError(
        f"{len(campaigns)} results that must not be mixed, since they differ in\n"
        f"{''.join(lines)}{advice}"
    )


# --------------------------------------------------------------------------- tables

_NOT_TIMED = {"time_s": math.nan, "mean_s": math.nan, "std_s": math.nan, "samples_s": ()}


def measurements_table(rows: MeasurementRows, unbiased: Flags) -> pd.DataFrame:
    """Return a table with a row for each measurement; `unbiased` marks rows, shape (rows,)."""
    points: list[tuple[Input, Config]] = []
    records: list[dict[str, object]] = []
    for row, is_unbiased in zip(rows, unbiased.tolist(), strict=True):
        m = row.measurement
        points.append((m.input, m.config))
        record: dict[str, object] = {"stage": row.stage, "outcome": m.outcome.value}
        record.update(_NOT_TIMED)
        if m.timing:
            record["time_s"] = m.time_s
            record["mean_s"] = m.timing.mean_s
            record["std_s"] = m.timing.std_s
            record["samples_s"] = m.timing.samples_s
        record["requestor"] = row.requestor
        record["unbiased"] = is_unbiased
        record["message"] = m.message
        record.update(m.observed)
        records.append(record)
    return flat_table(points, records)


def flat_table(
    points: Sequence[tuple[Input, Mapping[str, object]]], values: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Return a table of inputs and configurations with what was found there, in plain columns; a
    feature or parameter whose name is taken is `input.NAME` or `config.NAME`."""
    import pandas as pd  # here: it takes half a second to load

    last = pd.DataFrame(values)
    parts = [last]
    for index, part in ((1, "config"), (0, "input")):
        table = pd.DataFrame([dict(point[index]) for point in points])
        parts.insert(0, table.rename(columns={name: f"{part}.{name}" for name in last}))
    joined: pd.DataFrame = pd.concat(parts, axis=1)
    return joined
