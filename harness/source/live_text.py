"""Reduce a source to the text that matters to the compiler, to find equal sources.

Where a hash of the machine code costs a second compilation, as on PoCL, this is the cheap
substitute. The compiler's own macros are unknown here, so conditions that name them keep all their
branches. Sources with equal live text are equal for the compiler; sources with different live text
may be equal, too.
"""

from __future__ import annotations

import io
import re
from typing import Any, NoReturn

from pcpp import Preprocessor

# Other spellings of # and of \, raw strings, pragmas as strings and what depends on the line: all
# this pcpp reads as the compiler does not, or not at all.
_UNCLEAR = re.compile(
    r'%:|\?\?[=/]|R"|_Pragma|p(?:ush|op)_macro|__(?:LINE|FILE|COUNTER|DATE|TIME)__'
)
_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma\b", re.MULTILINE)


def live_text(text: str) -> str:
    """Return a source with its macros expanded, without comments and the branches that an `#if`
    leaves out, or the whole source where it cannot be reduced safely."""
    if _UNCLEAR.search(text):
        return text
    reducer, written = _Reducer(), io.StringIO()
    try:
        # Macros in pragmas are expanded by compilers, but not by pcpp.
        reducer.parse(_PRAGMA.sub("__pragma__ ", _SPLICE.sub("", text)))
        reducer.write(written)
    except _UnclearSource:
        return text
    return "\n".join(filter(None, map(str.strip, written.getvalue().splitlines())))


class _UnclearSource(Exception):
    """The source cannot be reduced safely."""


class _Reducer(Preprocessor):  # type: ignore[misc]
    """Keeps a condition on names that the text does not define, with all its branches."""

    def __init__(self) -> None:
        super().__init__()
        self.line_directive = None
        self.macros.clear()  # dates and pcpp's own name
        self._are_unknown: list[bool] = []  # by open `#if`

    def on_directive_handle(self, directive: Any, *others: Any) -> Any:
        """Give up at a definition that holds in some branch only."""
        if directive.value in ("if", "ifdef", "ifndef"):
            self._are_unknown.append(False)
        elif directive.value == "endif" and self._are_unknown:
            self._are_unknown.pop()
        elif directive.value in ("define", "undef") and any(self._are_unknown):
            raise _UnclearSource
        return super().on_directive_handle(directive, *others)

    def on_unknown_macro_in_defined_expr(self, name: Any) -> None:
        """Keep the condition."""
        self._are_unknown[-1] = True

    on_unknown_macro_in_expr = on_unknown_macro_function_in_expr = on_unknown_macro_in_defined_expr

    def _give_up(self, *ignored: object) -> NoReturn:
        raise _UnclearSource

    on_error = on_directive_unknown = on_include_not_found = on_file_open = _give_up
