"""Reduce source text to its code: texts of equal code have the same tokens.

Comments, white space and line breaks do not count, so that an edit of these changes no digest.
Line numbers do not count either: they reach what `__LINE__` and `assert` print, not what is
computed.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from harness.source.preprocessor import Token, scan, spaced

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
    if 'R"' not in text:  # a raw string, in which lines are not joined
        text = text.replace("\\\n", "")
    lines: list[str] = []
    code: list[str] = []
    last: Token | None = None
    for line in scan(text).lines:
        if line.is_directive:
            lines += ["\x1f".join(code), "#" + spaced(line.tokens[1:])]
            code = []
            last = None
            continue
        for token in line.tokens:
            if last is not None and last.end < token.start and _would_join(last, token):
                code.append(" ")
            code.append(token.text)
            last = token
    lines.append("\x1f".join(code))
    return "\n".join(lines)


def _would_join(last: Token, token: Token) -> bool:
    """Whether two tokens mean something else without white space between them."""
    if last.kind == "text":
        return token.kind == "word"  # "a" _km, where _km is a macro, and the literal "a"_km
    return _OPERATOR.fullmatch(last.text + token.text) is not None


@lru_cache(_MOST_TEXTS)
def python_code(text: str) -> str:
    """Return the syntax tree of Python without docstrings, as `python -OO` runs it; the text itself
    where it cannot be parsed, or is nested too deeply.

    It is the same under all versions of Python: they differ in which empty fields they have.
    """
    try:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False):
                node.body = node.body[1:]
            for name, value in list(ast.iter_fields(node)):
                if name in ("kind", "ctx") or value is None or value == []:
                    delattr(node, name)
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
