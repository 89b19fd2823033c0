"""Reduce a source to the text that matters to the compiler, to find equal sources.

Where a hash of the machine code costs a second compilation, as on PoCL, this is the cheap
substitute. The compiler's own macros are unknown here, so conditions that name them keep all their
branches. Sources with equal live text are equal for the compiler; sources with different live text
may be equal, too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Set
from typing import Any, NoReturn

from pcpp import Action, OutputDirective, Preprocessor

# Other spellings of # and of \, raw strings, saved macros and what depends on the line: all this
# pcpp reads as the compiler does not, or not at all.
_UNCLEAR = re.compile(r'%:|\?\?[=/]|R"|p(?:ush|op)_macro|__(?:LINE|FILE|COUNTER|DATE|TIME)__')
_STRING_PRAGMA = re.compile(r'_Pragma\s*\(\s*"((?:[^"\\]|\\.)*)"')
_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b", re.MULTILINE)
_LINE = re.compile(r"^[ \t]*#[ \t]*line\b.*", re.MULTILINE)


def live_text(text: str) -> str:
    """Return a source with its macros expanded, without comments and the branches that an `#if`
    leaves out, or the whole source where it cannot be reduced safely."""
    if _UNCLEAR.search(text):
        return text
    # Macros in pragmas are expanded by compilers, but not by pcpp.
    source = _PRAGMA.sub("__pragma__ ", _LINE.sub("", _SPLICE.sub("", text)))
    kept: frozenset[str] = frozenset()
    while True:
        reducer, written = _Reducer(kept), io.StringIO()
        try:
            reducer.parse(source)
            reducer.write(written)
        except _UnclearSource:
            return text
        if reducer.kept == kept:
            break
        kept = frozenset(reducer.kept)
    live = "\n".join(filter(None, map(str.strip, written.getvalue().splitlines())))
    in_pragmas = " ".join(_STRING_PRAGMA.findall(live))
    return live if reducer.macros.keys().isdisjoint(re.findall(r"\w+", in_pragmas)) else text


class _UnclearSource(Exception):
    """The source cannot be reduced safely."""


class _Reducer(Preprocessor):  # type: ignore[misc]
    """Keeps a condition on names that the text does not define, with all its branches.

    A macro that is defined in such a branch may have that definition or not. So its definitions
    and its uses stay as they are, and so do the macros in its definitions. They are `kept`, which
    grows while a text is read: the text is right once it has not grown.
    """

    def __init__(self, kept: Set[str]) -> None:
        super().__init__()
        self.line_directive = None
        self.macros.clear()  # dates and pcpp's own name
        self.kept = set(kept)
        self._are_unknown: list[bool] = []  # by open `#if`

    def on_directive_handle(self, directive: Any, words: Any, *others: Any) -> Any:
        """Keep the definitions of macros that may have another one."""
        if directive.value in ("if", "ifdef", "ifndef"):
            self._are_unknown.append(False)
        elif directive.value == "endif" and self._are_unknown:
            self._are_unknown.pop()
        is_definition = directive.value in ("define", "undef") and words
        if is_definition and (any(self._are_unknown) or words[0].value in self.kept):
            self.kept.update(word.value for word in words if word.type == self.t_ID)
            raise OutputDirective(Action.IgnoreAndPassThrough)
        return super().on_directive_handle(directive, words, *others)

    def on_unknown_macro_in_defined_expr(self, name: Any) -> None:
        """Keep the condition."""
        self._are_unknown[-1] = True

    on_unknown_macro_in_expr = on_unknown_macro_function_in_expr = on_unknown_macro_in_defined_expr

    def _give_up(self, *ignored: object) -> NoReturn:
        raise _UnclearSource

    on_error = on_directive_unknown = on_include_not_found = on_file_open = _give_up
