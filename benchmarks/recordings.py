"""Recordings that many searches of a process need are read once."""

from __future__ import annotations

import functools

from harness.recordings.read import RecordingFile
from harness.recordings.recording import Recording


@functools.cache
def recorded(source: RecordingFile) -> Recording:
    """The recording of a file, as `RecordingFile.read`."""
    return source.read()
