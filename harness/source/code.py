"""Reduce source text to its code: texts of equal code have the same tokens.

Comments, white space and line breaks do not count, so that an edit of these changes no digest.
Line numbers do not count either: they reach what `__LINE__` and `assert` print, not what is
computed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from harness.source.preprocessor import Token, tokens_by_line

_OPERATOR = re.compile(
    r"[<>=!+\-*/%&|^]= | << | >> | => | >\* | && | \|\| | \+\+ | -- | ->"
    r" | :: | \#\# | \.\. | \.\* | <[:%] | [:%]> | %:",
    re.VERBOSE,
)
"""The first two characters of operators: with white space between, they are two operators."""

_C_SUFFIXES = frozenset(
    [".c", ".C", ".cc", ".cl", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".hxx"]
)

_MOST_TEXTS = 1024  # several specs are made of one space


def code_of(suffix: str, text: str) -> str:
    """Return the code of a file whose name ends so; the text itself in other languages."""
    if suffix in _C_SUFFIXES:
        return c_code(text)
    return python_code(text) if suffix == ".py" else text


@lru_cache(_MOST_TEXTS)
def c_code(text: str) -> str:
    """Return the tokens of C, C++, CUDA or OpenCL C.

    A preprocessor line stays a line, in which white space between two tokens counts as one space.
    """
    lines: list[str] = []
    code: list[Token] = []
    for tokens in tokens_by_line(text):
        if tokens[0].text != "#":
            code += tokens
            continue
        lines.append("\x1f".join(_parts(text, code)))
        lines.append("#" + "".join(_parts(text, tokens[1:], spaces=True)))
        code = []
    lines.append("\x1f".join(_parts(text, code)))
    return "\n".join(lines)


def _parts(text: str, tokens: Sequence[Token], spaces: bool = False) -> Iterator[str]:
    """Yield tokens, and what stands between two where it counts: a space, or `\\` where a line is
    continued within a word."""
    for last, token in pairwise(tokens):
        yield last.text
        between = text[last.end : token.start]
        if between and not between.replace("\\\n", ""):
            yield "\\"
        elif between and (spaces or _would_join(last, token)):
            yield " "
    if tokens:
        yield tokens[-1].text


def _would_join(last: Token, token: Token) -> bool:
    """Whether two tokens mean something else without white space between them."""
    if last.kind == "text":
        return token.kind == "word"  # "a" _km, where _km is a macro, and the literal "a"_km
    return _OPERATOR.fullmatch(last.text + token.text) is not None


@lru_cache(_MOST_TEXTS)
def python_code(text: str) -> str:
    """Return the syntax tree of Python without docstrings, as `python -OO` runs it; the text itself
    where it cannot be parsed.

    It is the same under all versions of Python, as `ast.dump` is not.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    parts: list[str] = []
    waiting: list[object] = [tree]  # no recursion: sums of a thousand terms are nested as deep
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AST):
            _drop_docstring(node)
            parts.append(type(node).__name__)
            fields = [(name, value) for name, value in ast.iter_fields(node) if name != "kind"]
            waiting.append(_END)
            for name, value in reversed(fields):
                if value is not None and value != []:  # versions differ in which they have
                    waiting += [value, _Field(name)]
        elif isinstance(node, list):
            waiting.append(_END)
            waiting += reversed(node)
        elif isinstance(node, _Field):
            parts.append(node)
        else:
            parts.append(repr(node))
    return "\x1f".join(parts)


class _Field(str):
    """The name of a field, or a mark."""


_END = _Field(")")


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:]
