"""The arithmetic of expressions, with equal results for scalars and numpy arrays.

Undefined results are NaN: a division by zero, the square root of a negative number. Every
comparison with NaN but `!=` is false, and NaN as a condition is false. An absent flag (None)
equals only itself, and has no order.

Arrays refuse what they cannot compute as exactly as Python's integers: TypeError for anything but
numbers, OverflowError for integers above 2**53.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

Operand = Any
"""A Python scalar, or a numpy array of numbers or booleans."""

Operation = Callable[..., Operand]

MAX_EXACT = 2**53
"""Up to this number, every integer is exact as a 64-bit float."""

_MAX_EXPONENT = 64
_MAX_BITS = 1024


def any_array(*operands: Operand) -> bool:
    """Whether one of the operands is an array."""
    return any(isinstance(operand, np.ndarray) for operand in operands)


def _numbers(*operands: Operand) -> tuple[Operand, ...]:
    """Prepare operands for arithmetic; raises TypeError for texts and absent flags."""
    for operand in operands:
        if isinstance(operand, str):
            raise TypeError("a text can be compared, not calculated with")
        if operand is None:
            raise TypeError("an absent flag can be compared, not calculated with")
    return tuple(map(_exact, operands)) if any_array(*operands) else operands


def _exact(operand: Operand) -> Operand:
    """Prepare an operand for arrays: booleans as 0 and 1; raises OverflowError for integers that a
    float cannot hold."""
    array = np.asarray(operand)
    if array.dtype.kind == "b":
        return array.astype(np.int64) if array.ndim else int(operand)
    if array.dtype.kind not in "iuf":
        raise TypeError("a table holds numbers only")
    if array.dtype.kind != "f" and max(-int(array.min()), int(array.max())) > MAX_EXACT:
        raise OverflowError
    return operand


def _is_whole(operand: Operand) -> bool:
    """Whether the operand is an integer, or an array of them."""
    return bool(np.asarray(operand).dtype.kind in "biuO")


def _largest(operand: Operand) -> float:
    return float(np.max(np.abs(np.asarray(operand, dtype=np.float64))))


def _multiply(left: Operand, right: Operand) -> Operand:
    whole_table = any_array(left, right) and _is_whole(left) and _is_whole(right)
    if whole_table and _largest(left) * _largest(right) > MAX_EXACT:
        raise OverflowError
    return left * right


def _guarded(divide: Operation) -> Operation:
    """A division whose result is NaN where the divisor is zero."""

    def apply(left: Operand, right: Operand) -> Operand:
        if not any_array(left, right):
            return divide(left, right) if right != 0 else math.nan
        zero = np.equal(right, 0)
        result = divide(left, np.where(zero, 1, right))
        return np.where(zero, math.nan, result) if np.any(zero) else result

    return apply


def _power(base: Operand, exponent: Operand) -> Operand:
    if _largest(exponent) > _MAX_EXPONENT:
        raise ValueError(f"an exponent must lie between -{_MAX_EXPONENT} and {_MAX_EXPONENT}")
    if not (_is_whole(base) and _is_whole(exponent)) or np.any(np.less(exponent, 0)):
        return _real_power(base, exponent)
    if any_array(base, exponent):
        if _largest(_real_power(base, exponent)) > MAX_EXACT:
            raise OverflowError
        return np.power(base, exponent)
    if int(base).bit_length() * exponent > _MAX_BITS:
        raise OverflowError
    return base**exponent


def _real_power(base: Operand, exponent: Operand) -> Operand:
    base, exponent = np.asarray(base, np.float64), np.asarray(exponent, np.float64)
    result = np.where((base == 0) & (exponent < 0), math.nan, np.power(base, exponent))
    return result if result.ndim else result.item()


def _log2(operand: Operand) -> Operand:
    """Return the logarithm, which is exact for powers of two."""
    number = np.asarray(operand, np.float64)
    defined = number > 0
    mantissa, exponent = np.frexp(number)
    logarithm = np.where(mantissa == 0.5, exponent - 1, np.log2(np.where(defined, number, 1)))
    result = np.where(defined, logarithm, math.nan)
    return result if result.ndim else result.item()


def _sqrt(operand: Operand) -> Operand:
    if any_array(operand):
        return np.sqrt(np.asarray(operand, np.float64))
    return math.sqrt(operand) if operand >= 0 else math.nan


def _rounding(scalar: Operation, array: Operation) -> Operation:
    """Make a function that rounds to whole numbers; NaN and infinity stay the same."""

    def apply(operand: Operand) -> Operand:
        if not any_array(operand):
            whole = isinstance(operand, int) or not math.isfinite(operand)
            return operand if whole else scalar(operand)
        result = array(np.asarray(operand, np.float64))
        if np.any(np.isfinite(result) & (np.abs(result) > MAX_EXACT)):
            raise OverflowError
        return result.astype(np.int64) if np.all(np.isfinite(result)) else result

    return apply


def _extreme(scalar: Operation, array: Operation) -> Operation:
    """Make a function that returns the least or greatest operand; NaN where one of them is NaN."""

    def apply(*operands: Operand) -> Operand:
        if any_array(*operands):
            result = operands[0]
            for operand in operands[1:]:
                result = array(result, operand)
            return result
        return math.nan if any(o != o for o in operands) else scalar(operands)

    return apply


def _ceil_div(dividend: Operand, divisor: Operand) -> Operand:
    return -_BINARY[ast.FloorDiv](-dividend, divisor)


_BINARY: dict[type[ast.operator], Operation] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: _guarded(operator.truediv),
    ast.FloorDiv: _guarded(operator.floordiv),
    ast.Mod: _guarded(operator.mod),
    ast.Pow: _power,
}

_UNARY: dict[type[ast.unaryop], Operation] = {ast.USub: operator.neg, ast.UAdd: operator.pos}

_COMPARE: dict[type[ast.cmpop], Operation] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_FUNCTIONS: dict[str, Operation] = {
    "min": _extreme(min, np.minimum),
    "max": _extreme(max, np.maximum),
    "abs": abs,
    "ceil": _rounding(math.ceil, np.ceil),
    "floor": _rounding(math.floor, np.floor),
    "sqrt": _sqrt,
    "log2": _log2,
    "ceil_div": _ceil_div,
}

ARITHMETIC = frozenset((*_BINARY, *_UNARY))
"""The operators of arithmetic, by their class in Python's syntax tree."""

COMPARISONS = frozenset(_COMPARE)


def calculate(op: ast.operator | ast.unaryop, *operands: Operand) -> Operand:
    """Apply an operator; raises TypeError, ValueError or OverflowError where it cannot."""
    operands = _numbers(*operands)
    if isinstance(op, ast.operator):
        return _BINARY[type(op)](*operands)
    return _UNARY[type(op)](*operands)


def call(function: str, *operands: Operand) -> Operand:
    """Apply a function by its name; raises what `calculate` does."""
    return _FUNCTIONS[function](*_numbers(*operands))


def compare(op: ast.cmpop, left: Operand, right: Operand) -> Operand:
    """Whether the relation holds; raises TypeError for an order between a text and a number."""
    equality = isinstance(op, (ast.Eq, ast.NotEq))
    texts = isinstance(left, str) + isinstance(right, str)
    if left is None or right is None or (texts == 1 and equality):
        return equality and (left is right) == isinstance(op, ast.Eq)
    if texts == 1:
        raise TypeError("a text and a number have no order")
    if any_array(left, right):
        left, right = _exact(left), _exact(right)
    return _COMPARE[type(op)](left, right)


def contains(item: Operand, elements: list[Operand]) -> Operand:
    """Whether the item equals one of the elements."""
    found: Operand = False
    for element in elements:
        found = either(found, compare(ast.Eq(), item, element))
    return found


def truth(operand: Operand) -> Operand:
    """Return an operand as a condition: zero, NaN, absent and the empty text are false."""
    if any_array(operand):
        return (operand != 0) & (operand == operand)
    return bool(operand) and operand == operand


def negation(operand: Operand) -> Operand:
    """Negate a condition; the negation of NaN is false, as NaN itself is."""
    return operand == 0 if any_array(operand) else not operand


def both(left: Operand, right: Operand) -> Operand:
    """Whether both conditions hold."""
    return np.logical_and(left, right) if any_array(left, right) else left and right


def either(left: Operand, right: Operand) -> Operand:
    """Whether one of the conditions holds."""
    return np.logical_or(left, right) if any_array(left, right) else left or right


def select(condition: Operand, chosen: Operand, other: Operand) -> Operand:
    """Return `chosen if condition else other` elementwise, for an array of conditions."""
    chosen, other = (_exact(operand) for operand in (chosen, other))
    return np.where(condition, chosen, other)
