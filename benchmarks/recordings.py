"""Read each recording once for all searches of a process."""

from __future__ import annotations

import functools

from harness.recordings.formats import RecordingFile
from harness.recordings.recording import Recording


@functools.cache
def recorded(source: RecordingFile) -> Recording:
    """Read a recording, or return the one that was read before."""
    return source.read()
