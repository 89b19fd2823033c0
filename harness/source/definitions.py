"""The macros and functions that a source and its included files define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.source.parser_text import ParserText
from harness.source.preprocessor import spaced
from harness.source.syntax_tree import Node, parsed, walk

WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""A name that is neither a field of a structure nor the suffix of a number."""


@dataclass(frozen=True)
class Definitions:
    """Macros and functions by name, each with the text of all its definitions.

    `by_reference` are the functions with a parameter that is a reference.
    """

    macros: Mapping[str, str]
    functions: Mapping[str, str]
    by_reference: frozenset[str]

    def expanded(self, text: str) -> str:
        """Return a text with the definitions of all macros that it uses, directly or not."""
        return _followed(text, (self.macros,))

    def reached(self, text: str) -> str:
        """Return a text with the definitions of all macros and functions that it uses."""
        return _followed(text, (self.macros, self.functions))


def _followed(text: str, kinds: Iterable[Mapping[str, str]]) -> str:
    parts, waiting, seen = [text], [text], set[str]()
    while waiting:
        for word in WORD.findall(waiting.pop()):
            if word not in seen:
                seen.add(word)
                found = [kind[word] for kind in kinds if word in kind]
                waiting += found
                parts += found
    return "\n".join(parts)


def definitions_of(texts: Iterable[ParserText]) -> Definitions:
    """Collect the definitions of a source and its included files."""
    macros: dict[str, str] = {}
    functions: dict[str, str] = {}
    by_reference: set[str] = set()
    for prepared in texts:
        for directive in prepared.scan.directives:
            if directive.name == "define" and directive.word:
                _add(macros, directive.word, spaced(directive.operands[1:]))
        for node in walk(parsed(prepared)):
            if node.type == "function_definition":
                _add_function(node, functions, by_reference)
    return Definitions(macros, functions, frozenset(by_reference))


def _add_function(node: Node, functions: dict[str, str], by_reference: set[str]) -> None:
    head = next((n for n in walk(node) if n.type == "function_declarator"), None)
    body = node.child_by_field_name("body")
    words = WORD.findall((head.text or b"").decode()) if head else []
    if head is None or body is None or not words:
        return
    _add(functions, words[0], (body.text or b"").decode())
    if any(n.type == "reference_declarator" for n in walk(head)):
        by_reference.add(words[0])


def _add(found: dict[str, str], name: str, text: str) -> None:
    found[name] = f"{found[name]}\n{text}" if name in found else text
