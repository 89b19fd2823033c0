"""A file of any known format -> Recorded; and the Spec that stands for it, without a kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.backends.replay import Recording
from harness.errors import RecordingError, UsageError
from harness.recordings.files import decoded, read_bounded
from harness.recordings.kernel_tuner import is_cache, parse_cache, read_cache
from harness.recordings.mapped_csv import read_mapped_csv
from harness.recordings.recorded import Recorded
from harness.recordings.t4 import is_t4, read_t4
from harness.records import Environment
from harness.spec import Spec
from harness.spec.model import Measure, Search, Verify

_SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True)
class Source:
    """A file to read a recording from, with its mapping if that does not stand beside it."""

    path: Path
    mapping: Path | None = None

    def read(self) -> Recorded:
        """As `read_recorded`."""
        return read_recorded(self.path, self.mapping)


def sources(paths: Sequence[Path], mapping: Path | None) -> list[Source]:
    """Files of which those that are CSV have this mapping; raises UsageError where none is, and
    RecordingError for what cannot be read."""
    found = [Source(path.resolve(), None if _is_json(path) else mapping) for path in paths]
    if mapping is not None and not any(source.mapping for source in found):
        told = ", ".join(map(str, paths)) + (" is JSON" if len(paths) == 1 else " are JSON")
        raise UsageError(f"--mapping is for CSV files, and {told}; leave it out")
    return found


def _is_json(path: Path) -> bool:
    return _begins_json(read_bounded(path))


def _begins_json(content: bytes) -> bool:
    return content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read_recorded(path: Path, mapping: Path | None = None) -> Recorded:
    """Read a recording; what it is shows in its first characters.

    Raises RecordingError, UsageError for a mapping where none is needed, and SpecError for a
    mapping with faults.
    """
    content = read_bounded(path)
    if content.startswith(_SQLITE_HEADER):
        raise RecordingError(
            f"{path}: is a results database; replay it with its space: python -m harness.tune "
            f"SPACE --backend replay --recording {path}; or export it with python -m harness.export"
        )
    if not _begins_json(content):
        return read_mapped_csv(path, mapping)
    if mapping is not None:
        raise UsageError(f"--mapping is for CSV files, and {path} is JSON; leave it out")
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


def recorded_spec(recorded: Recorded) -> Spec:
    """A spec without kernel, host module and constraints: nothing can be built from it."""
    return Spec(
        path=recorded.path,
        name=recorded.name,
        title=recorded.title,
        functions=(recorded.title,),
        sources={},
        host=recorded.path,
        parameters=recorded.parameters,
        constraints=(),
        launch=None,
        features=recorded.features,
        inputs=tuple(recorded.tables),
        verify=Verify(),
        measure=Measure(),
        search=Search(),
        host_text=recorded.sha256,  # the program is the file: other content, other measurements
    )


def recording_of(recorded: Recorded) -> Recording:
    """What a ReplayMeasurer serves."""
    driver = f"recording {recorded.sha256[:12]}"
    told = Environment("replay", recorded.device, recorded.kind, driver, compiler="recorded")
    return Recording(told, recorded.measurements)
