"""The names of kernels as a space writes them: `scale`, `lib::scale<float, BLOCK>`, `scale(int *)`.

A compiler mangles the name of a CUDA kernel that is not extern "C". So the source of a kernel that
is named by more than a word gets a variable that holds the kernel's address. The variable also
makes the compiler instantiate a template, and which kernel the address is stands in the binary.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_WORD = r"[A-Za-z_]\w*"
_NAME = re.compile(
    rf"(?P<scope>(?:{_WORD}::)*)(?P<word>{_WORD})(?P<template><[^;{{}}\"]+>)?(?P<types>\([^;{{}}\"]*\))?"
)
_MAX_LENGTH = 500
_REFERENCE = re.compile(
    r'extern "C" \{ \S+ auto harness_kernel_\w+ = '
    r"(?:&(?P<name>.*)|static_cast<void \(\*\)(?P<types>\(.*\))>\((?P<typed>.*)\)); \}"
    r"(?:\n *\^ *$)?",
    re.MULTILINE,
)
_FILE = "kernel.function"
"""The key of a space that names kernels: compilers report it as the file of the lines."""


def check_kernel_name(text: str) -> str:
    """Return a kernel's name; raises ValueError for a text that is none."""
    if len(text) > _MAX_LENGTH or "\n" in text or not _NAME.fullmatch(text):
        unclosed = text.count("<") > text.count(">") or text.count("(") > text.count(")")
        raise ValueError(
            f"`{text[:100]}` names no kernel: write its name, such as `scale`, or in CUDA "
            "`lib::scale<float, BLOCK>`, or `scale(float *, int)` for one of several"
            + ("; a bracket is open: in a list, a name with a comma needs quotes" * unclosed)
        )
    return text


def plain_name(function: str) -> str:
    """Return the name without scope, template arguments and parameter types, as in OpenCL."""
    parts = _NAME.fullmatch(function)
    return parts["word"] if parts else function


def is_plain(function: str) -> bool:
    """Whether a name is a word."""
    return plain_name(function) == function


def words_of(function: str) -> frozenset[str]:
    """Return the words of a name, which may be parameters of the space."""
    return frozenset(re.findall(rf"\b{_WORD}\b", function))


def reference_name(function: str) -> str:
    """Return the name of the variable that holds a kernel's address."""
    return f"harness_kernel_{hashlib.sha256(function.encode()).hexdigest()[:16]}"


def reference_lines(functions: Iterable[str]) -> list[str]:
    """Return the C++ lines that define the variables."""
    return [f'#line 1 "{_FILE}"', *map(_reference_line, functions)]


def _reference_line(function: str) -> str:
    # The type is `auto`: to cast the address is work for a program's start, which NVRTC refuses.
    parts = _NAME.fullmatch(function)
    assert parts is not None
    types, name = parts["types"], function.removesuffix(parts["types"] or "")
    kernel = f"&{name}" if types is None else f"static_cast<void (*){types}>({name})"
    return f'extern "C" {{ __device__ auto {reference_name(function)} = {kernel}; }}'


def without_references(log: str) -> str:
    """Return a compiler's log with the kernel's name in place of each line that defines one of the
    variables, and of the caret below it."""
    log = re.sub(rf"^{re.escape(_FILE)}\(\d+\)", _FILE, log, flags=re.MULTILINE)
    return _REFERENCE.sub(lambda m: m["name"] or m["typed"] + m["types"], log)
