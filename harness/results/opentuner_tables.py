"""OpenTuner's own tables, as OpenTuner 0.8.8 makes them (opentuner/resultsdb/models.py).

`harness.search` writes them through OpenTuner. Here they are plain tables: whoever reads them needs
no OpenTuner, and the pickles in them stay bytes. `tests/results/test_opentuner_tables.py` compares
them with OpenTuner's.
"""

from __future__ import annotations

from typing import Any

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

metadata = MetaData()


def _table(name: str, *columns: Column[Any]) -> Table:
    return Table(name, metadata, *columns, Column("id", Integer, primary_key=True, index=True))


def _to(name: str, table: Table, *, index: bool = False) -> Column[Any]:
    return Column(name, ForeignKey(table.c.id), index=index or None)


def _name(name: str = "name") -> Column[Any]:
    return Column(name, String(128))


meta = _table("_meta", _name("db_version"))
program = _table("program", _name("project"), _name())
program_version = _table(
    "program_version",
    _to("program_id", program),
    _name("version"),
    Column("parameter_info", Text),
)
configuration = _table(
    "configuration",
    _to("program_id", program),
    Column("hash", String(64)),
    Column("data", LargeBinary),  # a pickle
)
Index("ix_configuration_custom1", configuration.c.program_id, configuration.c.hash)
machine_class = _table("machine_class", _name())
machine = _table(
    "machine",
    _name(),
    _name("cpu"),
    Column("cores", Integer),
    Column("memory_gb", Float),
    _to("machine_class_id", machine_class),
)
input_class = _table("input_class", _to("program_id", program), _name(), Column("size", Integer))
input_ = _table(
    "input",
    _to("input_class_id", input_class),
    Column("path", Text),
    Column("extra", LargeBinary),  # a pickle
)
tuning_run = _table(
    "tuning_run",
    Column("uuid", String(32), index=True, unique=True),
    _to("program_version_id", program_version),
    _to("machine_class_id", machine_class),
    _to("input_class_id", input_class),
    _name(),
    Column("args", LargeBinary),  # a pickle
    Column("objective", LargeBinary),  # a pickle
    Column("state", Enum("QUEUED", "RUNNING", "COMPLETE", "ABORTED", name="t_tr_state")),
    Column("start_date", DateTime),
    Column("end_date", DateTime),
    _to("final_config_id", configuration),
)
result = _table(
    "result",
    _to("configuration_id", configuration),
    _to("machine_id", machine),
    _to("input_id", input_),
    _to("tuning_run_id", tuning_run, index=True),
    Column("collection_date", DateTime),
    Column("collection_cost", Float),
    Column("state", Enum("OK", "TIMEOUT", "ERROR", name="t_result_state")),
    Column("time", Float),
    Column("accuracy", Float),
    Column("energy", Float),
    Column("size", Float),
    Column("confidence", Float),
    Column("was_new_best", Boolean),
)
Index("ix_result_custom1", result.c.tuning_run_id, result.c.was_new_best)
desired_result = _table(
    "desired_result",
    _to("configuration_id", configuration),
    Column("limit", Float),
    Column("priority", Float),
    _to("tuning_run_id", tuning_run),
    Column("generation", Integer),
    _name("requestor"),
    Column("request_date", DateTime),
    Column(
        "state",
        Enum("UNKNOWN", "REQUESTED", "RUNNING", "COMPLETE", "ABORTED", name="t_dr_state"),
    ),
    _to("result_id", result, index=True),
    Column("start_date", DateTime),
)
Index("ix_desired_result_custom1", desired_result.c.tuning_run_id, desired_result.c.generation)
Index(
    "ix_desired_result_custom2", desired_result.c.tuning_run_id, desired_result.c.configuration_id
)
bandit_info = _table(
    "bandit_info", _to("tuning_run_id", tuning_run), Column("c", Float), Column("window", Integer)
)
bandit_sub_technique = _table("bandit_sub_technique", _to("bandit_info_id", bandit_info), _name())

DB_VERSION = "0.0"
"""What `_meta` holds."""
