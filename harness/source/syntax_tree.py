"""Kernel source -> its syntax tree, by tree-sitter's CUDA grammar, which includes C and C++.

A C++ grammar does not know OpenCL C's qualifiers and the words of kernels/portable.h. They are
found as tokens, never in comments or strings. Offsets do not change, so a parser's results can be
looked up in the source. Directives are blanked too: all branches of an `#if` are parsed. Only this
module imports tree-sitter.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from harness.source.preprocessor import Directive, Scan, Token, scan, spaced

__all__ = ["Node"]

_LANGUAGE = Language(tree_sitter_cuda.language())

CUDA, OPENCL, PORTABLE = "cuda", "opencl", "portable"
_OPENCL_SUFFIXES = (".cl", ".clh", ".ocl", ".opencl")

_ALWAYS = {
    "__restrict", "__restrict__", "__inline__", "__attribute__", "_Pragma", "alignas",
}  # fmt: skip
_KNOWN = {
    CUDA: {
        "__global__", "__device__", "__host__", "__shared__", "__constant__", "__managed__",
        "__forceinline__", "__noinline__", "__launch_bounds__", "__align__", "__grid_constant__",
        "__cluster_dims__",
    },
    OPENCL: {
        word
        for name in ("kernel", "global", "local", "constant", "private", "generic", "read_only",
                     "write_only", "read_write")
        for word in (name, f"__{name}")
    } | {"restrict"},
    PORTABLE: {
        "KERNEL", "KERNEL_SIZED", "DEVICE", "GLOBAL", "LOCAL", "LOCAL_POINTER", "RESTRICT",
        "ALIGNED", "UNROLL",
    },
}  # fmt: skip
KERNEL_WORDS = ("__global__", "kernel", "__kernel", "KERNEL", "KERNEL_SIZED")
LOCAL_WORDS = {"local", "__local", "LOCAL_POINTER"}
CONST_WORDS = {"const", "constant", "__constant"}
_RETURNS = {"KERNEL": "void", "KERNEL_SIZED": "void", "DEVICE": ""}
_CALLED = {
    "__attribute__", "_Pragma", "__launch_bounds__", "__align__", "__cluster_dims__", "alignas",
    "KERNEL_SIZED", "ALIGNED", "UNROLL",
}  # fmt: skip


@dataclass(frozen=True)
class Blanked:
    """A blanked word, with the tokens of its arguments if it was called."""

    word: str
    start: int
    end: int
    arguments: tuple[Token, ...] = ()

    @property
    def group_sizes(self) -> tuple[str, ...]:
        """The group's size if a word fixes or bounds it: an expression for each dimension."""
        tokens = self.arguments
        words: Mapping[str, int] = {t.text: i for i, t in enumerate(tokens) if t.kind == "word"}
        if self.word == "__attribute__" and "reqd_work_group_size" in words:
            opening = words["reqd_work_group_size"] + 1
            tokens = tokens[opening + 1 : _closing(tokens, opening) - 1]
        elif self.word not in ("KERNEL_SIZED", "__launch_bounds__"):
            return ()
        sizes = _between_commas(tokens)
        return sizes[:1] if self.word == "__launch_bounds__" else sizes


@dataclass(frozen=True)
class ParserText:
    """A text for the parser: one byte for each character of the original."""

    text: bytes
    scan: Scan
    blanked: tuple[Blanked, ...]
    dialect: str

    def parsed(self) -> Node:
        """Parse the text; the offsets of the nodes are those of the source."""
        return Parser(_LANGUAGE).parse(self.text).root_node


def prepare(text: str, suffix: str) -> ParserText:
    """Blank the words that the grammar does not know; `suffix` is the file's."""
    scanned = scan(text)
    dialect = _dialect(scanned.directives, suffix)
    languages = (CUDA, OPENCL, PORTABLE) if dialect == PORTABLE else (dialect,)
    known = _ALWAYS.union(*(_KNOWN[language] for language in languages))
    blanked = tuple(_found(scanned.code, known))
    characters = [c if c == "\n" else " " for c in text]
    gone = {offset for b in blanked for offset in range(b.start, b.end)}
    for token in scanned.code:
        if token.start not in gone:
            characters[token.start : token.end] = _ascii(token.text)
    for item in blanked:
        kind = _RETURNS.get(item.word, "")
        characters[item.start : item.start + len(kind)] = kind
    return ParserText("".join(characters).encode(), scanned, blanked, dialect)


def _ascii(text: str) -> str:
    return "".join(c if c.isascii() else "_" for c in text)


def _dialect(directives: Sequence[Directive], suffix: str) -> str:
    included = (d.text for d in directives if d.name == "include")
    if any(name.rpartition("/")[2].strip('"') == "portable.h" for name in included):
        return PORTABLE
    return OPENCL if suffix.lower() in _OPENCL_SUFFIXES else CUDA


def _found(code: Sequence[Token], known: set[str]) -> Iterator[Blanked]:
    index = 0
    while index < len(code):
        token = code[index]
        index += 1
        if token.kind != "word" or token.text not in known:
            continue
        end = _closing(code, index) if token.text in _CALLED else index
        if end > index:
            yield Blanked(
                token.text, token.start, code[end - 1].end, tuple(code[index + 1 : end - 1])
            )
            index = end
        else:
            yield Blanked(token.text, token.start, token.end)


def _closing(code: Sequence[Token], index: int) -> int:
    """Return the index behind the closing bracket; the index itself if no bracket opens there."""
    depth = 0
    for position in range(index, len(code)):
        depth += (code[position].text == "(") - (code[position].text == ")")
        if depth == 0:
            return position + 1 if position > index else index
    return index


def _between_commas(tokens: Sequence[Token]) -> tuple[str, ...]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return tuple(spaced(part) for part in parts)


# ------------------------------------------------------------------------- the tree


def matches(query: str, root: Node, *, only_root: bool = False) -> list[dict[str, Node]]:
    """Match a query below a node; return the first node of each name for each match."""
    cursor = QueryCursor(_query(query))
    if only_root:
        cursor.set_max_start_depth(0)
    return [
        {name: nodes[0] for name, nodes in captures.items()} for _, captures in cursor.matches(root)
    ]


def captured(query: str, root: Node) -> list[tuple[str, Node]]:
    """Return the nodes below one that a query captures, in text order, with their names."""
    captures = QueryCursor(_query(query)).captures(root)
    nodes = [(name, node) for name, named in captures.items() for node in named]
    return sorted(nodes, key=lambda pair: pair[1].start_byte)


@functools.cache
def _query(text: str) -> Query:
    query: Query = Query(_LANGUAGE, text)
    return query


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
