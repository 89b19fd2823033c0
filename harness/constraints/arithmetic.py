"""The arithmetic of expressions: IEEE doubles, in one way for scalars and numpy arrays.

Whole numbers are exact up to 2**53. Undefined results are NaN: a division by zero, the square root
of a negative number. Every comparison with NaN but `!=` is false, and NaN as a condition is false.
An absent flag (None) equals only itself, and has no order. Texts and absent flags are scalars.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.records import Value

Operand = Any
"""A Python scalar, or a numpy array of numbers or booleans."""

MAX_EXACT = 2**53
"""Up to this number, every integer is exact as a 64-bit float."""

_MAX_WHOLE_EXPONENT = 64

_Numbers = Any
"""A float, or an array of doubles."""


def is_array(operand: Operand) -> bool:
    """Whether the operand is an array."""
    return isinstance(operand, np.ndarray) and operand.ndim > 0


def _as_number(operand: Operand) -> _Numbers:
    """Return an operand as doubles; raises TypeError for texts and absent flags."""
    if isinstance(operand, str):
        raise TypeError("a text can be compared, not calculated with")
    if operand is None:
        raise TypeError("an absent flag can be compared, not calculated with")
    return np.asarray(operand, dtype=np.float64) if is_array(operand) else float(operand)


def as_value(operand: Operand) -> Operand:
    """Return a computed scalar as a plain value: True or False, a whole number as an integer."""
    if is_array(operand):
        return operand
    value = operand.item() if isinstance(operand, (np.ndarray, np.generic)) else operand
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT
    return int(value) if is_whole else value


def apply(node: ast.expr, operands: Sequence[Operand]) -> Operand:
    """Compute an operation from its operands; raises TypeError for texts and absent flags where
    numbers are needed."""
    match node:
        case ast.BinOp():
            return _BINARY[type(node.op)](*map(_as_number, operands))
        case ast.UnaryOp(op=ast.Not()):
            return _negation(operands[0])
        case ast.UnaryOp():
            number = _as_number(operands[0])
            return -number if isinstance(node.op, ast.USub) else number
        case ast.BoolOp():
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return functools.reduce(join, map(truth, operands))
        case ast.IfExp():
            test, chosen, other = operands
            return np.where(truth(test), _as_number(chosen), _as_number(other))
        case ast.Compare(ops=[ast.In() | ast.NotIn() as op]):
            item, *elements = operands
            equal = [_compare(ast.Eq(), item, element) for element in elements]
            result = functools.reduce(operator.or_, equal, False)
            return result if isinstance(op, ast.In) else _negation(result)
        case ast.Compare():
            pairs = zip(node.ops, itertools.pairwise(operands), strict=True)
            relations = [_compare(op, left, right) for op, (left, right) in pairs]
            return functools.reduce(operator.and_, relations)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*map(_as_number, operands))


def truth(operand: Operand) -> Operand:
    """Return an operand as a condition: zero, NaN, absent and the empty text are false."""
    if operand is None or isinstance(operand, (str, bool)):
        return bool(operand)
    return (operand != 0) & (operand == operand)


def _negation(operand: Operand) -> Operand:
    """Negate a condition; the negation of NaN is false, as NaN itself is."""
    return not operand if operand is None or isinstance(operand, str) else operand == 0


def _compare(op: ast.cmpop, left: Operand, right: Operand) -> Operand:
    """Whether the relation holds; raises TypeError for an order between a text and a number."""
    is_equality = isinstance(op, (ast.Eq, ast.NotEq))
    texts = isinstance(left, str) + isinstance(right, str)
    if left is None or right is None or (texts == 1 and is_equality):
        return is_equality and (left is right) == isinstance(op, ast.Eq)
    if texts == 1:
        raise TypeError("a text and a number have no order")
    if texts == 0:
        left, right = _as_number(left), _as_number(right)
    return COMPARISONS[type(op)](left, right)


def _divided(divide: Callable[..., _Numbers]) -> Callable[..., _Numbers]:
    """A division whose result is NaN where the divisor is zero."""
    return lambda left, right: divide(left, np.where(right == 0, np.nan, right))


def _power(base: _Numbers, exponent: _Numbers) -> _Numbers:
    """Raise to a power; to a small whole one by products, which are exact for whole numbers."""
    is_whole = (np.floor(exponent) == exponent) & (np.abs(exponent) <= _MAX_WHOLE_EXPONENT)
    left = np.where(is_whole, np.abs(exponent), 0)
    product, factor = np.ones_like(base * left), base
    while np.any(left > 0):
        product = np.where(left % 2 == 1, product * factor, product)
        factor, left = factor * factor, left // 2
    result = np.where(is_whole, product, np.power(base, exponent))
    result = np.where(is_whole & (exponent < 0), 1 / product, result)
    return np.where((base == 0) & (exponent < 0), np.nan, result)


def _log2(number: _Numbers) -> _Numbers:
    """Return the logarithm, which is exact for powers of two."""
    mantissa, exponent = np.frexp(number)
    logarithm = np.where(mantissa == 0.5, exponent - 1, np.log2(number))
    return np.where(number > 0, logarithm, np.nan)


def _reduced(operation: Callable[..., _Numbers]) -> Callable[..., _Numbers]:
    return lambda *operands: functools.reduce(operation, operands)


_BINARY: Mapping[type[ast.operator], Callable[..., _Numbers]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided(np.divide),
    ast.FloorDiv: _divided(np.floor_divide),
    ast.Mod: _divided(np.mod),
    ast.Pow: _power,
}

COMPARISONS: Mapping[type[ast.cmpop], Callable[..., Operand]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
"""The relations, by their class in Python's syntax tree."""

ARITHMETIC = frozenset(_BINARY)
"""The operators between two numbers, by their class in Python's syntax tree."""

_FUNCTIONS: Mapping[str, Callable[..., _Numbers]] = {
    "min": _reduced(np.minimum),
    "max": _reduced(np.maximum),
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "sqrt": np.sqrt,
    "log2": _log2,
    "ceil_div": lambda dividend, divisor: -_BINARY[ast.FloorDiv](-dividend, divisor),
}


def numbers_of(values: Sequence[Value]) -> npt.NDArray[Any] | None:
    """Return values as an array; None unless all are numbers."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return np.array(values) if all(isinstance(v, (int, float)) for v in values) else None
