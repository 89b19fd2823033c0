"""Replace the includes of OpenCL source by the files' content.

Drivers split build options at spaces, so `-I` cannot name every folder. A binary that is built
again when it is loaded, as on PoCL, must not depend on files that may have changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import BuildFailed
from harness.core.program import Program
from harness.source.kernel_source import INCLUDE, find_include, read_text
from harness.source.preprocessor import scan


def inlined(program: Program) -> str:
    """Return the program's text with includes replaced by the files' content.

    `#line`s keep the files and lines of compiler messages right. Includes are searched as compilers
    do: those in quotes in the folder of the including file, then all in the include folders. An
    include stays as it is where it is not found or would include itself. Raises BuildFailed where
    a file has changed since the program was made.
    """
    folders = tuple(Path(folder) for folder in program.include_dirs)
    return "".join(_Inliner(program, folders).parts(program.text, "", ()))


@dataclass(frozen=True)
class _Inliner:
    program: Program
    folders: tuple[Path, ...]

    def parts(self, text: str, name: str, within: tuple[Path, ...]) -> Iterator[str]:
        """Yield the parts of a text called `name`; `within` are the files that include it, and it
        itself, which is the last."""
        position = moved_lines = 0
        for directive in scan(text).directives:
            number, *names = directive.text.split(maxsplit=1) or [""]
            if directive.name == "line" and number.isdigit():
                moved_lines = int(number) - directive.line - 1
                name = names[0][1:-1] if names else name
            include = INCLUDE.match(f"#{directive.name} {directive.text}")
            including = within[-1] if within else None
            path = find_include(include, including, self.folders) if include else None
            is_once = directive.name == "pragma" and directive.word == "once"
            if (path and path not in within) or (is_once and within):
                yield text[position : directive.start]
                position = directive.end
                if path:
                    yield from self._file(path, within)
                    yield f'\n#line {directive.line + moved_lines + 1} "{name}"'
        yield text[position:]

    def _file(self, path: Path, within: tuple[Path, ...]) -> Iterator[str]:
        text = self._text(path)
        name = path.name.replace("\\", "\\\\").replace('"', '\\"')
        guard = f"HARNESS_ONCE_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        is_once = any(d.name == "pragma" and d.word == "once" for d in scan(text).directives)
        if is_once:
            # `#pragma once` works by file, and only one file is left.
            yield f"#ifndef {guard}\n#define {guard}\n"
        yield f'#line 1 "{name}"\n'
        yield from self.parts(text, name, (*within, path))
        if is_once:
            yield "\n#endif"

    def _text(self, path: Path) -> str:
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            raise BuildFailed(f"{path} cannot be read: {error}") from None
        if text not in self.program.includes and not self.program.text.endswith(text):
            raise BuildFailed(f"{path} has changed since the run began; start the run again")
        return text
