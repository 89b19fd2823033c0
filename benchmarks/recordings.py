"""Read each recording once for all searches of a process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.recordings.files import FileKind, file_kind
from harness.recordings.recording import Recording
from harness.recordings.replay import read_recording


@dataclass(frozen=True)
class RecordingFile:
    """A file that holds a recording, with its mapping if that is not next to it."""

    path: Path
    mapping: Path | None = None


def recording_files(paths: Sequence[Path], mapping: Path | None) -> list[RecordingFile]:
    """Give the CSV files among these files the mapping."""
    is_table = {path: file_kind(path) is FileKind.CSV for path in paths}
    return [RecordingFile(path.resolve(), mapping if is_table[path] else None) for path in paths]


@functools.cache
def recorded(source: RecordingFile) -> Recording:
    """Read a recording, or return the one that was read before."""
    return read_recording(source.path, source.mapping)
