"""Evaluate the conditions of `#if` lines from macros that are whole numbers."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_CHARACTERS = re.compile(r"[\w\s|&=!<>()*+-]*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_MOST = 2**62  # beyond, a preprocessor's own numbers may overflow
_AS_PYTHON = (
    (r"!(?!=)", "~"),  # `not` binds less tightly than `!`
    (r"&&", " and "),
    (r"\|\|", " or "),
    (r"\bdefined\s+(\w+)", r"defined(\1)"),
)
_OPERATIONS: Mapping[type[ast.AST], Callable[..., int]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Invert: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def whole_number(text: str) -> int | None:
    """Read a plain decimal number, as parameters are written; None for anything else."""
    return int(text) if _NUMBER.fullmatch(text) else None


def decide(
    text: str, numbers: Mapping[str, int], defined: Mapping[str, bool | None]
) -> bool | None:
    """Whether a condition holds; None where these macros do not decide it or where it has other
    operators or numbers than these."""
    try:
        return _truth(_Macros(numbers, defined).value(_parsed(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parsed(text: str) -> ast.expr:
    """Parse a condition as Python; raises ValueError or SyntaxError for what is not read here."""
    if not _CHARACTERS.fullmatch(text):
        raise ValueError(f"{text!r} has other operators")
    if None in map(whole_number, re.findall(r"\b\d\w*", text)):
        raise ValueError(f"{text!r} has other numbers")
    for pattern, replacement in _AS_PYTHON:
        text = re.sub(pattern, replacement, text)
    return ast.parse(text.strip(), mode="eval").body


@dataclass(frozen=True)
class _Macros:
    """The known macros; an unknown value is None, and makes a result unknown unless the other side
    of `&&` or `||` decides it."""

    numbers: Mapping[str, int]
    defined: Mapping[str, bool | None]

    def value(self, node: ast.expr) -> int | None:
        """Return the value of a condition's node; raises ValueError for any other node."""
        match node:
            case ast.BoolOp(op, parts):
                deciding = isinstance(op, ast.Or)
                truths = [_truth(self.value(part)) for part in parts]
                undecided = None if None in truths else not deciding
                return deciding if deciding in truths else undecided
            case ast.Compare():
                return self._compared(node)
            case ast.BinOp(left, op, right):
                return _applied(op, self.value(left), self.value(right))
            case ast.UnaryOp(op, operand):
                return _applied(op, self.value(operand))
            case ast.Constant(int(number)):
                return number
            case ast.Name(name) if name != "defined":
                return self.numbers.get(name)
            case ast.Call(ast.Name("defined"), [ast.Name(name)], []):
                return self.defined.get(name)
        raise ValueError(f"{ast.dump(node)} is not read here")

    def _compared(self, node: ast.Compare) -> int | None:
        """Compare from left to right, as C does: an order before an equality."""
        equalities: list[Any] = []
        values = [self.value(node.left)]
        for op, right in zip(node.ops, map(self.value, node.comparators), strict=True):
            if isinstance(op, (ast.Eq, ast.NotEq)):
                equalities.append(op)
                values.append(right)
            else:
                values[-1] = _applied(op, values[-1], right)
        return functools.reduce(
            lambda left, pair: _applied(pair[0], left, pair[1]),
            zip(equalities, values[1:], strict=True),
            values[0],
        )


def _truth(value: int | None) -> bool | None:
    return None if value is None else value != 0


def _applied(op: ast.AST, *operands: int | None) -> int | None:
    """Apply an operator; None where an operand is unknown or the result may overflow."""
    if type(op) not in _OPERATIONS:
        raise ValueError(f"{ast.dump(op)} is not read here")
    if None in operands:
        return None
    result = int(_OPERATIONS[type(op)](*operands))
    return result if abs(result) < _MOST else None
