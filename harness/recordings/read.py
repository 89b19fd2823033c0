"""A file of any known format -> Recorded; and the Spec that stands for it, without a kernel."""

from __future__ import annotations

import hashlib
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
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
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
