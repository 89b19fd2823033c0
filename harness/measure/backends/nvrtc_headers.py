"""Find the header files that NVRTC may read: unlike nvcc, it does not list what it has read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core.program import Program
from harness.source.kernel_source import included_files

_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include\b[ \t]*"
    r'(?:"(?P<quoted>[^"\n]+)"|<(?P<bracketed>[^>\n]+)>|(?P<macro>\S*))',
    re.MULTILINE,
)


def why_untracked(program: Program) -> str | None:
    """Return why the files that NVRTC would read cannot be found; None where they can."""
    option = next((option for option in program.options if "include" in option), None)
    if option is not None:
        return f"the option `{option}` reads a file"
    macro = next((found["macro"] for found in _includes(program) if found["macro"]), None)
    return None if macro is None else f"`#include {macro}` names its file by a macro"


def includes_others(program: Program, folders: Sequence[Path]) -> bool:
    """Say whether a program includes files that are neither in its folders nor in these."""
    searched = (*map(Path, program.include_dirs), *folders)
    names = (found["quoted"] or found["bracketed"] for found in _includes(program))
    return any(not any((f / name).is_file() for f in searched) for name in names if name)


def _includes(program: Program) -> Iterator[re.Match[str]]:
    for text in (program.text, *program.includes):
        yield from _INCLUDE.finditer(text)


def headers(program: Program, toolkit: Sequence[Path], known: Path | None) -> list[str]:
    """Return the files that a program includes, in whatever branch, from its folders and those of
    a toolkit.

    Files below `known`, which the compiler's release stands for, are left out.
    """
    folders = (*map(Path, program.include_dirs), *toolkit)
    if not folders:
        return []
    first, *others = folders
    found: set[Path] = set()
    waiting = [(first / "kernel.cu", program.text)]
    while waiting:
        including, text = waiting.pop()
        for path in included_files(including, text, first, tuple(others)):
            if path in found or (known is not None and path.is_relative_to(known)):
                continue
            found.add(path)
            waiting.append((path, path.read_text(encoding="utf-8", errors="replace")))
    return sorted(map(str, found))
