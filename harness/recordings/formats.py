"""A file of any known format -> Recording."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import RecordingError, UsageError
from harness.core.invocation import command_line
from harness.recordings.csv_file import check_mapped_csv, read_mapped_csv
from harness.recordings.files import FileKind, file_kind, parse_json, read_bounded
from harness.recordings.kernel_tuner import read_cache
from harness.recordings.recording import Recording
from harness.recordings.t4 import read_t4


@dataclass(frozen=True)
class RecordingFile:
    """A file that holds a recording, with its mapping if that is not next to it."""

    path: Path
    mapping: Path | None = None

    def read(self) -> Recording:
        """Read the recording; raises what `read_recording` raises."""
        return read_recording(self.path, self.mapping)


def recording_files(paths: Sequence[Path], mapping: Path | None) -> list[RecordingFile]:
    """Check each file, and give the CSV files among them this mapping.

    Raises UsageError for a mapping without a CSV file, and what `read_recording` raises, as far as
    the first bytes and the mapping show it.
    """
    tables = [path for path in paths if _readable_kind(path) is FileKind.CSV]
    if mapping is not None and not tables:
        json_files = ", ".join(map(str, paths)) + (" is JSON" if len(paths) == 1 else " are JSON")
        raise UsageError(f"--mapping is for CSV files, and {json_files}; leave it out")
    for path in tables:
        check_mapped_csv(path.resolve(), mapping)
    return [RecordingFile(path.resolve(), mapping if path in tables else None) for path in paths]


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
    data, is_interrupted = parse_json(path, content)
    digest, names = hashlib.sha256(content).hexdigest(), data if isinstance(data, dict) else {}
    try:
        if "cache" in names and "tune_params" in names:
            return read_cache(path, data, digest, is_interrupted)
        if "results" in names and not is_interrupted:
            return read_t4(path, data, digest)
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from None
    raise RecordingError(
        f"{path}: is JSON, but neither a Kernel Tuner cache (`tune_params` and `cache`) nor T4 "
        "results (`results`)"
    )
