"""The fields of a process's status, as Linux states them in /proc/PID/stat."""

from __future__ import annotations

from pathlib import Path

STATE, PARENT, SESSION = 0, 1, 3
"""Positions of fields: a letter, such as `T` for stopped and `Z` for ended; and two ids."""


def status_field(pid: int, field: int) -> str | None:
    """Return a field of a process's status; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may contain anything: the fields follow the last bracket.
    return stat.rpartition(")")[2].split()[field]
