"""The tables that extend OpenTuner's: readable by any SQL client, one row a fact.

Every measurement is a row of OpenTuner's `result`, with its time, state, date, configuration and
input (`harness.results.stock`). OpenTuner pickles configurations, and has no room for samples,
reasons, builds or the environment. So four of our tables extend rows of OpenTuner's by the same
ids: `configurations` extends `configuration`, `inputs` extends `input`, `runs` extends
`tuning_run`, and `measurements` extends `result`. A row of OpenTuner's that ours do not extend was
written by another program, and is not read. Times are seconds, sizes bytes; dates are UTC.

A database may come from anywhere, and SQLite enforces no types. So a column says what its cells may
be, by the `shape` of a text or of JSON (a type for pydantic). The reader checks them.

`VERSION` becomes another number with every change of a table, and of a word that a column may hold:
a database of another version is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import StringConstraints
from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
)

from harness.core.observations import WorstElement
from harness.core.records import (
    BOOST,
    COLD,
    DEVICE_TIMER,
    HOST_TIMER,
    SUSTAINED,
    WARM,
    Outcome,
    StopReason,
)
from harness.results import stock
from harness.results.notes import (
    Features,
    Line,
    Notes,
    Number,
    StoredParameter,
    Time,
    Values,
    Whole,
)

VERSION = 16

CROSS = "cross"
SEARCHED = ("search", CROSS)
"""The stages of the search, and of measuring configurations across inputs: each once."""

CANDIDATE, CHOICE, FINAL = "candidate", "choice", "final"
"""The interleaved stages: a dispatcher's candidates; an input's finalists, to choose the winner;
and the winner with the default, to judge it."""

ABLATION = "reduced"
"""The stage that measures winners and parts of them, and the note of the result."""

LATER = (CANDIDATE, CHOICE, FINAL, ABLATION)
"""The stages after the search."""

STAGES = (*SEARCHED, *LATER)

metadata = stock.metadata


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _id_of(table: Table) -> Column[int]:
    """Return the id of a table whose rows extend those of one of OpenTuner's."""
    return Column("id", ForeignKey(table.c.id), primary_key=True)


def _required(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _reference(name: str) -> Column[int]:
    return Column(f"{name}_id", ForeignKey(f"{name}s.id"), nullable=False)


def _hex(name: str, digits: int = 64, *, nullable: bool = False, **options: Any) -> Column[str]:
    shape = Annotated[str, StringConstraints(pattern=f"^[0-9a-f]{{{digits}}}$")]
    return Column(name, String(digits), info={"shape": shape}, nullable=nullable, **options)


def _uuid() -> Column[str]:
    return _hex("uuid", 32, unique=True)


def _word(name: str, *words: str, nullable: bool = False) -> Column[str]:
    return Column(name, String(16), info={"shape": Literal[words]}, nullable=nullable)


def _json(name: str, shape: Any, *, nullable: bool = False) -> Column[Any]:
    return Column(name, JSON(none_as_null=nullable), info={"shape": shape}, nullable=nullable)


schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

# The process that writes, or was killed while writing; empty after an orderly end. On a PostgreSQL
# server, a row for each campaign that is written; the id is the number of its lock.
writers = Table(
    "writers",
    metadata,
    _id(),
    _required("pid", Integer),
    _required("host", String(255)),
    _required("command", Text),
    _required("since", String(32)),
)

environments = Table(
    "environments",
    metadata,
    _id(),
    _hex("fingerprint", unique=True),
    _required("backend", String(32)),
    _required("device", Text),
    _required("platform", Text),
    _required("driver", Text),
    _required("compiler", Text),
    _word("cache", WARM, COLD),
    _word("timer", DEVICE_TIMER, HOST_TIMER),
    _word("clock", BOOST, SUSTAINED),
)

spaces = Table(
    "spaces",
    metadata,
    _id(),
    _hex("sha256"),
    _hex("program_sha256", index=True),
    _required("name", String(128)),
    _required("title", Text),
    _json("parameters", dict[str, StoredParameter]),
    _json("constraints", list[str]),
    # Of what `program_sha256` is made: the digest of each key of the space and of each file; none
    # where OpenTuner measured without harness.
    _json("program_parts", dict[Line, Line]),
    UniqueConstraint("sha256", "name"),
)

inputs = Table("inputs", metadata, _id_of(stock.problem), _json("features", Values))

configurations = Table(
    "configurations",
    metadata,
    _id_of(stock.configuration),
    _hex("digest"),
    _json("parameters", Values),
)

commands = Table(  # one tuning command of one space in one environment
    "commands",
    metadata,
    _id(),
    _uuid(),
    _reference("space"),
    _reference("environment"),
    _required("campaign", Integer),
    _required("started_at", String(32)),
    # Null while the command runs, and where it was stopped or killed.
    Column("ended_at", String(32)),
    _json("inputs", list[Features]),  # all that were asked for
    # Known at the end. left_out: the inputs that were not measured, or not to the end, each with
    # the reason. stages: by stage after the search what the stage left out, empty for nothing.
    _json("left_out", list[tuple[Features, Line]]),
    _json("stages", dict[Line, Line]),
    # The words that the user typed after `tune` or `replay`, without passwords; none in Python.
    _json("arguments", list[Line], nullable=True),
    Index("ix_commands_campaign", "space_id", "environment_id", "campaign"),
)

runs = Table(  # one search of one space on one input in one environment, or measurements of it
    "runs",
    metadata,
    _id_of(stock.tuning_run),
    _reference("space"),
    _reference("environment"),
    _reference("input"),
    _required("campaign", Integer),  # --fresh begins the next one
    _required("technique", Text),
    _required("seed", Integer),
    _required("parallelism", Integer),  # proposals a generation
    _required("test_limit", Integer),
    _required("harness_version", String(32)),
    _json("seeds", list[Values]),  # the configurations where the search started
    _json("notes", Notes),
    Index("ix_runs_campaign", "space_id", "environment_id", "campaign", "input_id"),
)

builds = Table(
    "builds",
    metadata,
    _id(),
    _reference("environment"),
    _hex("key"),
    _reference("configuration"),
    _required("options", Text),
    _required("compiler", Text),
    _required("compile_s", Float(53)),
    Column("binary_sha256", String(64)),
    Column("registers", Integer),
    Column("shared_bytes", Integer),
    Column("spill_bytes", Integer),
    _required("log", Text),
    UniqueConstraint("environment_id", "key"),
)

measurements = Table(
    "measurements",
    metadata,
    _id_of(stock.result),
    _uuid(),
    Column("build_id", ForeignKey("builds.id")),
    _word("stage", *STAGES),
    _word("outcome", *(outcome.value for outcome in Outcome)),
    # In order; empty unless the outcome is ok. Their median is the `time` of `result`, or their
    # mean where the space asked for that when it was measured.
    _json("samples_s", tuple[Time, ...]),
    _word("stopped", *(reason.value for reason in StopReason), nullable=True),
    _required("message", Text),
    _json("worst_element", WorstElement, nullable=True),  # NaN and infinities as text
    _json("warmup_s", tuple[Number, ...]),
    # Other numbers that were found, such as occupancy; a name ends in its unit.
    _json("observed", dict[str, Number]),
    Column("group_uuid", String(32)),  # interleaved measurements share it; null for others
    # The parameters that the host module read; null where that is not known.
    _json("host_read", tuple[str, ...], nullable=True),
    # The digest of the configuration that was measured instead of this one, since both have the
    # same machine code and launch; null where this one was measured.
    _hex("shared_with", nullable=True),
    # The number of samples of each occasion, in order (see harness.core.records.Timing); null where
    # the samples were not split into occasions.
    _json("occasions", tuple[Whole, ...], nullable=True),
    # The digest of the arguments that the host module makes of the input for the search; null where
    # there are none, or where they differ each time.
    _hex("data_sha256", nullable=True),
)

EXTENSIONS: Mapping[Table, Table] = {
    stock.configuration: configurations,
    stock.problem: inputs,
    stock.tuning_run: runs,
    stock.result: measurements,
}
"""Our tables by those of OpenTuner's whose rows they extend."""


@cache
def columns_of(table: Table) -> Mapping[str, Column[Any]]:
    """Return the columns of a table by name, with those of the table that extends it."""
    columns = dict(table.columns)
    if table in EXTENSIONS:
        columns = {**EXTENSIONS[table].columns, **columns}
    return columns


def select_extended(table: Table, *columns: Column[Any]) -> Select[Any]:
    """Select columns of a table's rows, of which each is extended where the table is."""
    query = select(*columns).select_from(table)
    return query.join(EXTENSIONS[table]) if table in EXTENSIONS else query


FAILED = ("ERROR",)
STATES: Mapping[str, tuple[str | None, ...]] = {
    Outcome.OK.value: ("OK",),
    Outcome.TIMEOUT.value: ("TIMEOUT",),
    # OpenTuner's programs also give a failure as OK with an infinite time, or without one.
    Outcome.CRASHED.value: ("ERROR", "OK", None),
}
"""The states of `result` that an outcome may have, the first of which harness writes; FAILED are
those of other outcomes."""

OURS = tuple(table for table in metadata.sorted_tables if table.name not in stock.NAMES)
"""The tables that OpenTuner does not have."""


def is_stock(tables: Collection[str]) -> bool:
    """Whether a database with these tables has OpenTuner's, which ours do not extend."""
    return set(stock.NAMES) <= set(tables) and measurements.name not in tables
