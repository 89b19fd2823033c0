"""Write what a command was asked for, and overwrite only what the same command wrote before."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import check_writable, write_file


@dataclass(frozen=True)
class OutputKind:
    """A kind of file that commands write: its name in messages, and how to recognize one."""

    name: str
    is_own: Callable[[bytes], bool]


def marked(name: str, pattern: bytes) -> OutputKind:
    """Return the kind of all files whose content has the regular expression `pattern`."""
    compiled = re.compile(pattern)
    return OutputKind(name, lambda content: compiled.search(content) is not None)


def check_output(path: Path, kind: OutputKind, option: str) -> None:
    """Raise UsageError where a path names a file that harness would lose: anything but an empty
    file, a device, or an earlier output of this kind; and where no file can be written. `option` is
    the one that names the file.

    Call it before long work as well, so that the work does not end in this error.
    """
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; name another file") from None
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file with {option}")
    if content and not kind.is_own(content):
        raise UsageError(
            f"{path} already exists and is not {kind.name} that harness wrote, so it stays as it "
            f"is. Name another file with {option}, or move this one away"
        )
    check_writable(path, f"name another file with {option}")


def write_output(path: Path, content: str | bytes, kind: OutputKind, option: str) -> None:
    """Write a file whole or not at all; raises what `check_output` and `write_file` raise."""
    check_output(path, kind, option)
    write_file(path, content)
