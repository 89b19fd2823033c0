"""Files that the programs under test can find, but not read."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.core.errors import HostModuleError

_DIGEST_BYTES = 32


@dataclass(frozen=True)
class SealedFile:
    """A file with a reference's output, which no program can copy instead of computing it.

    A random key, which is only in the memory of harness, changes every byte.
    """

    path: Path
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    def write_bytes(self, content: bytes) -> None:
        """Write the content; raises OSError."""
        self.path.write_bytes(self._digest(content) + self._changed(content))

    def read_bytes(self) -> bytes:
        """Return the content; raises OSError, and HostModuleError where somebody changed it."""
        try:
            found = self.path.read_bytes()
        except FileNotFoundError:
            found = b""
        content = self._changed(found[_DIGEST_BYTES:])
        if not hmac.compare_digest(found[:_DIGEST_BYTES], self._digest(content)):
            raise HostModuleError(
                f"{self.path}: somebody changed or removed this file, which holds the output of "
                "the default; one of the programs may have done so"
            )
        return content

    def _digest(self, content: bytes) -> bytes:
        return hmac.digest(self.key, content, "sha256")

    def _changed(self, content: bytes) -> bytes:
        stream = hashlib.shake_256(self.key).digest(len(content))
        both = np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8)
        return bytes(both)
