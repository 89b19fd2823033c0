"""The plain tables beside OpenTuner's: readable by any SQL client, one row a fact.

OpenTuner's tables (program, tuning_run, configuration, result, desired_result, ...) are the
record of the search; it pickles configurations and has no room for samples, reasons, builds
or the environment. These have. `tests` ties the two together: OpenTuner's result.id to the
measurement that answered it. Times are seconds, sizes bytes, dates ISO 8601 in UTC.

History of the schema, newest last:
    1   first release
    2   observations; older databases gain the empty table when they are next written to
    3   measurements.host_read and .shared_with; older databases likewise gain them, all null
    4   commands; older databases likewise gain the empty table
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

VERSION = 5  # 5: the stage `candidate`

TABLES_SINCE = {"observations": 2, "commands": 4}
"""The version that brought a table; the others are of the first."""

COLUMNS_SINCE = {("measurements", "host_read"): 3, ("measurements", "shared_with"): 3}
"""The version that brought a column of an older table; all of them may be null."""

metadata = MetaData()


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Integer, primary_key=True),
)

writers = Table(  # who writes, or wrote when it was killed; empty after an orderly end
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
    Column("ended_at", String(32)),  # null while it goes on, and where it was stopped or killed
    Column("inputs", JSON, nullable=False),  # all that it was asked for: a list of features
    # Known when it has ended: inputs that it did not measure, or not to the end, each with the
    # reason; and by stage after the search what that left out, empty where nothing.
    Column("left_out", JSON, nullable=False),
    Column("stages", JSON, nullable=False),
    Index("ix_commands_campaign", "space_id", "environment_id", "campaign"),
)

runs = Table(  # one search of one space on one input in one environment
    "runs",
    metadata,
    _id(),
    Column("uuid", String(32), nullable=False, unique=True),
    Column("tuning_run_id", Integer),  # OpenTuner's tuning_run.id; null in a merged database
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
    Column("compile_s", Float, nullable=False),
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
    Column("stage", String(16), nullable=False),  # see harness.results.read
    Column("outcome", String(16), nullable=False),
    Column("median_s", Float),  # null unless the outcome is ok; so are the next four
    Column("mean_s", Float),
    Column("std_s", Float),
    Column("sample_count", Integer),
    Column("stopped", String(16)),
    Column("message", Text, nullable=False),
    Column("worst_element", JSON(none_as_null=True)),  # NaN and infinities as text
    Column("warmup_s", JSON, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("measured_at", String(32), nullable=False),
    Column("turn", String(32)),  # what was sampled in turn shares it; null for the others
    # The parameters that the host module asked for; null where that is not known.
    Column("host_read", JSON(none_as_null=True)),
    # The digest of the configuration that was measured in place of this one, since both have the
    # same machine code and launch; null for what was measured itself.
    Column("shared_with", String(64)),
    Index("ix_measurements_run", "run_id"),
    Index("ix_measurements_input", "input_id", "configuration_id"),
)

samples = Table(
    "samples",
    metadata,
    Column("measurement_id", ForeignKey("measurements.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("time_s", Float, nullable=False),
    sqlite_with_rowid=False,  # half the size
)

observations = Table(  # what else was found while a configuration was built or run
    "observations",
    metadata,
    _id(),
    Column("measurement_id", ForeignKey("measurements.id"), nullable=False),
    Column("name", String(64), nullable=False),  # such as occupancy; units stand in names
    Column("value", Float, nullable=False),
    UniqueConstraint("measurement_id", "name"),
)

tests = Table(  # OpenTuner's result.id -> the measurement that answered it
    "tests",
    metadata,
    _id(),
    Column("result_id", Integer),  # OpenTuner's result.id; null in a merged database
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("measurement_id", ForeignKey("measurements.id"), nullable=False),
    Column("ordinal", Integer, nullable=False),  # 0-based order in the run
    # The technique that asked. `unmeasured`, and a name with `(uniform)` after it: a uniform draw
    # among what was not measured.
    Column("requestor", Text, nullable=False),
    UniqueConstraint("run_id", "ordinal"),
    Index("ix_tests_result", "result_id"),
)
