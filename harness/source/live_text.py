"""Reduce a source to the text that matters to the compiler, to find equal sources.

Where a hash of the machine code costs a second compilation, as on PoCL, this is the cheap
substitute. Macros that no live line names and branches that an `#if` leaves out are dropped. The
compiler's own macros are unknown here, so a condition on anything but whole numbers that the text
defines keeps all its branches. Sources with equal live text are equal for the compiler; sources
with different live text may be equal, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.source.conditions import decide, whole_number
from harness.source.preprocessor import Directive, Scan, Token, scan, spaced

_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_WORD = re.compile(r"\w+")
# Other spellings of # and of \, and raw strings: the text after them would be misread.
_MISREAD = re.compile(r'%:|\?\?[=/]|R"')
# Live lines with these depend on more than their words: pasted names, the line's own number, saved
# definitions.
_OBSCURE = re.compile(r"##|__(?:LINE|FILE|COUNTER)__|p(?:ush|op)_macro")
_IFS = ("if", "ifdef", "ifndef")
_BRANCHES = ("elif", "elifdef", "elifndef", "else", "endif")
_PLAIN = ("pragma", "error", "warning")


def live_text(text: str) -> str:
    """Return the live lines of a source without comments, or the whole source where it cannot be
    reduced safely."""
    if _MISREAD.search(text):
        return text
    reader = _LiveLines()
    # A compiler joins continued lines first, even in the middle of a word.
    for piece in _pieces(scan(_SPLICE.sub("", text))):
        if isinstance(piece, Directive):
            reader.read_directive(piece)
        else:
            reader.read_code(piece)
    live = reader.live_lines()
    return text if reader.is_open_ended or _OBSCURE.search(live) else live


def _pieces(found: Scan) -> Iterator[Directive | Sequence[Token]]:
    """Yield the directives and the code between them, in order."""
    begin = 0
    for directive in found.directives:
        end = bisect_left(found.code, directive.start, key=lambda token: token.start)
        if end > begin:
            yield found.code[begin:end]
        yield directive
        begin = end
    if begin < len(found.code):
        yield found.code[begin:]


@dataclass
class _Group:
    """An `#if` up to its `#endif`: whether an earlier branch was taken, and whether this one is
    live; None where unknown. `is_kept` is True where the `#if` is among the kept lines."""

    taken: bool | None
    live: bool | None
    is_kept: bool = False


class _LiveLines:
    """Collects the live lines of a source; `is_open_ended` after an include or the like."""

    def __init__(self) -> None:
        self.is_open_ended = False
        self._lines: list[tuple[str | None, str]] = []  # the macro that a line defines, the line
        self._numbers: dict[str, int] = {}
        self._defined: dict[str, bool | None] = {}  # None: in a branch that may be taken or not
        self._groups: list[_Group] = []

    def read_code(self, tokens: Sequence[Token]) -> None:
        """Keep code unless it is certainly left out."""
        if self._live is not False:
            self._lines.append((None, spaced(tokens)))

    def read_directive(self, directive: Directive) -> None:
        """Process a directive; an unknown one counts like an include."""
        name = directive.name
        if name in _IFS:
            self._open(directive)
        elif name in _BRANCHES and self._groups:
            self._next_branch(directive)
        elif self._live is False or name == "line":
            return
        elif name in ("define", "undef"):
            self._define(directive)
        elif name in _PLAIN:
            self._lines.append((None, f"#{name} {directive.text}"))
        else:
            self.is_open_ended = True

    def live_lines(self) -> str:
        """Return the kept lines with all definitions that they use, directly or not."""
        definitions: dict[str, list[str]] = {}
        for macro, line in self._lines:
            if macro is not None:
                definitions.setdefault(macro, []).append(line)
        named: set[str] = set()
        waiting = [line for macro, line in self._lines if macro is None]
        while waiting:
            for word in _WORD.findall(waiting.pop()):
                if word not in named:
                    named.add(word)
                    waiting += definitions.get(word, ())
        return "\n".join(line for macro, line in self._lines if macro is None or macro in named)

    # ------------------------------------------------------------ definitions

    def _define(self, directive: Directive) -> None:
        word = directive.word
        self._lines.append((word or None, f"#{directive.name} {directive.text}"))
        self._numbers.pop(word, None)
        if self._live is None:
            self._defined[word] = None
            return
        self._defined[word] = directive.name == "define"
        body = directive.operands[1:]
        number = whole_number(body[0].text) if directive.is_constant and len(body) == 1 else None
        if number is not None and directive.name == "define":
            self._numbers[word] = number

    # ------------------------------------------------------------- conditions

    @property
    def _live(self) -> bool | None:
        """Whether the present position is compiled; None where unknown."""
        lives = [group.live for group in self._groups]
        if False in lives:
            return False
        return None if None in lives else True

    def _open(self, directive: Directive) -> None:
        if self._live is False:
            self._groups.append(_Group(taken=True, live=False))
            return
        holds = self._holds(directive)
        self._groups.append(_Group(taken=holds, live=holds))
        if holds is None:
            self._keep(directive)

    def _next_branch(self, directive: Directive) -> None:
        """Go on to the next branch, or past the `#endif`."""
        group = self._groups[-1]
        if directive.name == "endif":
            self._groups.pop()
            if group.is_kept:
                self._lines.append((None, "#endif"))
            return
        if group.taken is True:
            group.live = False
            return
        holds = True if directive.name == "else" else self._holds(directive)
        group.live = holds if group.taken is False or holds is False else None
        group.taken = holds or (group.taken if holds is False else None)
        if group.live is None:
            self._keep(directive)

    def _holds(self, directive: Directive) -> bool | None:
        if directive.name in ("if", "elif"):
            return decide(directive.text, self._numbers, self._defined)
        is_defined = self._defined.get(directive.word)
        return None if is_defined is None else is_defined is directive.name.endswith("ifdef")

    def _keep(self, directive: Directive) -> None:
        """Keep a condition; the first one kept of a group becomes its `#if`."""
        group = self._groups[-1]
        begins = "elif" if group.is_kept else "if"
        group.is_kept = True
        self._lines.append((None, f"#{begins} {directive.name} {directive.text}"))
