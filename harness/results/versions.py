"""The versions of a kernel in a database: an edited one is measured anew, beside earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Integer, cast, func, select

from harness.core.errors import UsageError
from harness.core.invocation import command_line
from harness.core.text import counted, first_few
from harness.results import schema
from harness.results.campaigns import StoredCampaign
from harness.results.reader import refusing_damage

NEWEST = "newest"
"""Of each space and environment, the version of the kernel that was tuned last."""

EVERY = "all"
"""All versions of each kernel."""

_SHOWN = 8  # characters of a digest


@dataclass(frozen=True)
class KernelVersion:
    """One version of a kernel in one environment, with the number of its measurements and the time
    of the last one, ISO 8601 in UTC."""

    space_name: str
    program_sha256: str
    fingerprint: str
    measurements: int
    last_at: str

    @property
    def name(self) -> str:
        """What `--kernel-version` takes."""
        return self.program_sha256[:_SHOWN]

    def __str__(self) -> str:
        last = self.last_at[:16].replace("T", " ")
        return f"{self.name} ({counted(self.measurements, 'measurement')}, last {last} UTC)"


def kernel_versions(connection: Connection) -> list[KernelVersion]:
    """Return the versions of a database's kernels that have measurements, last measured first.

    Raises ResultsError where the database is damaged.
    """
    spaces, environments, measurements = schema.spaces, schema.environments, schema.measurements
    columns = (spaces.c.name, spaces.c.program_sha256, environments.c.fingerprint)
    # An index answers this alone. The time of each measurement would take a read of all their rows.
    of_run = (
        select(
            measurements.c.run_id,
            func.count().label("count"),
            func.max(measurements.c.id).label("last"),
        )
        .group_by(measurements.c.run_id)
        .subquery()
    )
    last_at = func.max(measurements.c.measured_at)
    query = (
        select(*columns, cast(func.sum(of_run.c.count), Integer), last_at)
        .select_from(of_run.join(measurements, measurements.c.id == of_run.c.last))
        .join(schema.runs, schema.runs.c.id == of_run.c.run_id)
        .join(spaces)
        .join(environments)
        .group_by(*columns)
        .order_by(last_at.desc())
    )
    with refusing_damage(connection):
        found = [KernelVersion(*row) for row in connection.execute(query)]
        for version in found:  # whose measurements nobody has checked
            datetime.fromisoformat(version.last_at)
    return found


def other_versions(
    connection: Connection, space: str, program_sha256: str, fingerprint: str
) -> tuple[KernelVersion, ...]:
    """Return the other versions of a kernel in an environment, last measured first."""
    return tuple(
        version
        for version in kernel_versions(connection)
        if (version.space_name, version.fingerprint) == (space, fingerprint)
        and version.program_sha256 != program_sha256
    )


def of_version(found: Sequence[StoredCampaign], version: str) -> list[StoredCampaign]:
    """Keep the campaigns of a version: NEWEST, EVERY, or the first characters of its digest.

    `found` begins with the campaign that was worked on last. Raises UsageError where there is no
    such version.
    """
    if version == EVERY or not found:
        return list(found)
    if version == NEWEST:
        newest: dict[tuple[str, str], str] = {}
        for one in found:
            newest.setdefault((one.space_name, one.key.fingerprint), one.key.program_sha256)
        kept = [
            one
            for one in found
            if newest[one.space_name, one.key.fingerprint] == one.key.program_sha256
        ]
    else:
        kept = [one for one in found if one.key.program_sha256.startswith(version)]
    if not kept:
        names = dict.fromkeys(one.key.program_sha256[:_SHOWN] for one in found)
        raise UsageError(
            f"--kernel-version {version}: no such version; there are {', '.join(names)}, "
            f"{NEWEST} and {EVERY}"
        )
    return kept


def set_aside_lines(others: Sequence[KernelVersion], databases: Sequence[str]) -> Iterator[str]:
    """Say which measurements are of other versions of a kernel, and how to see or drop them."""
    if not others:
        return
    count = sum(version.measurements for version in others)
    are = "is" if count == 1 else "are"
    yield (
        "The kernel, its host module, launch or verification changed: "
        f"{counted(count, 'measurement')} of another version {are} set aside, "
        f"{first_few(map(str, others))}. To see one: "
        f"{command_line('analyse', *databases, '--kernel-version', others[0].name)}"
    )
    yield (
        "To drop them, copy the others to a new database: "
        f"{command_line('merge', 'NEW.db', *databases, '--kernel-version', NEWEST)}"
    )
