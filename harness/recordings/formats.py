"""A file of any known format -> Recording."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import RecordingError, UsageError
from harness.core.invocation import command_line
from harness.recordings.csv_file import read_mapped_csv
from harness.recordings.files import FileKind, file_kind, parse_json, read_bounded
from harness.recordings.kernel_tuner import read_cache
from harness.recordings.recording import Recording
from harness.recordings.t4 import read_t4


def read_recordings(paths: Sequence[Path], mapping: Path | None) -> list[Recording]:
    """Read recordings; the mapping is that of the CSV files among them. Raises what
    `read_recording` raises."""
    tables = {path for path in paths if _readable_kind(path) is FileKind.CSV} or set(paths)
    return [read_recording(path.resolve(), mapping if path in tables else None) for path in paths]


def _readable_kind(path: Path) -> FileKind:
    """Return JSON or CSV; raises RecordingError for every other kind of file."""
    kind = file_kind(path)
    if kind is FileKind.DATABASE:
        raise RecordingError(
            f"{path}: is a results database; replay it with its space: {command_line('tune')} "
            f"SPACE --replay {path}; or export it: {command_line('export', str(path))}"
        )
    if kind is FileKind.YAML:
        raise RecordingError(
            f"{path}: is YAML, not a recording. To tune a space: "
            f"{command_line('tune', str(path))}; name a mapping with --mapping"
        )
    return kind


def read_recording(path: Path, mapping: Path | None = None) -> Recording:
    """Read a recording, whose first bytes show its format.

    Raises RecordingError, UsageError for a mapping that is missing or not needed, and SpecError
    for faults of a mapping.
    """
    if _readable_kind(path) is FileKind.CSV:
        return read_mapped_csv(path, mapping)
    if mapping is not None:
        raise UsageError(f"--mapping is for CSV files, and {path} is JSON; leave it out")
    content = read_bounded(path)
    data, digest = parse_json(path, content), hashlib.sha256(content).hexdigest()
    names = data if isinstance(data, dict) else {}
    try:
        if "cache" in names and "tune_params" in names:
            return read_cache(path, data, digest)
        if "results" in names:
            return read_t4(path, data, digest)
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from None
    raise RecordingError(
        f"{path}: is JSON, but neither a Kernel Tuner cache (`tune_params` and `cache`) nor T4 "
        "results (`results`)"
    )
