"""The plain tables next to OpenTuner's: readable by any SQL client, one row a fact.

OpenTuner's tables (program, tuning_run, configuration, result, desired_result, ...) are the
record of the search; it pickles configurations and has no room for samples, reasons, builds
or the environment. Our tables have. `tests` joins the two: OpenTuner's result.id and the
measurement that answered it. Times are seconds, sizes bytes, dates ISO 8601 in UTC.

`VERSION` becomes another number with every change of a table, and of a word that a column may hold:
a database of another version is refused.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 11

metadata = MetaData()


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Integer, primary_key=True),
)

# The process that writes, or was killed while writing; empty after an orderly end. On a PostgreSQL
# server, a row for each campaign that is written; the id is the number of its lock.
writers = Table(
    "writers",
    metadata,
    _id(),
    Column("pid", Integer, nullable=False),
    Column("host", String(255), nullable=False),
    Column("command", Text, nullable=False),
    Column("since", String(32), nullable=False),
)

environments = Table(
    "environments",
    metadata,
    _id(),
    Column("fingerprint", String(64), nullable=False, unique=True),
    Column("backend", String(32), nullable=False),
    Column("device", Text, nullable=False),
    Column("platform", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("cache", String(8), nullable=False),
)

spaces = Table(
    "spaces",
    metadata,
    _id(),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("program_sha256", String(64), nullable=False, index=True),
    Column("name", String(128), nullable=False),
    Column("title", Text, nullable=False),
    Column("parameters", JSON, nullable=False),  # name -> kind, role, default, values
    Column("constraints", JSON, nullable=False),
)

inputs = Table(
    "inputs",
    metadata,
    _id(),
    Column("space_name", String(128), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("features", JSON, nullable=False),
    UniqueConstraint("digest", "space_name"),
)

configurations = Table(
    "configurations",
    metadata,
    _id(),
    Column("digest", String(64), nullable=False, unique=True),
    Column("parameters", JSON, nullable=False),
)

commands = Table(  # one tuning command of one space in one environment
    "commands",
    metadata,
    _id(),
    Column("uuid", String(32), nullable=False, unique=True),
    Column("space_id", ForeignKey("spaces.id"), nullable=False),
    Column("environment_id", ForeignKey("environments.id"), nullable=False),
    Column("campaign", Integer, nullable=False),
    Column("started_at", String(32), nullable=False),
    Column(
        "ended_at", String(32)
    ),  # null while the command runs, and where it was stopped or killed
    Column("inputs", JSON, nullable=False),  # all that were asked for: a list of features
    # Known at the end. left_out: the inputs that were not measured, or not to the end, each with
    # the reason. stages: by stage after the search what the stage left out, empty for nothing.
    Column("left_out", JSON, nullable=False),
    Column("stages", JSON, nullable=False),
    # The words that the user typed after `tune`, without passwords; none in Python.
    Column("arguments", JSON(none_as_null=True)),
    Index("ix_commands_campaign", "space_id", "environment_id", "campaign"),
)

runs = Table(  # one search of one space on one input in one environment
    "runs",
    metadata,
    _id(),
    Column("uuid", String(32), nullable=False, unique=True),
    Column("tuning_run_id", Integer),  # OpenTuner's tuning_run.id; null: no search
    Column("space_id", ForeignKey("spaces.id"), nullable=False),
    Column("environment_id", ForeignKey("environments.id"), nullable=False),
    Column("input_id", ForeignKey("inputs.id"), nullable=False),
    Column("campaign", Integer, nullable=False),  # --fresh begins the next one
    Column("label", Text, nullable=False),
    Column("technique", Text, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("parallelism", Integer, nullable=False),  # proposals a generation
    Column("test_limit", Integer, nullable=False),
    Column("state", String(16), nullable=False),  # running, complete, interrupted
    Column("started_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("harness_version", String(32), nullable=False),
    Column("seeds", JSON, nullable=False),  # where the search started: a list of configurations
    Column("notes", JSON, nullable=False),  # host, processor, Python, revision, load
    Index("ix_runs_campaign", "space_id", "environment_id", "campaign", "input_id"),
)

builds = Table(
    "builds",
    metadata,
    _id(),
    Column("environment_id", ForeignKey("environments.id"), nullable=False),
    Column("key", String(64), nullable=False),
    Column("configuration_id", ForeignKey("configurations.id"), nullable=False),
    Column("options", Text, nullable=False),
    Column("compiler", Text, nullable=False),
    Column("compile_s", Float(53), nullable=False),
    Column("binary_sha256", String(64)),
    Column("registers", Integer),
    Column("shared_bytes", Integer),
    Column("spill_bytes", Integer),
    Column("log", Text, nullable=False),
    UniqueConstraint("environment_id", "key"),
)

measurements = Table(
    "measurements",
    metadata,
    _id(),
    Column("uuid", String(32), nullable=False, unique=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("input_id", ForeignKey("inputs.id"), nullable=False),
    Column("configuration_id", ForeignKey("configurations.id"), nullable=False),
    Column("build_id", ForeignKey("builds.id")),
    Column("stage", String(16), nullable=False),  # see harness.results.cells
    Column("outcome", String(16), nullable=False),
    Column("median_s", Float(53)),  # null unless the outcome is ok; so are the next four
    Column("mean_s", Float(53)),
    Column("std_s", Float(53)),
    Column("sample_count", Integer),
    Column("stopped", String(16)),
    Column("message", Text, nullable=False),
    Column("worst_element", JSON(none_as_null=True)),  # NaN and infinities as text
    Column("warmup_s", JSON, nullable=False),
    Column("wall_s", Float(53), nullable=False),
    Column("measured_at", String(32), nullable=False),
    Column("turn", String(32)),  # interleaved measurements share it; null for others
    # The parameters that the host module read; null where that is not known.
    Column("host_read", JSON(none_as_null=True)),
    # The digest of the configuration that was measured instead of this one, since both have the
    # same machine code and launch; null where this one was measured.
    Column("shared_with", String(64)),
    # The number of samples of each occasion, in order (see harness.core.records.Timing); null where
    # the samples were not split into occasions.
    Column("occasions", JSON(none_as_null=True)),
    Index("ix_measurements_run", "run_id"),
    Index("ix_measurements_input", "input_id", "configuration_id"),
)

samples = Table(
    "samples",
    metadata,
    Column("measurement_id", ForeignKey("measurements.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("time_s", Float(53), nullable=False),
    sqlite_with_rowid=False,  # half the size
)

observations = Table(  # other numbers that were found while a configuration was built or run
    "observations",
    metadata,
    _id(),
    Column("measurement_id", ForeignKey("measurements.id"), nullable=False),
    Column("name", String(64), nullable=False),  # such as occupancy; a name ends in its unit
    Column("value", Float(53), nullable=False),
    UniqueConstraint("measurement_id", "name"),
)

tests = Table(  # OpenTuner's result.id -> the measurement that answered it
    "tests",
    metadata,
    _id(),
    Column("result_id", Integer),  # OpenTuner's result.id; null if it is not here
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("measurement_id", ForeignKey("measurements.id"), nullable=False),
    Column("ordinal", Integer, nullable=False),  # 0-based order in the run
    # The technique that asked. `unmeasured`, or a name that ends in `(uniform)`, is a uniform draw
    # among the configurations that were not measured yet.
    Column("requestor", Text, nullable=False),
    UniqueConstraint("run_id", "ordinal"),
    Index("ix_tests_result", "result_id"),
)
