"""Read kernel source as a compiler sees it: the text and every file that it includes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import Fault, SpecError
from harness.core.records import Value
from harness.source.pragmas import TILE, is_ours, is_unroll, typing_error, unroll_names
from harness.source.preprocessor import Directive, Scan, macros_of, scan, words_of

if TYPE_CHECKING:
    from harness.source.tiling import TiledNest

INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*include\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\S*))', re.MULTILINE
)
"""The file of an include, in quotes or in brackets, or the macro that names it."""
_MAX_SOURCE_BYTES = 4 << 20
_TEMPLATE_NAMES = """
(template_parameter_list [
  (_ . (type_identifier) @name .)
  (_ name: (type_identifier) @name)
  (_ declarator: [(identifier) @name (_ (identifier) @name)])
  (_ (type_parameter_declaration (type_identifier) @name))
  (_ (optional_type_parameter_declaration name: (type_identifier) @name))])
"""


@dataclass(frozen=True)
class Source:
    """A kernel's source file, read once; `includes` maps included files to their text.

    `folders` are searched for included files after the source's own folder.
    """

    path: Path
    text: str
    includes: Mapping[Path, str]
    folders: tuple[Path, ...] = ()

    @property
    def _texts(self) -> tuple[str, ...]:
        return (self.text, *self.includes.values())

    @cached_property
    def template_names(self) -> frozenset[str]:
        """The names of template parameters in the source and its included files."""
        texts = [text for text in self._texts if "template" in text]
        if not texts:
            return frozenset()
        # The parser is loaded for sources that need it alone.
        from harness.source.syntax_tree import captured, prepare, text_of

        trees = (prepare(text, ".cu").parsed() for text in texts)
        return frozenset(text_of(n) for tree in trees for _, n in captured(_TEMPLATE_NAMES, tree))

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """The absolute paths of the folders in which the compiler finds the same includes."""
        return tuple(os.path.abspath(folder) for folder in (self.path.parent, *self.folders))

    def mentions(self, word: str) -> bool:
        """Whether a word occurs in the source or its includes, or names the loop of a pragma."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return word in self._unrolls.values() or any(map(pattern.search, self._texts))

    def uses(self, word: str) -> bool:
        """Whether the value of a macro can matter: its name stands in live code, in a macro of
        another name, in a condition or in a pragma. Its own `#define`, comments, and conditions on
        whether it is defined do not count."""
        if not self.mentions(word):
            return False
        if word in self._unrolls.values() or _uses(self._scan, word):
            return True
        return any(word in text and _uses(scan(text), word) for text in self.includes.values())

    def defines(self, word: str) -> bool:
        """Whether the source or an included file has a `#define` of this name."""
        return word in macros_of(d for text in self._texts for d in scan(text).directives)

    def why_fixed(self, word: str) -> str | None:
        """Return why a parameter of this name cannot be set; None where it can.

        Included files reach the compiler unchanged, so none may define the name unguarded.
        """
        for path, text in self.includes.items():
            if word not in text or "define" not in text:
                continue
            for directive in scan(text).directives:
                unguarded = directive.is_constant and word not in directive.undefined
                if unguarded and directive.word == word:
                    return (
                        f"{path.name}:{directive.line} always defines `{word}`; "
                        f"put that line between `#ifndef {word}` and `#endif`"
                    )
        return None

    def with_macros(self, macros: Mapping[str, Value]) -> str:
        """Return the source after `#define` lines; line numbers stay those of the file.

        These are lines and not -D options, because nvcc's own headers come before them: so a
        parameter may be called U or N. Where the source itself defines a macro unguarded, the
        value is replaced there too. Our pragmas, which compilers do not know, become
        `#pragma unroll`s, loops over tiles or empty lines. Raises SpecError for loops that cannot
        be tiled.
        """
        name = self.path.name.replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join([*macro_lines(macros), f'#line 1 "{name}"', self._tuned(macros)])

    @cached_property
    def nests(self) -> tuple[TiledNest, ...]:
        """The loops below each `#pragma tile`; raises SpecError for those that cannot be tiled."""
        if not any(is_ours(d) and d.word == TILE for d in self._directives):
            return ()
        from harness.source.tiling import read_nests

        return read_nests(self.path, self.text, self.includes.values())

    def pragma_faults(self) -> tuple[Fault, ...]:
        """Return the pragmas that resemble one of ours, which compilers would ignore, and what
        prevents the loops below each `#pragma tile` from being tiled."""
        texts = [(directive.line, typing_error(directive)) for directive in self._directives]
        misspelt = tuple(Fault(str(self.path), line, text) for line, text in texts if text)
        try:
            _ = self.nests
        except SpecError as error:
            return (*misspelt, *error.faults)
        return misspelt

    @cached_property
    def _scan(self) -> Scan:
        return scan(self.text)

    @property
    def _directives(self) -> tuple[Directive, ...]:
        return self._scan.directives

    @cached_property
    def _unrolls(self) -> Mapping[int, str]:
        """The parameters of unrolled loops, by the offset of the pragma."""
        return unroll_names(self._directives)

    def _tuned(self, macros: Mapping[str, Value]) -> str:
        parts, position = [], 0
        edits = [*self._edits(macros), *self._ruled_out(macros)]
        edits += (edit for nest in self.nests for edit in nest.edits(self.text, macros))
        for start, end, text in sorted(edits):
            parts += [self.text[position:start], text]
            position = end
        return "".join([*parts, self.text[position:]])

    def _edits(self, macros: Mapping[str, Value]) -> Iterator[tuple[int, int, str]]:
        """Yield the replacements in order: start, end and new text of as many lines."""
        replaces_next = False
        tiles = {nest.start: nest.head(macros) for nest in self.nests}
        for directive in self._directives:
            lines = "\n" * self.text.count("\n", directive.start, directive.end)
            if is_ours(directive):
                factor = macros.get(self._unrolls.get(directive.start, ""))
                # With 0, or without this parameter, the compiler chooses.
                pragma = f"#pragma unroll {_literal(factor)}" if factor else ""
                new = tiles.get(directive.start, pragma)
                yield directive.start, directive.end, new + lines
                # Constraints may be between a pragma and the line that it applies to.
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
        """Yield empty lines for includes in branches that the parameters' values rule out: of a
        thousand variants, one a file, a build then reads one."""
        includes = [d for d in self._directives if d.name == "include"]
        live = self._scan.live_offsets(macros) if includes else ()
        return ((d.start, d.end, "") for d in includes if d.start not in live)

    def _value_edit(self, directive: Directive, literal: str) -> tuple[int, int, str]:
        """Replace the value of a `#define`, up to a comment after it."""
        head, *body = directive.operands
        if not body:
            return head.end, head.end, f" {literal}"
        start, end = body[0].start, body[-1].end
        return start, end, literal + "\\\n" * self.text.count("\n", start, end)


def _uses(scan: Scan, word: str) -> bool:
    values = (token for directive in scan.directives for token in directive.valued_operands)
    return word in words_of(scan.code) or word in words_of(values)


def macro_lines(macros: Mapping[str, Value]) -> list[str]:
    """Return the lines that define macros."""
    return [f"#define {name} {_literal(value)}" for name, value in macros.items()]


def _literal(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def read_source(path: Path, folders: tuple[Path, ...] = ()) -> Source:
    """Read a source and, recursively, the files that it includes in quotes, or from the folders.

    Raises OSError for a file that cannot be read, ValueError for one that is not text.
    """
    text = read_text(path)
    return Source(path, text, included_texts(path, text, folders, read_text), folders)


def included_texts(
    path: Path,
    text: str,
    folders: tuple[Path, ...],
    read: Callable[[Path], str],
    left_out: Path | None = None,
) -> dict[Path, str]:
    """Return the files that a text includes, recursively and in whatever branch, and their texts;
    without those below the folder `left_out`."""
    includes: dict[Path, str] = {}
    own, waiting = Path(os.path.realpath(path)), [(path, text)]
    while waiting:
        including, content = waiting.pop()
        for include in INCLUDE.finditer(content):
            included = find_include(include, including, (path.parent, *folders))
            if included is None or included in includes or included == own:
                continue
            if left_out is None or not included.is_relative_to(left_out):
                includes[included] = read(included)
                waiting.append((included, includes[included]))
    return dict(sorted(includes.items()))


def find_include(
    include: re.Match[str], including: Path | None, folders: Iterable[Path]
) -> Path | None:
    """Return the file of a match of INCLUDE, with links resolved.

    It is searched as compilers do: in quotes first in the folder of the including file, then in
    both spellings in the folders. None where it is not there: it belongs to the compiler, or to a
    branch for another language.
    """
    near = (including.parent,) if include[1] and including else ()
    paths = (folder / (include[1] or include[2] or "") for folder in (*near, *folders))
    there = next((path for path in paths if path.is_file()), None)
    return None if there is None else Path(os.path.realpath(there))


def read_text(path: Path, max_bytes: int = _MAX_SOURCE_BYTES) -> str:
    """Read a UTF-8 file; every line of the result ends in a plain newline.

    Raises OSError for a file that cannot be read, ValueError with the reason for one that is not
    text.
    """
    content = read_bytes(path, max_bytes)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"is not UTF-8 text (line {line}, byte {error.start})") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a regular file: a pipe or a device may never end.

    Raises OSError for a file that cannot be read, ValueError with the reason for another.
    """
    if "\0" in str(path):
        raise ValueError("is not a file name")
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a regular file")
    # Some files of /proc, such as kmsg, would keep a reader waiting for ever.
    with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
        content: bytes | None = file.read(max_bytes + 1)
    if content is None:
        raise ValueError("has no content yet")
    if len(content) > max_bytes:
        raise ValueError(f"is longer than {max_bytes:,} bytes")
    return content
