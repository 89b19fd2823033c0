"""Split conditions into parts that can be computed as soon as their names are known.

Parameters get their values in a fixed order. Of `A * B * C <= 64`, only the product of A and B
matters once both are known. Every part of a condition is computed as soon as all its names have
values; sums, products, conjunctions and alternatives are computed term by term. So many
combinations of values leave few different numbers. What cannot be split, such as a comparison of
texts, is a table over the values of its names.

Interval arithmetic gives the bounds of a part from those of its operands. Nothing is known where an
operand can make it NaN, which compares like no number. Rounding keeps the order of numbers, so
rounded results stay within their bounds.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.arithmetic import MAX_EXACT, apply, as_value, numbers_of, truth
from harness.constraints.expression import Expression, evaluate, operands_of
from harness.core.errors import ExpressionError
from harness.core.records import Value

Table = npt.NDArray[Any]

Bounds = tuple[Table, Table]
"""The least and greatest value, as arrays that broadcast together; False and True for
conditions."""

Domains = Mapping[str, Sequence[Value]]

MAX_EDGES = 1 << 23
"""The most edges of a diagram, states times values of the parameter, and entries of a table."""

_MAX_EVALUATIONS = 1 << 17
"""The most evaluations of one condition for its table (some 10 us each)."""


class TooLarge(Exception):
    """The constraints connect too many combinations."""


@dataclass
class _ConditionPart:
    """A node of a condition.

    `last` is the position, in the order, of the last parameter that it needs, -1 for a constant. A
    part has a `node` over its operands, which are parts, or a `table`: over the values of its
    parameter, or of its operands, or the constant. `bounds` hold whatever the parameters are.
    `conditions` are those that it is a part of, or is itself.
    """

    last: int
    operands: tuple[int, ...]
    node: ast.expr | None = None
    table: Any = None
    bounds: Bounds | None = None
    is_whole: bool = False
    conditions: set[int] = field(default_factory=set)

    def value(self, known: Mapping[int, Any]) -> Any:
        """Compute the part from its operands' values, which broadcast together."""
        values = [known[operand] for operand in self.operands]
        if self.node is not None:
            return np.asarray(apply(self.node, values))
        return self.table[tuple(values)] if values else self.table

    def bounds_with(self, known: Mapping[int, Bounds | None]) -> Bounds | None:
        """Return the part's bounds from its operands' bounds."""
        if self.node is None:
            return self.bounds
        return _bounds_of(self.node, [known[operand] for operand in self.operands])


class Parts:
    """Conditions split into parts; each part can be computed after those before it."""

    def __init__(self, order: Sequence[str], domains: Domains, fixed: Mapping[str, Value]) -> None:
        """`fixed` has the values of all names that are not in the order."""
        self._position = {name: position for position, name in enumerate(order)}
        self._domains = domains
        self._fixed = fixed
        self._known: dict[object, int] = {}
        self.all: list[_ConditionPart] = []
        self.is_false = False  # whether some condition is false whatever the parameters are

    def add(self, constraint: Expression) -> None:
        """Split a constraint into parts; raises TooLarge."""
        for condition in _flat(constraint.tree, ast.And):
            try:
                self._add_condition(self._part(condition))
            except (ExpressionError, TypeError, OverflowError):
                self._add_condition(self._tabulated(condition))

    def _add_condition(self, condition: int) -> None:
        if self.all[condition].last < 0:
            sure = possible = bool(truth(self.all[condition].table))
        else:
            sure, possible = map(bool, truth_bounds(self.all[condition].bounds))
        self.is_false = self.is_false or not possible
        below = [] if sure else [condition]
        while below:
            part = self.all[below.pop()]
            part.conditions.add(condition)
            below += part.operands

    # ----------------------------------------------------------------- building

    def _part(self, node: ast.expr) -> int:
        key = ast.dump(node)
        if key not in self._known:
            self._known[key] = self._made(node)
        return self._known[key]

    def _made(self, node: ast.expr) -> int:
        names = _names(node) & self._position.keys()
        if not names:
            return self._constant(evaluate(node, self._fixed))
        if len(names) == 1:
            return self._leaf(node, names.pop())
        if isinstance(node, ast.BoolOp):
            return self._chain(node, [self._part(o) for o in _flat(node, type(node.op))])
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            flat = [self._part(term) for term in _flat(node, type(node.op))]
            if self._is_exact(node.op, flat):
                return self._chain(node, flat)
        return self._inner(node, [self._part(operand) for operand in operands_of(node)])

    def _leaf(self, node: ast.expr, name: str) -> int:
        """Add a part over one parameter, as a table over the parameter's values."""
        values = self._domains[name]
        if len(values) > MAX_EDGES:
            raise TooLarge(f"{name} has {len(values):,} values")
        column, numbers = numbers_of(values), None
        if column is not None:
            numbers = evaluate(node, {**self._fixed, name: column})
        elif len(values) <= _MAX_EVALUATIONS:
            numbers = numbers_of([evaluate(node, {**self._fixed, name: v}) for v in values])
        if numbers is None:
            raise TypeError("an array holds numbers only")
        table = np.broadcast_to(numbers, len(values))
        return self._added_table(self._position[name], (), table)

    def _constant(self, value: Any) -> int:
        return self._added(
            _ConditionPart(-1, (), None, value, exactly(value), isinstance(value, int))
        )

    def _added_table(self, last: int, operands: tuple[int, ...], table: Table) -> int:
        ends = exactly(table)
        bounds = None if ends is None else (ends[0].min(), ends[1].max())
        is_whole = bool(np.all((np.floor(table) == table) | (table != table)))
        return self._added(_ConditionPart(last, operands, None, table, bounds, is_whole))

    def _is_exact(self, op: ast.operator, terms: Sequence[int]) -> bool:
        """Whether a sum or product is the same in any order: whole, and up to MAX_EXACT."""
        parts = [self.all[term] for term in terms]
        if not all(part.is_whole and part.bounds for part in parts):
            return False
        most = [max(1.0, *map(abs, map(float, part.bounds or ()))) for part in parts]
        return (sum(most) if isinstance(op, ast.Add) else math.prod(most)) <= MAX_EXACT

    def _chain(self, node: ast.BinOp | ast.BoolOp, terms: Sequence[int]) -> int:
        """Combine the terms of an associative operation in the order in which they are known."""
        first, *rest = sorted(terms, key=lambda term: self.all[term].last)
        for term in rest:
            key = (type(node.op), first, term)
            if key not in self._known:
                self._known[key] = self._inner(node, [first, term])
            first = self._known[key]
        return first

    def _inner(self, node: ast.expr, terms: Sequence[int]) -> int:
        parts = [self.all[term] for term in terms]
        last = max(part.last for part in parts)
        # Numbers in place of the parts show whether the operation has a value for numbers.
        tried = apply(node, [part.table if part.last < 0 else np.ones(1) for part in parts])
        if last < 0:
            return self._constant(as_value(tried))
        is_whole = isinstance(node, (ast.Compare, ast.BoolOp)) or (
            _gives_whole(node) and all(part.is_whole for part in parts)
        )
        bounds = _bounds_of(node, [part.bounds for part in parts])
        return self._added(_ConditionPart(last, tuple(terms), node, None, bounds, is_whole))

    def _tabulated(self, node: ast.expr) -> int:
        """Add a condition as a table over the indices of its names' values."""
        names = [name for name in self._domains if name in _names(node)]
        domains = {name: self._domains[name] for name in names}
        table = truth_table(partial(evaluate, node), domains, self._fixed, is_strict=False)
        if not names:
            return self._constant(bool(table))
        last = max(self._position[name] for name in names)
        return self._added_table(last, tuple(map(self._index, names)), table)

    def _index(self, name: str) -> int:
        """Return the part that is the index of a parameter's value."""
        key = (name, "index")
        if key not in self._known:
            table = np.arange(len(self._domains[name]))
            self._known[key] = self._added_table(self._position[name], (), table)
        return self._known[key]

    def _added(self, part: _ConditionPart) -> int:
        self.all.append(part)
        return len(self.all) - 1


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _flat(node: ast.expr, op: type[ast.operator | ast.boolop]) -> Iterator[ast.expr]:
    """Yield the operands of nested operations of one kind."""
    if isinstance(node, (ast.BoolOp, ast.BinOp)) and isinstance(node.op, op):
        for operand in operands_of(node):
            yield from _flat(operand, op)
    else:
        yield node


def _gives_whole(node: ast.expr) -> bool:
    """Whether the operation always gives whole numbers for whole numbers."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "abs")
    return isinstance(node, (ast.UnaryOp, ast.IfExp))


# ------------------------------------------------------------------------ bounds

_MAYBE: Bounds = (np.array(False), np.array(True))

_DIVISIONS = {ast.Div, ast.FloorDiv, "ceil_div"}
_SIGNS = {ast.Add, ast.Sub, ast.Mult, ast.USub, ast.UAdd}
_MONOTONIC = {*_SIGNS, *_DIVISIONS, "min", "max", "ceil", "floor"}


def exactly(value: Any) -> Bounds | None:
    """Return the bounds of a known number; None for anything else."""
    numbers = np.asarray(value)
    return (
        (numbers, numbers) if numbers.dtype.kind in "biuf" and np.isfinite(numbers).all() else None
    )


def truth_bounds(bounds: Bounds | None) -> Bounds:
    """Return whether a condition is certainly true, and whether it is possibly true."""
    if bounds is None:
        return _MAYBE
    low, high = bounds
    return (low > 0) | (high < 0), (low != 0) | (high != 0)


def _bounds_of(node: ast.expr, operands: Sequence[Bounds | None]) -> Bounds | None:
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
        relations = [_relation(ast.Eq(), operands[0], element) for element in operands[1:]]
        sure, possible = _joined(np.logical_or, [none, *relations])
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


# ------------------------------------------------------------------------ tables

Condition = Callable[[Mapping[str, Any]], Any]
"""Computes a condition from the values of all names; raises ExpressionError."""


def truth_table(
    condition: Condition, domains: Domains, fixed: Mapping[str, Value], *, is_strict: bool = True
) -> Table:
    """Return whether a condition holds, with one axis for each domain.

    Raises TooLarge, and ExpressionError for a combination that cannot be computed, which is false
    unless that is strict.
    """
    shape = tuple(map(len, domains.values()))
    if math.prod(shape) > MAX_EDGES:
        raise TooLarge(f"a condition connects {math.prod(shape):,} combinations")
    others = [len(values) for values in domains.values() if numbers_of(values) is None]
    if math.prod(others) > _MAX_EVALUATIONS:
        raise TooLarge(f"a condition would be computed {math.prod(others):,} times")
    table = np.zeros(shape, dtype=bool)
    _fill(table, condition, domains, fixed, is_strict)
    return table


def _fill(
    table: Table, condition: Condition, domains: Domains, given: Mapping[str, Value], strict: bool
) -> None:
    """Fill in a table, for all numbers at once, and for one value after the other of names that
    have others, or where arrays compute what scalars skip, as the rest of an alternative."""
    columns = {name: numbers_of(values) for name, values in domains.items()}
    one_by_one = [name for name, column in columns.items() if column is None]
    if not one_by_one:
        meshed = np.meshgrid(*columns.values(), indexing="ij", sparse=True)
        try:
            table[...] = truth(condition({**given, **dict(zip(domains, meshed, strict=True))}))
            return
        except ExpressionError:
            if not domains and strict:
                raise
            if table.size > _MAX_EVALUATIONS:
                raise TooLarge(f"a condition has {table.size:,} values to try") from None
    for name in one_by_one[:1] or list(domains)[:1]:
        rest = {other: values for other, values in domains.items() if other != name}
        rows = np.moveaxis(table, list(domains).index(name), 0)
        for k, value in enumerate(domains[name]):
            _fill(rows[k, ...], condition, rest, {**given, name: value}, strict)
