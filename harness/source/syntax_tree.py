"""Kernel source -> its syntax tree, by tree-sitter's CUDA grammar, which includes C and C++.

Only this module imports tree-sitter.
"""

from __future__ import annotations

from collections.abc import Iterator

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from harness.source.parser_text import ParserText

__all__ = ["Node", "ancestors", "line_of", "parsed", "text_of", "walk"]


def parsed(prepared: ParserText) -> Node:
    """Parse a text; the offsets of the nodes are those of the source."""
    return Parser(Language(tree_sitter_cuda.language())).parse(prepared.text).root_node


def walk(root: Node) -> Iterator[Node]:
    """Yield the nodes in text order, without recursion: sources can nest deeply."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def ancestors(node: Node) -> Iterator[Node]:
    """Yield the nodes around a node, the innermost first."""
    while node.parent is not None:
        node = node.parent
        yield node


def text_of(node: Node | None) -> str:
    """Return the text of a node, with single spaces; empty without a node."""
    return "" if node is None or node.text is None else " ".join(node.text.decode().split())


def line_of(node: Node) -> int:
    """Return the line on which a node begins, counted from 1."""
    return int(node.start_point[0]) + 1
