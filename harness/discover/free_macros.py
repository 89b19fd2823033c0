"""Find the macros that a source leaves to its compiler's command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from harness.discover.scope import KernelScope
from harness.discover.syntax import find_host_functions
from harness.source.parser_text import ParserText
from harness.source.pragmas import is_ours
from harness.source.preprocessor import Directive, Token
from harness.source.syntax_tree import Node, parsed, text_of, walk

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_STANDARD = re.compile(
    r"(?:CL|CLK|CUDA|CUDART|FP|EXIT|M_(?:E|PI|LN|LOG|SQRT|\d))_?\w*|\w+_(?:MAX|MIN|EPSILON|DIG|BIT)"
    r"|NAN|INFINITY|HUGE_VALF?|MAXFLOAT|NULL|NDEBUG|TRUE|FALSE|FILE|EOF"
)
"""The macros of the compilers and of the standard headers."""


def free_macros(
    prepared: ParserText, included: Sequence[tuple[str, ParserText]], scope: KernelScope
) -> dict[str, int]:
    """Return the upper-case names in a kernel's scope that nothing defines, each with its line.

    `included` are the included files by name. Empty where one of them is missing: it may define
    any name.
    """
    texts = [prepared, *(text for _, text in included)]
    if _missing(texts, {name for name, _ in included}):
        return {}
    declared = frozenset().union(*map(_declared, texts))
    found: dict[str, int] = {}
    for token in _mentions(prepared, scope):
        name = token.text
        is_free = name in scope.used and name not in declared and not _STANDARD.fullmatch(name)
        if is_free and _NAME.fullmatch(name):
            found.setdefault(name, prepared.text.count(b"\n", 0, token.start) + 1)
    return found


def _missing(texts: Sequence[ParserText], names: set[str]) -> bool:
    """Return whether a file that is included in quotes was not found."""
    written = (d.text for t in texts for d in t.scan.directives if d.name == "include")
    return any(
        text.startswith('"') and PurePosixPath(text.strip('"')).name not in names
        for text in written
    )


def _declared(prepared: ParserText) -> set[str]:
    """Collect the names that a text defines, calls, blanks, or uses as a type."""
    names = {d.word for d in prepared.scan.directives if d.name == "define"}
    names |= {item.word for item in prepared.blanked}
    values, types = set[str](), set[str]()
    for node in walk(parsed(prepared)):
        if node.type == "identifier":
            (names if _is_declaration(node) else values).add(text_of(node))
        elif node.type == "type_identifier":
            types.add(text_of(node))
    return names | (types - values)


def _is_declaration(node: Node) -> bool:
    around = node.parent
    fields = ("declarator", "name", "function")  # a called name is no number
    return around is not None and any(node in around.children_by_field_name(f) for f in fields)


def _mentions(prepared: ParserText, scope: KernelScope) -> Iterator[Token]:
    """Yield the tokens of the kernel's scope that macro expansion would look at."""
    host = find_host_functions(prepared)
    for token in prepared.scan.code:
        is_host = any(start <= token.start < end for start, end in host)
        if scope.holds(token.start) and not is_host:
            yield token
    for directive in prepared.scan.directives:
        if directive.name in ("define", "if", "elif", "pragma") and not is_ours(directive):
            yield from _expanded_operands(directive)


def _expanded_operands(directive: Directive) -> Iterator[Token]:
    """Yield the operands of a directive without the parameters of a macro."""
    operands = directive.operands
    parameters = set[str]()
    if directive.name == "define" and not directive.is_constant:
        texts = [token.text for token in operands]
        parameters = set(texts[: texts.index(")")]) if ")" in texts else set()
    yield from (token for token in operands if token.text not in parameters)
