"""Find the names of template parameters in C++ source."""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TEMPLATE = re.compile(r"\btemplate\s*<")
_MARK = re.compile(r"[<>(),]")
_NAME = re.compile(r"[\s*&.]([A-Za-z_]\w*)\s*(?:=.*)?$", re.DOTALL)


def template_names(text: str) -> frozenset[str]:
    """Return the names that the `template <..>` heads of a source declare."""
    code = _COMMENT.sub(" ", text)
    heads = (_declared(code, head.end()) for head in _TEMPLATE.finditer(code))
    names = (_NAME.search(declared) for head in heads for declared in head)
    return frozenset(found[1] for found in names if found)


def _declared(code: str, begin: int) -> Iterator[str]:
    """Yield each parameter of the head whose `<` ends at an offset."""
    depth, brackets, start = 1, 0, begin
    for mark in _MARK.finditer(code, begin):
        brackets += {"(": 1, ")": -1}.get(mark[0], 0)
        if brackets == 0:
            depth += {"<": 1, ">": -1}.get(mark[0], 0)
        if depth == 0 or (depth == 1 and brackets == 0 and mark[0] == ","):
            yield code[start : mark.start()].strip()
            start = mark.end()
        if depth == 0:
            return
