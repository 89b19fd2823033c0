"""The versions of a kernel in a database: an edited one is measured anew, beside earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from harness.core.errors import UsageError
from harness.core.invocation import command_line
from harness.core.text import counted, first_few
from harness.results.campaigns import StoredCampaign, measured_campaigns

NEWEST = "newest"
"""Of each space and environment, the version of the kernel that was tuned last."""

EVERY = "all"
"""All versions of each kernel."""

_SHOWN = 8  # characters of a digest


@dataclass(frozen=True)
class KernelVersion:
    """One version of a kernel in one environment, with the number of its measurements and the time
    of the last one, ISO 8601 in UTC."""

    program_sha256: str
    measurements: int
    last_at: str

    @property
    def name(self) -> str:
        """What `--kernel-version` takes."""
        return self.program_sha256[:_SHOWN]

    def __str__(self) -> str:
        last = self.last_at[:16].replace("T", " ")
        return f"{self.name} ({counted(self.measurements, 'measurement')}, last {last} UTC)"


def kernel_versions(
    connection: Connection, stored: Sequence[StoredCampaign], space: str, fingerprint: str
) -> list[KernelVersion]:
    """Return the versions of a space's kernel that were measured in an environment, last measured
    first; `stored` are all campaigns.

    Raises ResultsError where the database is damaged.
    """
    versions: dict[str, KernelVersion] = {}
    same = (c for c in stored if (c.space_name, c.key.fingerprint) == (space, fingerprint))
    for campaign, count, last_at in measured_campaigns(connection, same):
        program = campaign.key.program_sha256
        so_far = versions.get(program, KernelVersion(program, 0, ""))
        total, last_at = so_far.measurements + count, max(so_far.last_at, last_at)
        versions[program] = KernelVersion(program, total, last_at)
    return sorted(versions.values(), key=lambda version: version.last_at, reverse=True)


def of_version(campaigns: Sequence[StoredCampaign], version: str) -> list[StoredCampaign]:
    """Select the campaigns of a version: NEWEST, EVERY, or the first characters of its digest.

    The first campaign is the one that was worked on last. Raises UsageError where there is no such
    version.
    """
    if version == EVERY or not campaigns:
        return list(campaigns)
    newest: dict[tuple[str, str], str] = {}
    for campaign in campaigns:
        newest.setdefault(_place(campaign), campaign.key.program_sha256)
    if version == NEWEST:
        return [c for c in campaigns if c.key.program_sha256 == newest[_place(c)]]
    chosen = [c for c in campaigns if c.key.program_sha256.startswith(version)]
    if not chosen:
        names = dict.fromkeys(c.key.program_sha256[:_SHOWN] for c in campaigns)
        raise UsageError(
            f"--kernel-version {version}: no such version; there are {', '.join(names)}, "
            f"{NEWEST} and {EVERY}"
        )
    return chosen


def _place(campaign: StoredCampaign) -> tuple[str, str]:
    return campaign.space_name, campaign.key.fingerprint


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
