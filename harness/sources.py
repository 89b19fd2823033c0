"""Kernel source as a compiler will see it: the text, and every file that it includes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.records import Value

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_MAX_SOURCE_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """A kernel's source file, read once; `includes` maps quoted includes to their text."""

    path: Path
    text: str
    includes: Mapping[Path, str]

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """Where the compiler must look so that it finds what was read: absolute paths."""
        return (os.path.abspath(self.path.parent),)

    def mentions(self, word: str) -> bool:
        """Whether the word stands anywhere in the source or its includes."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return any(pattern.search(text) for text in (self.text, *self.includes.values()))

    def with_macros(self, macros: Mapping[str, Value]) -> str:
        """The source with `#define` lines before it; line numbers stay those of the file.

        Lines, not -D options: nvcc's own headers come before them, so that a parameter may
        be called U or N without breaking those.
        """
        lines = [f"#define {name} {_literal(value)}" for name, value in macros.items()]
        name = self.path.name.replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join([*lines, f'#line 1 "{name}"', self.text])


def _literal(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def read_source(path: Path) -> Source:
    """Read a source and, recursively, what it includes in quotes from beside itself.

    Raises OSError for a file that cannot be read, ValueError for one that is no text.
    """
    text = read_text(path)
    includes: dict[Path, str] = {}
    waiting = [(path, text)]
    while waiting:
        including, content = waiting.pop()
        for included in _included(including, content, path.parent):
            if included not in includes and not _is_same(included, path):
                includes[included] = read_text(included)
                waiting.append((included, includes[included]))
    return Source(path, text, dict(sorted(includes.items())))


def _included(including: Path, content: str, folder: Path) -> Iterator[Path]:
    """The files that a text includes: from beside itself, else from the source's folder.

    Others belong to the compiler, or to the branch of another language.
    """
    for name in _INCLUDE.findall(content):
        for place in (including.parent / name, folder / name):
            if place.is_file():
                yield Path(os.path.realpath(place))
                break


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def read_text(path: Path, max_bytes: int = _MAX_SOURCE_BYTES) -> str:
    """The UTF-8 text of a file, its lines ended by a newline.

    Only regular files are opened: a pipe or a device might never end. Raises OSError for a
    file that cannot be read, ValueError, which says what is wrong, for one that is no text.
    """
    if "\0" in str(path):
        raise ValueError("is no file's name")
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a regular file")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"is longer than {max_bytes:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"is not UTF-8 text (line {line}, byte {error.start})") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
