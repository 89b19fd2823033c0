"""Kernel source -> the same text with the words that a C++ grammar does not know blanked out.

A C++ grammar does not know OpenCL C's qualifiers and the words of kernels/portable.h. They are
found as tokens, never in comments or strings. Offsets do not change, so a parser's results can be
looked up in the source. Directives are blanked too: all branches of an `#if` are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.source.preprocessor import Directive, Scan, Token, scan, spaced

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


# Thread ids in CUDA, in OpenCL and in the words of portable.h.
_THREAD_IDS = re.compile(
    r"\b(?:(?:threadIdx|blockIdx)\s*\.\s*([xyz])\b"
    r"|get_(?:global|local|group)_id\s*\(\s*([012])\s*\)|(?:THREAD|BLOCK)_([XYZ])\b)"
)


@dataclass(frozen=True)
class Blanked:
    """A blanked word, with the tokens of its arguments if it was called."""

    word: str
    start: int
    end: int
    arguments: tuple[Token, ...] = ()


@dataclass(frozen=True)
class ParserText:
    """A text for the parser: one byte for each character of the original."""

    text: bytes
    scan: Scan
    blanked: tuple[Blanked, ...]
    dialect: str

    def is_blank(self, start: int, end: int) -> bool:
        """Return whether the text between two offsets is blank."""
        return not self.text[start:end].strip()


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


def dimensions(body: str) -> int:
    """Count the dimensions of thread ids that a kernel uses, from 1 to 3."""
    axes = (found[1] or found[2] or found[3] for found in _THREAD_IDS.finditer(body))
    return max((1 + "x0y1z2".index(letter.lower()) // 2 for letter in axes), default=1)


def group_sizes(item: Blanked) -> tuple[str, ...]:
    """Return the group's size if a word fixes or bounds it: an expression for each dimension."""
    tokens = item.arguments
    words: Mapping[str, int] = {t.text: i for i, t in enumerate(tokens) if t.kind == "word"}
    if item.word == "__attribute__" and "reqd_work_group_size" in words:
        opening = words["reqd_work_group_size"] + 1
        tokens = tokens[opening + 1 : _closing(tokens, opening) - 1]
    elif item.word not in ("KERNEL_SIZED", "__launch_bounds__"):
        return ()
    sizes = _between_commas(tokens)
    return sizes[:1] if item.word == "__launch_bounds__" else sizes


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
