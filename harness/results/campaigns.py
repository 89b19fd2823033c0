"""The campaigns of a database, with their runs and commands, and those of other devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from sqlalchemy import Connection, func, select

from harness.constraints.expression import Expression
from harness.core.records import ENVIRONMENT_FIELDS, Config, Environment, Input, Statistic, Value
from harness.results import schema, stock
from harness.results.columns import MeasurementRows
from harness.results.database import iso
from harness.results.measured import by_input
from harness.results.notes import DeviceResults, Notes, last_moment, space_notes
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_rows, read_run_rows, referred, refusing_damage
from harness.results.writer import space_row
from harness.space_file import Parameter, Spec


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign as stored: comparable measurements of one space, and the version of the space that
    says which of them count and how they are compared; it is the one tuned last, or that of a
    spec (`of_spec`)."""

    key: CampaignKey
    space_name: str
    environment: Environment
    space_sha256: str
    title: str
    parameters: Mapping[str, Parameter]
    constraints: tuple[str, ...]
    baselines: Mapping[str, Mapping[str, Value]]
    """By name, the values that differ from the default."""
    statistic: Statistic
    """By what configurations are compared. Raw samples are stored, so all are read so."""
    confidence: float
    """The probability of every confidence interval."""
    program_parts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The digests of which that of the program is made, see `Spec.program_parts`."""
    runs: Sequence[Row] = field(default=(), compare=False, repr=False)
    """The rows of its runs, in the order of their ids."""

    @classmethod
    def begun(cls, key: CampaignKey, spec: Spec, environment: Environment) -> StoredCampaign:
        """Make a campaign that has no run yet."""
        version = _version({**space_row(spec), "sha256": spec.space_sha256}, space_notes(spec))
        return cls(key, spec.name, environment, **version)

    def of_spec(self, spec: Spec) -> StoredCampaign:
        """Return the campaign with the version of its space that a spec has."""
        now = self.begun(self.key, spec, self.environment)
        return replace(now, space_name=self.space_name, runs=self.runs)

    @property
    def default(self) -> Config:
        """The default of every parameter."""
        return Config({name: p.default for name, p in self.parameters.items()})

    @property
    def roles(self) -> Mapping[str, str]:
        """The role of every parameter."""
        return {name: p.role for name, p in self.parameters.items()}


@dataclass(frozen=True)
class Run:
    """One search of one input: what it was asked for, and when. Dates are ISO 8601 in UTC."""

    uuid: str
    problem: Input
    technique: str
    seed: int
    test_limit: int
    started_at: str
    last_at: str
    """When the run was last begun, continued or ended."""
    state: str
    """complete; interrupted, by hand or by its time limit; or running, even if it was killed."""
    notes: Notes = field(default_factory=Notes)
    space_sha256: str = ""
    """The version of the space."""


@dataclass(frozen=True)
class Command:
    """One tuning command; dates are ISO 8601 in UTC.

    `left_out` and `stages` are known when it has ended. `left_out` has the inputs that were not
    measured, or not to the end, with the reason. `stages` has, by each stage that began after the
    search, what the stage left out; an empty text for nothing.
    """

    uuid: str
    inputs: tuple[Input, ...]
    started_at: str
    ended_at: str | None
    """None while the command runs, and where it was stopped by hand or killed."""
    left_out: Mapping[Input, str]
    stages: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    """The words that the user typed after `tune` or `replay`, without passwords; none in Python."""


_OF_RUN = ("uuid", "technique", "seed", "test_limit", "started_at", "state", "notes")

LEFT_OUT = "left out: "
"""The prefix of the reason for an input whose data cannot be made or whose default fails."""


def with_space(connection: Connection, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of runs or commands, each with that of its `space` and its `environment`."""
    spaces = {row["id"]: row for row in read_rows(connection, schema.spaces)}
    environments = {row["id"]: row for row in read_rows(connection, schema.environments)}
    for row in rows:
        space = referred("spaces", spaces, row["space_id"])
        environment = referred("environments", environments, row["environment_id"])
        yield {**row, "space": space, "environment": environment}


def campaigns(connection: Connection) -> list[StoredCampaign]:
    """Return every campaign of a database, the one that was worked on last first.

    Spaces that share a program have a campaign each, with the same key.

    Raises ResultsError where the database is damaged.
    """
    grouped: dict[tuple[CampaignKey, str], list[Row]] = {}
    made: list[tuple[tuple[str, int], StoredCampaign]] = []
    with refusing_damage(connection):
        for run in with_space(connection, read_run_rows(connection)):
            grouped.setdefault((_key(run), run["space"]["name"]), []).append(run)
        for of_campaign in grouped.values():
            last = max(of_campaign, key=_moment)
            made.append((_moment(last), replace(_campaign(last), runs=of_campaign)))
    made.sort(key=itemgetter(0), reverse=True)
    return [campaign for _, campaign in made]


def _moment(run: Row) -> tuple[str, int]:
    return last_moment(run), run["id"]


def measured_campaigns(
    connection: Connection, among: Iterable[StoredCampaign]
) -> Iterator[tuple[StoredCampaign, int, str]]:
    """Yield the campaigns that have measurements, with their number and the time of the last one,
    ISO 8601 in UTC.

    Raises ResultsError where the database is damaged.
    """
    table = stock.result
    # An index answers this alone. The date of each result would take a read of all their rows.
    count, last = func.count().label("count"), func.max(table.c.id).label("last")
    by_run = select(table.c.tuning_run_id, count, last).group_by(table.c.tuning_run_id).subquery()
    of_last = by_run.join(table, table.c.id == by_run.c.last)
    query = select(by_run.c.tuning_run_id, by_run.c.count, table.c.collection_date)
    with refusing_damage(connection):
        last_rows = connection.execute(query.select_from(of_last))
        measured = {run_id: (number, iso(date)) for run_id, number, date in last_rows}
        for campaign in among:
            of_runs = [measured[run["id"]] for run in campaign.runs if run["id"] in measured]
            if of_runs:
                number = sum(number for number, _ in of_runs)
                yield campaign, number, max(at for _, at in of_runs)


def _key(row: Row) -> CampaignKey:
    program, fingerprint = row["space"]["program_sha256"], row["environment"]["fingerprint"]
    return CampaignKey(program, fingerprint, row["campaign"])


def _campaign(run: Row) -> StoredCampaign:
    environment = Environment(**{name: run["environment"][name] for name in ENVIRONMENT_FIELDS})
    version = _version(run["space"], run["notes"])
    return StoredCampaign(_key(run), run["space"]["name"], environment, **version)


def _version(space: Row, notes: Notes) -> dict[str, Any]:
    """Return the fields of a campaign that a version of its space decides, from the row that
    describes it and the notes of a run."""
    return {
        "space_sha256": space["sha256"],
        "title": space["title"],
        "parameters": {name: _parameter(name, p) for name, p in space["parameters"].items()},
        "constraints": tuple(space["constraints"]),
        "baselines": notes.get("baselines", {}),
        "statistic": notes.get("statistic", Statistic.MEDIAN),
        "confidence": notes.get("confidence", 0.95),
        "program_parts": space["program_parts"],
    }


def _parameter(name: str, stored: Mapping[str, Any]) -> Parameter:
    """Return a parameter as `space_row` describes it."""
    values, when = stored["values"], stored.get("when")
    if isinstance(values, dict):
        values = range(values["min"], values["max"] + values["step"], values["step"])
    condition = Expression(when) if when is not None else None
    return Parameter(
        name, stored["kind"], values, stored["role"], stored["default"], when=condition
    )


def read_campaign(
    connection: Connection, campaign: StoredCampaign, builds: bool = True
) -> tuple[MeasurementRows, list[Run], list[Command]]:
    """Return the measurements, runs and commands of a campaign, oldest first; without `builds`,
    measurements lack theirs.

    Raises ResultsError where the database is damaged.
    """
    rows = read_measurements(connection, campaign.key, builds=builds)
    return rows, read_runs(connection, campaign), read_commands(connection, campaign)


def read_runs(connection: Connection, campaign: StoredCampaign) -> list[Run]:
    """Return the runs of a campaign, in the order in which they began.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        rows = read_rows(connection, schema.inputs)
        inputs = {row["id"]: Input(row["features"]) for row in rows}
        return [
            Run(
                problem=referred("inputs", inputs, row["input_id"]),
                last_at=last_moment(row),
                space_sha256=row["space"]["sha256"],
                **{name: row[name] for name in _OF_RUN},
            )
            for row in campaign.runs
        ]


def read_commands(connection: Connection, campaign: StoredCampaign) -> list[Command]:
    """Return the commands of a campaign, in the order in which they began.

    Raises ResultsError where the database is damaged.
    """
    commands: list[Command] = []
    with refusing_damage(connection):
        for row in with_space(connection, read_rows(connection, schema.commands)):
            if (_key(row), row["space"]["name"]) == (campaign.key, campaign.space_name):
                command = Command(
                    row["uuid"],
                    tuple(map(Input, row["inputs"])),
                    row["started_at"],
                    row["ended_at"],
                    {Input(features): why for features, why in row["left_out"]},
                    row["stages"],
                    tuple(row["arguments"] or ()),
                )
                commands.append(command)
    return commands


# --------------------------------------------------------------------- other devices


_DEVICE = TypeAdapter(DeviceResults)


def other_devices(
    connection: Connection, spec: Spec, environment: Environment
) -> tuple[DeviceResults, ...]:
    """Return the last campaign of each other device that measured this space's program.

    Raises ResultsError where the database is damaged.
    """
    same: list[StoredCampaign] = []
    for campaign in campaigns(connection):
        is_program = campaign.key.program_sha256 == spec.program_sha256
        is_other = campaign.environment.device != environment.device
        if campaign.space_name == spec.name and is_program and is_other:
            same.append(campaign)
    same.sort(key=lambda c: (c.environment.device, c.key.fingerprint, c.key.campaign))
    devices: dict[str, DeviceResults] = {}
    with refusing_damage(connection):
        for campaign, _, last_at in measured_campaigns(connection, same):
            facts = {
                "device": campaign.environment.device,
                "fingerprint": campaign.key.fingerprint,
                "campaign": campaign.key.campaign,
                "until": last_at,
            }
            devices[campaign.key.fingerprint] = _DEVICE.validate_python(facts)
    return tuple(devices.values())


def read_device(
    connection: Connection, spec: Spec, source: DeviceResults
) -> Mapping[Input, MeasurementRows]:
    """Return what the searches on another device measured by then, by input.

    Raises ResultsError where the database is damaged.
    """
    key = CampaignKey(spec.program_sha256, source.fingerprint, source.campaign)
    rows = read_measurements(connection, key, schema.SEARCHED, builds=False)
    until = np.datetime64(datetime.fromisoformat(source.until).replace(tzinfo=None), "ms")
    by_then = rows.of(rows.columns.measured_at) <= until
    measured = by_input(rows.where(by_then).by(spec.measure.statistic))
    features = set(spec.features)  # another space of the program may have others
    return {problem: of_input for problem, of_input in measured.items() if set(problem) == features}
