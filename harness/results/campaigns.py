"""The campaigns of a database, with their runs and commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, Table, func, select

from harness.core.records import ENVIRONMENT_FIELDS, Config, Environment, Input, Statistic, Value
from harness.core.text import printable
from harness.results import schema
from harness.results.columns import MeasurementRows
from harness.results.notes import Notes, last_moment
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import Row, read_rows, referred, refusing_damage
from harness.space_file import Spec
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
    """The words that the user typed after `tune`, without passwords; none in Python."""


LEFT_OUT = "left out: "
"""The prefix of the reason for an input whose data cannot be made or whose default fails."""


def stored_runs(connection: Connection) -> list[Row]:
    """Return the rows of a database's runs, each with that of its `space` and its `environment`.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        return list(with_space(partial(read_rows, connection), schema.runs))


def measured_runs(
    connection: Connection, runs: Sequence[Row] | None = None
) -> Iterator[tuple[Row, int, str]]:
    """Yield each run that has measurements, as `stored_runs` does, with their number and the time
    of the last one, ISO 8601 in UTC.

    Raises ResultsError where the database is damaged.
    """
    runs, table = stored_runs(connection) if runs is None else runs, schema.measurements
    # An index answers this alone. The time of each measurement would take a read of all their rows.
    count, last = func.count().label("count"), func.max(table.c.id).label("last")
    by_run = select(table.c.run_id, count, last).group_by(table.c.run_id).subquery()
    of_last = by_run.join(table, table.c.id == by_run.c.last)
    query = select(by_run.c.run_id, by_run.c.count, table.c.measured_at).select_from(of_last)
    with refusing_damage(connection):
        measured = {run_id: (number, at) for run_id, number, at in connection.execute(query)}
        for run in runs:
            if run["id"] in measured:
                number, at = measured[run["id"]]
                datetime.fromisoformat(at)  # nobody has checked it
                yield run, number, at


def with_space(rows_of: Callable[[Table], Iterable[Row]], table: Table) -> Iterator[Row]:
    """Yield the rows of runs or commands in the order of their ids, each with that of its `space`
    and its `environment`."""
    spaces, environments = (
        {row["id"]: row for row in rows_of(table)} for table in (schema.spaces, schema.environments)
    )
    for row in rows_of(table):
        space = referred("spaces", spaces, row["space_id"])
        environment = referred("environments", environments, row["environment_id"])
        yield {**row, "space": space, "environment": environment}


def campaigns(connection: Connection, runs: Sequence[Row] | None = None) -> list[StoredCampaign]:
    """Return every campaign of a database, the one that was worked on last first.

    Spaces that share a program have a campaign each, with the same key. `runs` are those of
    `stored_runs`, so that they are not read again.

    Raises ResultsError where the database is damaged.
    """
    runs = stored_runs(connection) if runs is None else runs
    found: dict[tuple[CampaignKey, str], StoredCampaign] = {}
    for run in sorted(runs, key=lambda run: (last_moment(run), run["id"]), reverse=True):
        key, name = _key(run), run["space"]["name"]
        if (key, name) not in found:
            found[key, name] = _campaign(run)
    return list(found.values())


def _key(row: Row) -> CampaignKey:
    program, fingerprint = row["space"]["program_sha256"], row["environment"]["fingerprint"]
    return CampaignKey(program, fingerprint, row["campaign"])


def _campaign(run: Row) -> StoredCampaign:
    space, parameters = run["space"], run["space"]["parameters"]
    notes: Notes = run["notes"]
    return StoredCampaign(
        _key(run),
        space["name"],
        space["title"],
        Environment(**{name: run["environment"][name] for name in ENVIRONMENT_FIELDS}),
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
    runs: Sequence[Row] | None = None,
) -> tuple[MeasurementRows, tuple[Run, ...], tuple[Command, ...]]:
    """Return the measurements, runs and commands of a campaign, oldest first.

    Without `builds`, measurements lack theirs. `runs` of `stored_runs` are not read again.

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
    runs: Sequence[Row] | None = None,
    known: Iterable[Input] = (),
) -> list[Run]:
    """Return the runs of a campaign and a space, in the order in which they began.

    Of inputs that are `known`, runs have these objects, so that each is in memory once.

    Raises ResultsError where the database is damaged.
    """
    runs = stored_runs(connection) if runs is None else runs
    same = {one: one for one in known}
    with refusing_damage(connection):
        rows = read_rows(connection, schema.inputs)
        pairs = ((row["id"], Input(row["features"])) for row in rows)
        inputs = {row_id: same.get(one, one) for row_id, one in pairs}
        return [
            Run(
                row["uuid"],
                referred("inputs", inputs, row["input_id"]),
                row["technique"],
                row["seed"],
                row["test_limit"],
                row["started_at"],
                last_moment(row),
                row["state"],
                row["notes"],
            )
            for row in _of_space(runs, key, space)
        ]


def read_commands(connection: Connection, key: CampaignKey, space: str) -> list[Command]:
    """Return the commands of a campaign and a space, in the order in which they began.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        rows = with_space(partial(read_rows, connection), schema.commands)
        return [
            Command(
                row["uuid"],
                tuple(map(Input, row["inputs"])),
                row["started_at"],
                row["ended_at"],
                {Input(features): why for features, why in row["left_out"]},
                row["stages"],
                tuple(row["arguments"] or ()),
            )
            for row in _of_space(rows, key, space)
        ]


def _of_space(rows: Iterable[Row], key: CampaignKey, space: str) -> Iterator[Row]:
    return (row for row in rows if _key(row) == key and row["space"]["name"] == space)


# ------------------------------------------------------------------------- other names


def other_names(spaces: Iterable[Row], target: Connection, programs: Collection[str]) -> list[str]:
    """Say which spaces of these programs the target knows under another name: spaces of equal
    program and parameters are one."""
    query = select(schema.spaces.c.sha256, schema.spaces.c.name)
    known = {row.sha256: row.name for row in target.execute(query)}
    own = [(s["name"], known[s["sha256"]]) for s in spaces if s["program_sha256"] in programs]
    return [_other_name(name, there) for name, there in own if name != there]


def other_name(connection: Connection, spec: Spec) -> str | None:
    """Say under which other name a database knows a space; None where it is its own."""
    query = select(schema.spaces.c.name).where(schema.spaces.c.sha256 == spec.space_sha256)
    name = connection.execute(query).scalar()
    return None if name in (None, spec.name) else _other_name(spec.name, name)


def _other_name(name: str, known: str) -> str:
    return (
        f"the space `{printable(name)}` is there as `{printable(known)}`, with equal program and "
        f"parameters: its measurements count as those of `{printable(known)}`"
    )
