"""OpenTuner's tables, as OpenTuner 0.8.8 declares them (opentuner/resultsdb/models.py).

They are the record of every measurement; `harness.results.schema` has the tables that extend them.
The columns that OpenTuner pickles are bytes here, so that no row can run code. Indices of `id`,
which no query uses, are left out: each would be written with every row.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Enum,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

DB_VERSION = "0.0"
"""The version that OpenTuner looks for in `_meta`."""

NO_SIZE = -1
"""The size of an input class that states none."""

metadata = MetaData()


def _table(name: str, *columns: Any) -> Table:
    return Table(name, metadata, Column("id", Integer, primary_key=True), *columns)


def _name(name: str) -> Column[str]:
    return Column(name, String(128))


def _reference(name: str, **options: Any) -> Column[int]:
    return Column(f"{name}_id", ForeignKey(f"{name}.id"), **options)


def _word(name: str, kind: str, *words: str) -> Column[str]:
    return Column(name, Enum(*words, name=kind), info={"shape": Literal[words]})


meta = _table("_meta", _name("db_version"))

program = _table("program", _name("project"), _name("name"))

program_version = _table(
    "program_version",
    _reference("program"),
    _name("version"),
    Column("parameter_info", Text),
)

configuration = _table(
    "configuration",
    _reference("program"),
    Column("hash", String(64)),
    Column("data", LargeBinary),
    Index("ix_configuration_custom1", "program_id", "hash"),
)

machine_class = _table("machine_class", _name("name"))

machine = _table(
    "machine",
    _name("name"),
    _name("cpu"),
    Column("cores", Integer),
    Column("memory_gb", Float),
    _reference("machine_class"),
)

input_class = _table("input_class", _reference("program"), _name("name"), Column("size", Integer))

problem = _table(
    "input", _reference("input_class"), Column("path", Text), Column("extra", LargeBinary)
)

tuning_run = _table(
    "tuning_run",
    Column("uuid", String(32), index=True, unique=True),
    _reference("program_version"),
    _reference("machine_class"),
    _reference("input_class"),
    _name("name"),
    Column("args", LargeBinary),
    Column("objective", LargeBinary),
    _word("state", "t_tr_state", "QUEUED", "RUNNING", "COMPLETE", "ABORTED"),
    Column("start_date", DateTime),
    Column("end_date", DateTime),
    Column("final_config_id", ForeignKey("configuration.id")),
)

result = _table(
    "result",
    _reference("configuration"),
    _reference("machine"),
    _reference("input"),
    _reference("tuning_run", index=True),
    Column("collection_date", DateTime),
    Column("collection_cost", Float),
    _word("state", "t_result_state", "OK", "TIMEOUT", "ERROR"),
    Column("time", Float),
    Column("accuracy", Float),
    Column("energy", Float),
    Column("size", Float),
    Column("confidence", Float),
    Column("was_new_best", Boolean),
    Index("ix_result_custom1", "tuning_run_id", "was_new_best"),
)

desired_result = _table(
    "desired_result",
    _reference("configuration"),
    Column("limit", Float),
    Column("priority", Float),
    _reference("tuning_run"),
    Column("generation", Integer),
    _name("requestor"),
    Column("request_date", DateTime),
    _word("state", "t_dr_state", "UNKNOWN", "REQUESTED", "RUNNING", "COMPLETE", "ABORTED"),
    _reference("result", index=True),
    Column("start_date", DateTime),
    Index("ix_desired_result_custom1", "tuning_run_id", "generation"),
    Index("ix_desired_result_custom2", "tuning_run_id", "configuration_id"),
)

bandit_info = _table(
    "bandit_info", _reference("tuning_run"), Column("c", Float), Column("window", Integer)
)

bandit_sub_technique = _table("bandit_sub_technique", _reference("bandit_info"), _name("name"))

NAMES = tuple(metadata.tables)
