"""Recordings that many searches of a process need are read once."""

from __future__ import annotations

import functools

from harness.recordings.read import Source
from harness.recordings.recorded import Recorded


@functools.cache
def recorded(source: Source) -> Recorded:
    """The recording of a file, as `Source.read`."""
    return source.read()
