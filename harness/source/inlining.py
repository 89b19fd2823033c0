"""Replace the includes of OpenCL source by the files' content.

Drivers split build options at spaces, so `-I` cannot name every folder. A binary that is built
again when it is loaded, as on PoCL, must not depend on files that may have changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import BuildFailed
from harness.core.program import Program
from harness.source.kernel_source import INCLUDE, find_include, read_text

_LINE = re.compile(r'[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|//.*|/\*')


def inlined(program: Program) -> str:
    """Return the program's text with includes replaced by the files' content.

    `#line`s keep the files and lines of compiler messages right. Includes are searched as compilers
    do: those in quotes in the folder of the including file, then all in the include folders. An
    include stays as it is where it is not found or would include itself. Raises BuildFailed where
    a file has changed since the program was made.
    """
    folders = tuple(Path(folder) for folder in program.include_dirs)
    return "\n".join(_Inliner(program, folders).lines(program.text, "", ()))


@dataclass(frozen=True)
class _Inliner:
    program: Program
    folders: tuple[Path, ...]

    def lines(self, text: str, name: str, within: tuple[Path, ...]) -> Iterator[str]:
        """Yield the lines of a text called `name`; `within` are the files that include it, and it
        itself, which is the last."""
        in_comment, number = False, 0
        for line in text.split("\n"):
            number += 1
            included = None
            if not in_comment and (moved := _LINE.match(line)):
                number, name = int(moved[1]) - 1, moved[2] or name
            elif not in_comment and (found := INCLUDE.match(line)):
                included = find_include(found, within[-1] if within else None, self.folders)
            if included is None or included in within:
                yield line
            else:
                yield from self._file(included, within)
                yield f'#line {number + 1} "{name}"'
            in_comment = _ends_in_comment(line, in_comment)

    def _file(self, path: Path, within: tuple[Path, ...]) -> Iterator[str]:
        text = self._text(path)
        name = path.name.replace("\\", "\\\\").replace('"', '\\"')
        guard = f"HARNESS_ONCE_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        once = _ONCE.search(text) is not None
        if once:
            # `#pragma once` works by file, and only one file is left.
            yield from (f"#ifndef {guard}", f"#define {guard}")
        yield f'#line 1 "{name}"'
        yield from self.lines(_ONCE.sub("", text), name, (*within, path))
        if once:
            yield "#endif"

    def _text(self, path: Path) -> str:
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            raise BuildFailed(f"{path} cannot be read: {error}") from None
        if text not in self.program.includes and not self.program.text.endswith(text):
            raise BuildFailed(f"{path} has changed since the run began; start the run again")
        return text


def _ends_in_comment(line: str, inside: bool) -> bool:
    """Whether the next line begins inside a /* comment */; `inside` says it of this line."""
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
