"""The files that compiler flags pass to a compiler."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import CACHE_ADVICE, write_file


@dataclass(frozen=True)
class FlagFile:
    """A file that a compiler flag passes to the compiler.

    `mark` stands for it in a compiler's options: its name, which is the flag's value in
    configurations, and the first digits of the `sha256` of its content. `path` is the user's file;
    the compiler reads `copy`, which nobody edits.
    """

    mark: str
    path: Path
    sha256: str
    copy: Path

    def require_copy(self) -> None:
        """Copy the file again where somebody has emptied the cache.

        Raises UsageError where its content has changed meanwhile.
        """
        if self.copy.is_file():
            return
        try:
            content = self.path.read_bytes()
        except OSError:
            content = b""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise UsageError(
                f"{self.path} has changed since harness read it, and its copy {self.copy} is gone; "
                "run the command again, and leave the cache as it is meanwhile"
            )
        write_file(self.copy, content, advice=CACHE_ADVICE, parents=True)


def with_copies(options: Iterable[str], files: Iterable[FlagFile]) -> tuple[str, ...]:
    """Return options with the path of its copy in place of each file's mark."""
    words = tuple(options)
    for file in files:
        words = tuple(word.replace(file.mark, str(file.copy)) for word in words)
    return words


def with_marks(output: str, files: Iterable[FlagFile]) -> str:
    """Return a compiler's output with each file's mark in place of its copy's path."""
    for file in files:
        output = output.replace(str(file.copy), file.mark)
    return output
