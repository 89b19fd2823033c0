"""OpenCL source with the files that it includes written into it.

Drivers split build options at spaces, so that `-I` cannot name every folder; and a binary that
is built again when it is loaded, as on PoCL, must not depend on files that may have changed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import BuildFailed
from harness.core.program import Program
from harness.source.kernel_source import read_text

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"]+)"')
_LINE = re.compile(r'[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|//.*|/\*')


def inlined(program: Program) -> str:
    """The program's text, its quoted includes replaced by their content, with `#line`s so that
    the compiler's messages still name file and line.

    Includes are looked for as compilers do, beside the including file and then in the
    include folders. One that is not found, or is being included already, stays as it is.
    Raises BuildFailed where a file is no longer the one that the program was made from.
    """
    folders = tuple(Path(folder) for folder in program.include_dirs)
    return "\n".join(_Inliner(program, folders).lines(program.text, "", (), ()))


@dataclass(frozen=True)
class _Inliner:
    program: Program
    folders: tuple[Path, ...]

    def lines(
        self, text: str, name: str, beside: tuple[Path, ...], within: tuple[Path, ...]
    ) -> Iterator[str]:
        """The lines of a text called `name`; `within` are the files that include it."""
        in_comment, number = False, 0
        for line in text.split("\n"):
            number += 1
            included = None
            if not in_comment and (told := _LINE.match(line)):
                number, name = int(told[1]) - 1, told[2] or name
            elif not in_comment and (found := _INCLUDE.match(line)):
                included = self._find(found[1], beside, within)
            if included is None:
                yield line
            else:
                yield from self._file(included, within)
                yield f'#line {number + 1} "{name}"'
            in_comment = _ends_in_comment(line, in_comment)

    def _find(self, name: str, beside: tuple[Path, ...], within: tuple[Path, ...]) -> Path | None:
        for folder in (*beside, *self.folders):
            if (folder / name).is_file():
                path = Path(os.path.realpath(folder / name))
                return None if path in within else path
        return None

    def _file(self, path: Path, within: tuple[Path, ...]) -> Iterator[str]:
        text = self._text(path)
        name = path.name.replace("\\", "\\\\").replace('"', '\\"')
        guard = f"HARNESS_ONCE_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        once = _ONCE.search(text) is not None
        if once:
            # `#pragma once` speaks of files, and there is but one left.
            yield from (f"#ifndef {guard}", f"#define {guard}")
        yield f'#line 1 "{name}"'
        yield from self.lines(_ONCE.sub("", text), name, (path.parent,), (*within, path))
        if once:
            yield "#endif"

    def _text(self, path: Path) -> str:
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            raise BuildFailed(f"{path} cannot be read: {error}") from None
        if text not in self.program.includes and not self.program.text.endswith(text):
            raise BuildFailed(f"{path} has changed since the run began; begin it again")
        return text


def _ends_in_comment(line: str, inside: bool) -> bool:
    """Whether the next line begins within a /* comment */, if this one does or does not."""
    position = 0
    while True:
        if inside:
            end = line.find("*/", position)
            if end < 0:
                return True
            inside, position = False, end + 2
        found = _COMMENT_OR_TEXT.search(line, position)
        if found is None:
            return False
        inside, position = found[0] == "/*", found.end()
