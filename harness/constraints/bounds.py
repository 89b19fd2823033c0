"""Interval arithmetic: the bounds of an expression's node from the bounds of its operands.

Nothing is known where an operand can make it NaN, which compares like no number. Rounding keeps
the order of numbers, so rounded results stay within their bounds.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.arithmetic import apply

Table = npt.NDArray[Any]

Bounds = tuple[Table, Table]
"""The least and greatest value, as arrays that broadcast together; False and True for
conditions."""

_MAYBE: Bounds = (np.array(False), np.array(True))

_DIVISIONS = {ast.Div, ast.FloorDiv, "ceil_div"}
_SIGNS = {ast.Add, ast.Sub, ast.Mult, ast.USub, ast.UAdd}
_MONOTONIC = {*_SIGNS, *_DIVISIONS, "min", "max", "ceil", "floor"}


def exactly(value: Any) -> Bounds | None:
    """Return the bounds of a known number; None for anything else."""
    found = np.asarray(value)
    return (found, found) if found.dtype.kind in "biuf" and np.isfinite(found).all() else None


def truth_bounds(bounds: Bounds | None) -> Bounds:
    """Return whether a condition is certainly true, and whether it is possibly true."""
    if bounds is None:
        return _MAYBE
    low, high = bounds
    return (low > 0) | (high < 0), (low != 0) | (high != 0)


def bounds_of(node: ast.expr, operands: Sequence[Bounds | None]) -> Bounds | None:
    """Return the bounds of an operation; None where nothing is known."""
    if isinstance(node, ast.Compare):
        return _compared(node, operands)
    if isinstance(node, ast.BoolOp):
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return _joined(join, [truth_bounds(operand) for operand in operands])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        sure, possible = truth_bounds(operands[0])
        return ~possible, ~sure
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    if isinstance(node, ast.IfExp):
        return _extremes([*known[1], *known[2]])
    return _extremes(_corners(node, known)) if _is_monotonic(node, known) else None


def _is_monotonic(node: ast.expr, operands: Sequence[Bounds]) -> bool:
    """Whether an operation is monotonic in each operand: a quotient where no divisor is zero."""
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        operation: object = node.func.id
    else:
        operation = type(node.op) if isinstance(node, (ast.BinOp, ast.UnaryOp)) else None
    low, high = operands[-1]
    may_be_undefined = operation in _DIVISIONS and np.any((low <= 0) & (high >= 0))
    return operation in _MONOTONIC and not may_be_undefined


def _corners(node: ast.expr, operands: Sequence[Bounds]) -> Sequence[Table]:
    """Compute a monotonic operation of the least and greatest values of its operands."""
    ends = [bounds[: 1 if bounds[0] is bounds[1] else 2] for bounds in operands]
    return [np.asarray(apply(node, corner)) for corner in itertools.product(*ends)]


def _extremes(arrays: Sequence[Table]) -> Bounds | None:
    low, high = (functools.reduce(np.minimum, arrays), functools.reduce(np.maximum, arrays))
    return (low, high) if np.isfinite(low).all() and np.isfinite(high).all() else None


def _joined(operation: Callable[..., Table], operands: Sequence[Bounds]) -> Bounds:
    """Return the bounds of an operation that never falls as an operand rises."""
    lows, highs = zip(*operands, strict=True)
    return functools.reduce(operation, lows), functools.reduce(operation, highs)


def _compared(node: ast.Compare, operands: Sequence[Bounds | None]) -> Bounds:
    if isinstance(node.ops[0], (ast.In, ast.NotIn)):
        none = (np.array(False), np.array(False))
        found = [_relation(ast.Eq(), operands[0], element) for element in operands[1:]]
        sure, possible = _joined(np.logical_or, [none, *found])
        return (sure, possible) if isinstance(node.ops[0], ast.In) else (~possible, ~sure)
    pairs = zip(node.ops, itertools.pairwise(operands), strict=True)
    return _joined(np.logical_and, [_relation(op, one, other) for op, (one, other) in pairs])


def _relation(op: ast.cmpop, left: Bounds | None, right: Bounds | None) -> Bounds:
    """Return whether a relation certainly holds, and whether it possibly holds."""
    if left is None or right is None:
        return _MAYBE
    if isinstance(op, (ast.Gt, ast.GtE)):
        left, right = right, left
    if isinstance(op, (ast.LtE, ast.GtE)):
        return left[1] <= right[0], left[0] <= right[1]
    if isinstance(op, (ast.Lt, ast.Gt)):
        return left[1] < right[0], left[0] < right[1]
    same = (left[0] == right[1]) & (left[1] == right[0])
    meet = (left[0] <= right[1]) & (right[0] <= left[1])
    return (same, meet) if isinstance(op, ast.Eq) else (~meet, ~same)
