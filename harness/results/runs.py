"""Read the campaigns of a database, their runs and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Connection, Table

from harness.core.records import Config, Environment, Input, Statistic, Value
from harness.results import schema
from harness.results.columns import MeasurementRows
from harness.results.notes import Notes, last_moment
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_rows, referred, refusing_damage
from harness.results.rows import environment_of
from harness.results.sessions import Command, command_of
from harness.space_file.flag_files import file_name


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign as stored: comparable measurements of one space, and how to describe them."""

    key: CampaignKey
    space_name: str
    title: str
    environment: Environment
    default: Config
    roles: Mapping[str, str]
    constraints: tuple[str, ...] = ()
    baselines: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By name, the values that differ from the default."""
    statistic: Statistic = Statistic.MEDIAN
    """By what the last run compared configurations. Raw samples are kept, so all are read so."""
    files: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """By flag that passes files to the compiler, its values in the last run."""


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


def campaigns(
    connection: Connection, runs: Sequence[PlacedRow] | None = None
) -> list[StoredCampaign]:
    """Return every campaign of a database, the one that was worked on last first.

    Spaces that share a program have a campaign each, with the same key. `runs` are those of
    `placed_runs`, so that they are not read again.

    Raises ResultsError where the database is damaged.
    """
    runs = placed_runs(connection) if runs is None else runs
    found: dict[tuple[CampaignKey, str], StoredCampaign] = {}
    with refusing_damage(connection):
        moments = [(last_moment(run.row), run.row["id"]) for run in runs]
        for index in sorted(range(len(runs)), key=moments.__getitem__, reverse=True):
            run = runs[index]
            name = run.space["name"]
            if (run.key, name) not in found:
                found[run.key, name] = _campaign(run)
    return list(found.values())


def placed_runs(connection: Connection) -> list[PlacedRow]:
    """Return the runs of a database in the order of their ids.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        return list(placed(partial(read_rows, connection), schema.runs))


@dataclass(frozen=True)
class PlacedRow:
    """A run or a command, with its space and its environment."""

    row: Row
    space: Row
    environment: Row

    @property
    def key(self) -> CampaignKey:
        """The key of its campaign."""
        program, fingerprint = self.space["program_sha256"], self.environment["fingerprint"]
        return CampaignKey(program, fingerprint, self.row["campaign"])


def placed(rows_of: Callable[[Table], Iterable[Row]], table: Table) -> Iterator[PlacedRow]:
    """Yield the runs or commands of a database in the order of their ids."""
    spaces = {row["id"]: row for row in rows_of(schema.spaces)}
    environments = {row["id"]: row for row in rows_of(schema.environments)}
    for row in rows_of(table):
        space = referred("spaces", spaces, row["space_id"])
        environment = referred("environments", environments, row["environment_id"])
        yield PlacedRow(row, space, environment)


def _rows_of(rows: Iterable[PlacedRow], key: CampaignKey, space: str) -> Iterator[Row]:
    for found in rows:
        if found.key == key and found.space["name"] == space:
            yield found.row


def _campaign(run: PlacedRow) -> StoredCampaign:
    space, parameters = run.space, run.space["parameters"]
    notes: Notes = run.row["notes"]
    return StoredCampaign(
        run.key,
        space["name"],
        space["title"],
        environment_of(run.environment),
        Config({name: p["default"] for name, p in parameters.items()}),
        {name: p["role"] for name, p in parameters.items()},
        tuple(space["constraints"]),
        notes.get("baselines", {}),
        notes.get("statistic", Statistic.MEDIAN),
        {name: p["values"] for name, p in parameters.items() if _are_files(p["values"])},
    )


def _are_files(values: object) -> bool:
    return isinstance(values, list) and any(file_name(value) for value in values)


def read_campaign(
    connection: Connection,
    campaign: StoredCampaign,
    builds: bool = True,
    runs: Sequence[PlacedRow] | None = None,
) -> tuple[MeasurementRows, tuple[Run, ...], tuple[Command, ...]]:
    """Return the measurements, runs and commands of a campaign, oldest first.

    Without `builds`, measurements lack theirs. `runs` of `placed_runs` are not read again.

    Raises ResultsError where the database is damaged.
    """
    key, name = campaign.key, campaign.space_name
    rows = read_measurements(connection, key, space=name, builds=builds)
    return (
        rows,
        tuple(read_runs(connection, key, name, runs, rows.columns.inputs.values)),
        tuple(read_commands(connection, key, name)),
    )


def read_runs(
    connection: Connection,
    key: CampaignKey,
    space: str,
    runs: Sequence[PlacedRow] | None = None,
    known: Iterable[Input] = (),
) -> list[Run]:
    """Return the runs of a campaign and a space, in the order in which they began.

    Of inputs that are `known`, runs have these objects, so that each is in memory once.

    Raises ResultsError where the database is damaged.
    """
    runs = placed_runs(connection) if runs is None else runs
    same = {one: one for one in known}
    with refusing_damage(connection):
        rows = read_rows(connection, schema.inputs)
        pairs = ((row["id"], Input(row["features"])) for row in rows)
        inputs = {row_id: same.get(one, one) for row_id, one in pairs}
        return [
            _run(row, referred("inputs", inputs, row["input_id"]))
            for row in _rows_of(runs, key, space)
        ]


def read_commands(connection: Connection, key: CampaignKey, space: str) -> list[Command]:
    """Return the commands of a campaign and a space, in the order in which they began.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        commands = placed(partial(read_rows, connection), schema.commands)
        rows = _rows_of(commands, key, space)
        return [command_of(row) for row in rows]


def _run(row: Row, problem: Input) -> Run:
    return Run(
        row["uuid"],
        problem,
        row["technique"],
        row["seed"],
        row["test_limit"],
        row["started_at"],
        last_moment(row),
        row["state"],
        row["notes"],
    )
