"""Names, texts and numbers as C and C++ read them.

Device names, titles and words come from outside: whatever they hold, they stay inside the comment
or literal that they are written into.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Iterator

INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_WIDTH = 96

_C_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq asm typeof
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t NULL EOF errno
    linux unix I
"""
# Names that generated functions use besides features; a test keeps this complete.
_OWN_WORDS = """
    DBL_MAX INT64_C costs count depth grid group i index least more most next nodes numbers offsets
    order size sizes sqrt top tree
"""
_RESERVED_IN_C = frozenset(_C_WORDS.split())
_RESERVED = _RESERVED_IN_C | {*_OWN_WORDS.split()}


def variable(name: str) -> str:
    """Make a feature's name a variable of C and C++; different names stay different."""
    return _apart(name, _RESERVED)


def member(name: str) -> str:
    """Make a parameter's name a member of a C struct; different names stay different."""
    return _apart(name, _RESERVED_IN_C)


def _apart(name: str, reserved: Collection[str]) -> str:
    # Names that begin with an underscore are the generated code's own.
    return f"{name}_" if name.rstrip("_") in reserved or name.startswith("_") else name


def plain(text: str) -> str:
    """Make one line of printable ASCII; anything else, and the backslash, is escaped."""
    return "".join(c if " " <= c <= "~" and c != "\\" else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def c_comment(text: str) -> str:
    """Make one line for a C comment: it neither ends the comment nor begins another, and has no
    trigraph, which could hide a backslash at its end."""
    escaped = plain(text).replace("*/", "*\\x2f").replace("/*", "/\\x2a")
    return escaped.replace("??", "?\\x3f")


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Break long lines at spaces; indents and tables stay."""
    wrapper = textwrap.TextWrapper(
        _WIDTH, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    for line in lines:
        wrapper.subsequent_indent = " " * (len(line) - len(line.lstrip()))
        yield from (part.rstrip() for part in wrapper.wrap(line) or [""])


def c_string(text: str) -> str:
    """Make a literal of the text's UTF-8 bytes, in octal where they are not plain ASCII."""
    return '"' + "".join(_c_byte(byte) for byte in text.encode()) + '"'


def _c_byte(byte: int) -> str:
    character = chr(byte)
    return character if " " <= character <= "~" and character not in '"\\?' else f"\\{byte:03o}"


def c_whole(number: int) -> str:
    """Make a literal of a 64-bit integer."""
    if abs(number) > INT64_MAX:
        raise ValueError(f"{number} is not a 64-bit integer")
    text = str(number) if abs(number) <= _INT32_MAX else f"INT64_C({number})"
    return f"({text})" if number < 0 else text


def c_real(number: float) -> str:
    """Make a literal of exactly this double: compilers round to nearest, as Python's repr
    expects."""
    text = repr(float(number))
    if not math.isfinite(number):
        raise ValueError(f"{text} has no literal")
    return f"({text})" if text.startswith("-") else text
