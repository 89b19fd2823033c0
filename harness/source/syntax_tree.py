"""Kernel source -> its syntax tree, by tree-sitter's CUDA grammar, which includes C and C++.

Only this module imports tree-sitter.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from harness.source.parser_text import ParserText

__all__ = ["Node", "ancestors", "captured", "line_of", "matches", "parsed", "text_of", "walk"]

_LANGUAGE = Language(tree_sitter_cuda.language())


def parsed(prepared: ParserText) -> Node:
    """Parse a text; the offsets of the nodes are those of the source."""
    return Parser(_LANGUAGE).parse(prepared.text).root_node


def matches(query: str, root: Node, *, only_root: bool = False) -> list[dict[str, Node]]:
    """Match a query below a node; return the first node of each name for each match."""
    cursor = QueryCursor(_query(query))
    if only_root:
        cursor.set_max_start_depth(0)
    return [{name: nodes[0] for name, nodes in found.items()} for _, found in cursor.matches(root)]


def captured(query: str, root: Node) -> list[tuple[str, Node]]:
    """Return the nodes below one that a query captures, in text order, with their names."""
    captures = QueryCursor(_query(query)).captures(root)
    nodes = [(name, node) for name, named in captures.items() for node in named]
    return sorted(nodes, key=lambda pair: pair[1].start_byte)


@functools.cache
def _query(text: str) -> Query:
    query: Query = Query(_LANGUAGE, text)
    return query


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
