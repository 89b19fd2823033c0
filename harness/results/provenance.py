"""Where measurements come from: the versions of a kernel, and the space's file. An edited kernel is
measured anew, beside its earlier versions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection

from harness.core.text import command_line, counted, escaped, first_few
from harness.results.campaigns import StoredCampaign, measured_campaigns
from harness.results.url import sqlite_path


@dataclass(frozen=True)
class KernelVersion:
    """One version of a kernel in one environment, with the number of its measurements and the time
    of the last one, ISO 8601 in UTC; `changed` names what differs from the present version."""

    program_sha256: str
    measurements: int
    last_at: str
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        last = self.last_at[:16].replace("T", " ")
        measurements = counted(self.measurements, "measurement")
        return f"{self.program_sha256[:8]} ({measurements}, last {last} UTC)"


def kernel_versions(
    connection: Connection,
    stored: Sequence[StoredCampaign],
    space: str,
    fingerprint: str,
    present: Mapping[str, str],
) -> list[KernelVersion]:
    """Return the versions of a space's kernel that were measured in an environment, last measured
    first; `stored` are all campaigns, and `present` the parts of the present version.

    Raises ResultsError where the database is damaged.
    """
    versions: dict[str, KernelVersion] = {}
    same = (c for c in stored if (c.space_name, c.key.fingerprint) == (space, fingerprint))
    for campaign, count, last_at in measured_campaigns(connection, same):
        program = campaign.key.program_sha256
        so_far = versions.get(program, KernelVersion(program, 0, ""))
        total, last_at = so_far.measurements + count, max(so_far.last_at, last_at)
        changed = tuple(differing(campaign.program_parts, present))
        versions[program] = KernelVersion(program, total, last_at, changed)
    return sorted(versions.values(), key=lambda version: version.last_at, reverse=True)


def differing(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name the parts of two programs that differ, given the digests of their parts."""
    return [name for name in {**was, **now} if was.get(name) != now.get(name)]


def set_aside_sentence(others: Sequence[KernelVersion], databases: Sequence[str]) -> str:
    """Say which measurements are of other versions of a kernel, and how to see them; empty where
    there are none."""
    if not others:
        return ""
    count = sum(version.measurements for version in others)
    are = "is" if count == 1 else "are"
    changed = list(dict.fromkeys(name for version in others for name in version.changed))
    return (
        f"{first_few(changed, ', ') or 'The kernel'} changed: "
        f"{counted(count, 'measurement')} of another version {are} set aside, "
        f"{first_few(map(str, others))}. To see them: "
        f"{command_line('analyse', *databases, '--all-campaigns')}"
    )


@dataclass(frozen=True)
class TunedSpace:
    """What runs note of their space: the paths of its file as the commands named it, the last one
    first; none of what OpenTuner recorded alone. A space built in Python has its name in angle
    brackets."""

    name: str
    noted: Sequence[str]
    databases: Sequence[str]
    is_tuned: bool = True
    """Whether harness tuned it. Otherwise there is only a record, to which tuning adds nothing."""

    @property
    def is_in_python(self) -> bool:
        """Whether the last space was built in Python, so that there is no file."""
        return bool(self.noted) and Path(self.noted[0]).name.startswith("<")

    @property
    def is_recording(self) -> bool:
        """Whether the last space was made of a recording, so that there is no file of a space."""
        return bool(self.noted) and not self.is_in_python and not _is_yaml(self.noted[0])

    @property
    def file(self) -> str:
        """The path of the file as the last command named it, which may not be there."""
        return escaped(self.noted[0]) if self.noted else f"spaces/{self.name}.yaml"

    @property
    def place(self) -> str:
        """Where `tune_again` runs, for a sentence; empty where it runs here."""
        if not self.is_tuned:
            return f"after writing a space for {escaped(self.name)}"
        if self.is_in_python:
            return "in Python"
        return "" if self.path else "in the folder where you tuned"

    @cached_property
    def path(self) -> Path | None:
        """The file as seen from the current folder; None where it is not found. A relative path is
        also sought from the database's folder and from the one above, for a `results/NAME.db`."""
        noted = self.noted[0] if self.noted else f"spaces/{self.name}.yaml"
        folders = [Path()]
        for database in filter(None, map(sqlite_path, self.databases)):
            folders.append(database.parent)
            if database.parent.name == "results":
                folders.append(database.parent / "..")
        for folder in folders:
            path = Path(os.path.normpath(folder / noted))
            if _is_yaml(path) and os.path.isfile(path):
                return path
        return None


def _is_yaml(path: str | Path) -> bool:
    return Path(path).suffix in (".yaml", ".yml")
