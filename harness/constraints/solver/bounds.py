"""Interval arithmetic: the bounds of an expression's node from the bounds of its operands.

Nothing is known where an operand can make it NaN, which compares like no number. Rounding keeps
the order of numbers, so rounded results stay within their bounds.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.constraints.solver.tables import Table

Bounds = tuple[Table, Table]
"""The least and greatest value, as arrays that broadcast together; False and True for
conditions."""

MAYBE: Bounds = (np.array(False), np.array(True))


def exactly(value: Any) -> Bounds | None:
    """Return the bounds of a known number; None for anything else."""
    found = np.asarray(value)
    return (found, found) if found.dtype.kind in "biuf" and np.isfinite(found).all() else None


def bounds_of(node: ast.expr, operands: Sequence[Bounds | None]) -> Bounds | None:
    """Return the bounds of an operation; None where nothing is known."""
    if isinstance(node, ast.Compare):
        return _compared(node, operands)
    if isinstance(node, ast.BoolOp):
        truths = [truth_bounds(operand) for operand in operands]
        return _joined(np.logical_and if isinstance(node.op, ast.And) else np.logical_or, truths)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        sure, possible = truth_bounds(operands[0])
        return ~possible, ~sure
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    return _calculated(node, [(_number(low), _number(high)) for low, high in known])


def truth_bounds(bounds: Bounds | None) -> Bounds:
    """Return whether a condition is certainly true, and whether it is possibly true."""
    if bounds is None:
        return MAYBE
    low, high = bounds
    return (low > 0) | (high < 0), (low != 0) | (high != 0)


def _number(bound: Table) -> Table:
    return np.asarray(bound, dtype=np.float64)


def _calculated(node: ast.expr, operands: Sequence[Bounds]) -> Bounds | None:
    if isinstance(node, ast.BinOp):
        return _arithmetic(node.op, *operands)
    if isinstance(node, ast.UnaryOp):
        low, high = operands[0]
        return (-high, -low) if isinstance(node.op, ast.USub) else (low, high)
    if isinstance(node, ast.IfExp):
        lows, highs = zip(*operands[1:], strict=True)
        return _reduced(np.minimum, lows), _reduced(np.maximum, highs)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("min", "max"):
            return _joined(np.minimum if node.func.id == "min" else np.maximum, operands)
        if node.func.id == "ceil_div":
            (low, high), divisor = operands
            found = _arithmetic(ast.FloorDiv(), (-high, -low), divisor)
            return None if found is None else (-found[1], -found[0])
    return None


def _arithmetic(op: ast.operator, left: Bounds, right: Bounds) -> Bounds | None:
    if isinstance(op, ast.Add):
        return _finite(left[0] + right[0], left[1] + right[1])
    if isinstance(op, ast.Sub):
        return _finite(left[0] - right[1], left[1] - right[0])
    if isinstance(op, ast.Mult):
        return _corners(np.multiply, left, right)
    if not (np.all(right[0] > 0) or np.all(right[1] < 0)):
        return None
    if isinstance(op, ast.Div):
        return _corners(np.divide, left, right)
    if isinstance(op, ast.FloorDiv):
        return _corners(np.floor_divide, left, right)
    if isinstance(op, ast.Mod) and np.all(right[0] > 0):
        most = np.where(left[0] >= 0, np.minimum(left[1], right[1]), right[1])
        return np.zeros_like(most), most
    return None


def _corners(operation: Callable[..., Table], left: Bounds, right: Bounds) -> Bounds | None:
    """Return the bounds of an operation that is monotonic in each operand."""
    found = [operation(one, other) for one, other in itertools.product(left, right)]
    return _finite(_reduced(np.minimum, found), _reduced(np.maximum, found))


def _joined(operation: Callable[..., Table], operands: Sequence[Bounds]) -> Bounds:
    """Return the bounds of an operation that never falls as an operand rises."""
    lows, highs = zip(*operands, strict=True)
    return _reduced(operation, lows), _reduced(operation, highs)


def _reduced(operation: Callable[..., Table], arrays: Sequence[Table]) -> Table:
    found = arrays[0]
    for array in arrays[1:]:
        found = operation(found, array)
    return found


def _finite(low: Table, high: Table) -> Bounds | None:
    return (low, high) if np.isfinite(low).all() and np.isfinite(high).all() else None


# ------------------------------------------------------------------- comparing


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
        return MAYBE
    if isinstance(op, (ast.Gt, ast.GtE)):
        left, right = right, left
    if isinstance(op, (ast.LtE, ast.GtE)):
        return left[1] <= right[0], left[0] <= right[1]
    if isinstance(op, (ast.Lt, ast.Gt)):
        return left[1] < right[0], left[0] < right[1]
    same = (left[0] == right[1]) & (left[1] == right[0])
    meet = (left[0] <= right[1]) & (right[0] <= left[1])
    return (same, meet) if isinstance(op, ast.Eq) else (~meet, ~same)
