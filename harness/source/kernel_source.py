"""Kernel source as a compiler will see it: the text, and every file that it includes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.records import Value
from harness.source.conditions import decide
from harness.source.pragmas import is_ours, is_unroll, unroll_names
from harness.source.preprocessor import Directive, scan

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_MAX_SOURCE_BYTES = 4 << 20
_DECIDED = ("if", "elif")


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
        """Whether the word stands in the source or its includes, or names a pragma's loop."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        texts = (self.text, *self.includes.values())
        return word in self._unrolls.values() or any(pattern.search(text) for text in texts)

    def why_fixed(self, word: str) -> str | None:
        """Why a parameter of this name could not be set: an included file, which reaches the
        compiler as it stands, defines it whatever was defined before. None where it can."""
        for path, text in self.includes.items():
            if word not in text or "define" not in text:
                continue
            for directive in scan(text).directives:
                unguarded = directive.is_constant and word not in directive.undefined
                if unguarded and directive.word == word:
                    return (
                        f"{path.name}:{directive.line} defines `{word}` whatever it was before; "
                        f"put that line between `#ifndef {word}` and `#endif`"
                    )
        return None

    def with_macros(self, macros: Mapping[str, Value]) -> str:
        """The source with `#define` lines before it; line numbers stay those of the file.

        Lines, not -D options: nvcc's own headers come before them, so that a parameter may
        be called U or N without breaking those. Where the source itself defines one of them,
        whatever was defined before, the value stands there as well; and its pragmas for us,
        which no compiler knows, become `#pragma unroll`s or empty lines.
        """
        lines = [f"#define {name} {_literal(value)}" for name, value in macros.items()]
        name = self.path.name.replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join([*lines, f'#line 1 "{name}"', self._tuned(macros)])

    @cached_property
    def _directives(self) -> tuple[Directive, ...]:
        return scan(self.text).directives

    @cached_property
    def _unrolls(self) -> Mapping[int, str]:
        """The parameters of unrolled loops, by the offset of their pragma."""
        return unroll_names(self._directives)

    def _tuned(self, macros: Mapping[str, Value]) -> str:
        parts, position = [], 0
        for start, end, text in sorted([*self._edits(macros), *self._ruled_out(macros)]):
            parts += [self.text[position:start], text]
            position = end
        return "".join([*parts, self.text[position:]])

    def _edits(self, macros: Mapping[str, Value]) -> Iterator[tuple[int, int, str]]:
        """What to replace, in order: from where, to where, and by what; as many lines as before."""
        replaces_next = False
        for directive in self._directives:
            lines = "\n" * self.text.count("\n", directive.start, directive.end)
            if is_ours(directive):
                factor = macros.get(self._unrolls.get(directive.start, ""))
                # 0 leaves the choice to the compiler; so does a space without this parameter.
                told = f"#pragma unroll {_literal(factor)}" if factor else ""
                yield directive.start, directive.end, told + lines
                # Between a pragma and what it stands above, constraints may stand.
                waits = directive.word == "constraint" and directive.adjoins and replaces_next
                replaces_next = factor is not None or waits
            elif replaces_next and directive.adjoins and is_unroll(directive):
                yield directive.start, directive.end, lines
            elif directive.is_constant and directive.word in macros:
                replaces_next = False
                if directive.word not in directive.undefined:
                    yield self._value_edit(directive, _literal(macros[directive.word]))
            else:
                replaces_next = False

    def _ruled_out(self, macros: Mapping[str, Value]) -> Iterator[tuple[int, int, str]]:
        """Includes in branches that the parameters alone decide against, as empty lines: of a
        thousand variants, one a file, a build reads one."""
        numbers = {name: int(v) for name, v in macros.items() if isinstance(v, (bool, int))}
        groups: list[tuple[bool | None, bool | None]] = []  # a branch was taken; this one is
        for directive in self._directives:
            holds = decide(directive.text, numbers, {}) if directive.name in _DECIDED else None
            if directive.name in ("if", "ifdef", "ifndef"):
                groups.append((holds, holds))
            elif directive.name in ("elif", "else") and groups:
                taken, _ = groups[-1]
                holds = True if directive.name == "else" else holds
                live = holds if taken is False else (False if taken else None)
                groups[-1] = (live if taken is False else taken, live)
            elif directive.name == "endif" and groups:
                groups.pop()
            elif directive.name == "include" and any(live is False for _, live in groups):
                yield directive.start, directive.end, ""

    def _value_edit(self, directive: Directive, literal: str) -> tuple[int, int, str]:
        """Put a value into a `#define`, up to a comment behind it."""
        head, *body = directive.operands
        if not body:
            return head.end, head.end, f" {literal}"
        start, end = body[0].start, body[-1].end
        return start, end, literal + "\\\n" * self.text.count("\n", start, end)


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
