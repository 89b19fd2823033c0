"""A file of any known format -> Recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import RecordingError, UsageError
from harness.recordings.files import Kind, decoded, kind_of_file, read_bounded
from harness.recordings.kernel_tuner import is_cache, parse_cache, read_cache
from harness.recordings.mapped_csv import check_mapped_csv, read_mapped_csv
from harness.recordings.recorded import Recorded
from harness.recordings.t4 import is_t4, read_t4


@dataclass(frozen=True)
class Source:
    """A file to read a recording from, with its mapping if that does not stand beside it."""

    path: Path
    mapping: Path | None = None

    def check(self) -> None:
        """Raise what `read` raises, as far as the file's beginning and its mapping tell it."""
        if _kind_of(self.path) is Kind.CSV:
            check_mapped_csv(self.path, self.mapping)

    def read(self) -> Recorded:
        """As `read_recorded`."""
        return read_recorded(self.path, self.mapping)


def sources(paths: Sequence[Path], mapping: Path | None) -> list[Source]:
    """Files of which those that are CSV have this mapping; each of them is checked.

    Raises UsageError for a mapping that none of them needs, and what `Source.check` raises.
    """
    needing = [path for path in paths if _kind_of(path) is Kind.CSV]
    if mapping is not None and not needing:
        told = ", ".join(map(str, paths)) + (" is JSON" if len(paths) == 1 else " are JSON")
        raise UsageError(f"--mapping is for CSV files, and {told}; leave it out")
    found = [Source(path.resolve(), mapping if path in needing else None) for path in paths]
    for source in found:
        source.check()
    return found


def _kind_of(path: Path) -> Kind:
    """JSON or CSV; raises RecordingError for what is no recording of another tuner."""
    kind = kind_of_file(path)
    if kind is Kind.DATABASE:
        raise RecordingError(
            f"{path}: is a results database; replay it with its space: python -m harness.tune "
            f"SPACE --backend replay --recording {path}; or export it with python -m harness.export"
        )
    if kind is Kind.YAML:
        raise RecordingError(
            f"{path}: is YAML, as spaces and mappings are, and no recording; a space is tuned "
            f"by python -m harness.tune {path}, a mapping stands after --mapping"
        )
    return kind


def read_recorded(path: Path, mapping: Path | None = None) -> Recorded:
    """Read a recording; what it is shows in its first characters.

    Raises RecordingError, UsageError for a mapping that is missing or not needed, and SpecError
    for one with faults.
    """
    if _kind_of(path) is Kind.CSV:
        return read_mapped_csv(path, mapping)
    if mapping is not None:
        raise UsageError(f"--mapping is for CSV files, and {path} is JSON; leave it out")
    content = read_bounded(path)
    data, notes = parse_cache(path, decoded(path, content))
    digest = hashlib.sha256(content).hexdigest()
    if is_cache(data):
        return read_cache(path, data, digest, notes)
    if is_t4(data) and not notes:
        return read_t4(path, data, digest)
    raise RecordingError(
        f"{path}: is JSON, but neither a Kernel Tuner cache (`tune_params` and `cache`) nor T4 "
        "results (`results`)"
    )
