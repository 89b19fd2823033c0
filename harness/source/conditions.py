"""Evaluate the conditions of `#if` lines from macros that are whole numbers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(r"\s*(\|\||&&|[=!<>]=|[-+*()!<>]|\w+)")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_MOST = 2**62  # beyond, a preprocessor's own numbers may overflow
_ARITHMETIC: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "==": (3, operator.eq),
    "!=": (3, operator.ne),
    "<": (4, operator.lt),
    "<=": (4, operator.le),
    ">": (4, operator.gt),
    ">=": (4, operator.ge),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
}
_LOGIC = {"||": 1, "&&": 2}


def whole_number(text: str) -> int | None:
    """Read a plain decimal number, as parameters are written; None for anything else."""
    return int(text) if _NUMBER.fullmatch(text) else None


def decide(
    text: str, numbers: Mapping[str, int], defined: Mapping[str, bool | None]
) -> bool | None:
    """Whether a condition holds; None where these macros do not decide it or where it has other
    operators or numbers than these."""
    try:
        value = _ConditionParser(_split(text), numbers, defined).value()
    except ValueError:
        return None
    return None if value is None else value != 0


def _split(text: str) -> list[str]:
    """Split a condition into words, numbers and operators; raises ValueError for anything else."""
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"{text[position:]!r} is not read here")
        tokens.append(found[1])
        position = found.end()
    return tokens


class _ConditionParser:
    """A recursive descent parser; an unknown value is None, and makes a result unknown unless the
    other side of `&&` or `||` decides it."""

    def __init__(
        self, tokens: list[str], numbers: Mapping[str, int], defined: Mapping[str, bool | None]
    ) -> None:
        self._tokens = tokens[::-1]
        self._numbers = numbers
        self._defined = defined

    def value(self) -> int | None:
        """Return the value of the whole condition; raises ValueError where it is malformed."""
        value = self._binary(0)
        if self._tokens:
            raise ValueError(f"{self._tokens[-1]} is not expected")
        return value

    def _take(self) -> str:
        if not self._tokens:
            raise ValueError("something is missing")
        return self._tokens.pop()

    def _binary(self, above: int) -> int | None:
        left = self._unary()
        while self._tokens and _strength(self._tokens[-1]) > above:
            sign = self._take()
            left = _combined(sign, left, self._binary(_strength(sign)))
        return left

    def _unary(self) -> int | None:
        token = self._take()
        if token in ("!", "-", "+"):
            operand = self._unary()
            if operand is None:
                return None
            return {"!": int(not operand), "-": -operand, "+": operand}[token]
        if token == "(":
            inner = self._binary(0)
            self._close()
            return inner
        if token == "defined":
            return self._is_defined()
        if token[0].isdigit():
            number = whole_number(token)
            if number is None:
                raise ValueError(f"{token} is not read here")
            return number
        if not token.isidentifier():
            raise ValueError(f"{token} is not expected")
        return self._numbers.get(token)

    def _is_defined(self) -> int | None:
        token = self._take()
        name = self._take() if token == "(" else token
        if token == "(":
            self._close()
        found = self._defined.get(name)
        return None if found is None else int(found)

    def _close(self) -> None:
        if self._take() != ")":
            raise ValueError("a bracket is not closed")


def _strength(sign: str) -> int:
    """Return the precedence of a binary operator; 0 for anything else."""
    return _LOGIC.get(sign) or _ARITHMETIC.get(sign, (0, None))[0]


def _combined(sign: str, left: int | None, right: int | None) -> int | None:
    if sign == "&&":
        return _all(left, right)
    if sign == "||":
        negated = _all(_not(left), _not(right))
        return _not(negated)
    if left is None or right is None:
        return None
    result = int(_ARITHMETIC[sign][1](left, right))
    return result if abs(result) < _MOST else None


def _all(left: int | None, right: int | None) -> int | None:
    if left == 0 or right == 0:
        return 0
    return None if left is None or right is None else 1


def _not(value: int | None) -> int | None:
    return None if value is None else int(not value)
