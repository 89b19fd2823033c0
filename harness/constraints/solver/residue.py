"""Split conditions into parts that can be computed as soon as their names are known.

Parameters get their values in a fixed order. Of `A * B * C <= 64`, only the product of A and B
matters once both are known. Every part of a condition is computed as soon as all its names have
values; sums, products, conjunctions and alternatives are computed term by term. So many
combinations of values leave few different numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.constraints.arithmetic import truth
from harness.constraints.expression import Expression, evaluate, operands
from harness.constraints.solver.bounds import Bounds, bounds_of, exactly
from harness.constraints.solver.tables import Domains, Table, as_array, is_number
from harness.core.errors import ExpressionError
from harness.core.records import Value

MAX_VALUES = 1 << 17
"""The most values of a parameter that are evaluated one by one."""


class Inseparable(Exception):
    """The expression cannot be computed part by part over arrays of numbers."""


@dataclass
class ConditionPart:
    """A node of a condition.

    `last` is the position, in the order, of the last parameter that it needs. A part over one
    parameter has a `table` with its value for each value of the parameter; others have a `node`
    over their operands as names. `is_whole` is True where all values are integers or truth values.
    `conditions` are the conditions that it is a part of, or is itself.
    """

    last: int
    is_whole: bool
    table: Table | None = None
    node: ast.expr | None = None
    operands: tuple[int, ...] = ()
    is_condition: bool = False
    conditions: frozenset[int] = frozenset()

    def value(self, known: Mapping[int, Table]) -> Table:
        """Compute the part from its operands' values, which broadcast together."""
        if self.table is not None:
            return self.table
        assert self.node is not None
        values = {_named(operand): known[operand] for operand in self.operands}
        return np.asarray(evaluate(self.node, values))

    def bounds(self, known: Mapping[int, Bounds | None]) -> Bounds | None:
        """Return the part's bounds from its operands' bounds."""
        if self.table is not None:
            ends = exactly(self.table)
            return None if ends is None else (ends[0].min(), ends[1].max())
        assert self.node is not None
        below = [
            exactly(operand.value)
            if isinstance(operand, ast.Constant)
            else known[_number_of(operand)]
            for operand in operands(self.node)
        ]
        return bounds_of(self.node, below)


Operand = int | ast.Constant
"""The index of a part, or a constant."""


class Residue:
    """Conditions split into parts; each part can be computed after those before it."""

    def __init__(self, order: Sequence[str], domains: Domains, fixed: Mapping[str, Value]) -> None:
        """`fixed` has the values of all names that are not in the order."""
        self._position = {name: position for position, name in enumerate(order)}
        self._domains = domains
        self._fixed = fixed
        self._known: dict[str, Operand] = {}
        self.parts: list[ConditionPart] = []
        self.is_false = False  # whether some condition is false whatever the parameters are

    def add(self, expression: Expression) -> None:
        """Split an expression into parts; raises Inseparable."""
        try:
            for conjunct in _flat(expression.tree, ast.And):
                self._add_condition(self._part(conjunct))
        except ExpressionError:
            raise Inseparable from None

    def _add_condition(self, condition: Operand) -> None:
        if isinstance(condition, ast.Constant):
            self.is_false = self.is_false or not truth(condition.value)
            return
        self.parts[condition].is_condition = True
        below = [condition]
        while below:
            part = self.parts[below.pop()]
            part.conditions |= {condition}
            below += part.operands

    # ----------------------------------------------------------------- building

    def _part(self, node: ast.expr) -> Operand:
        key = ast.dump(node)
        if key not in self._known:
            self._known[key] = self._made(node)
        return self._known[key]

    def _made(self, node: ast.expr) -> Operand:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self._position}
        if not names:
            return ast.Constant(evaluate(node, self._fixed))
        if len(names) == 1:
            return self._leaf(node, names.pop())
        if isinstance(node, ast.BoolOp):
            return self._chain(node.op, [self._part(o) for o in _flat(node, type(node.op))])
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            terms = [self._part(term) for term in _flat(node, type(node.op))]
            if all(self._is_whole(term) for term in terms):
                return self._chain(node.op, terms)
        return self._inner(node, [self._part(operand) for operand in operands(node)])

    def _leaf(self, node: ast.expr, name: str) -> int:
        """Add a part over one parameter, as a table over the parameter's values."""
        values = self._domains[name]
        if len(values) > MAX_VALUES:
            raise Inseparable
        column = as_array(values) if all(map(is_number, values)) else None
        try:
            if column is None:
                raise ExpressionError("arrays hold numbers only")
            found = np.asarray(evaluate(node, {**self._fixed, name: column}))
        except ExpressionError:
            found = _numbers([evaluate(node, {**self._fixed, name: v}) for v in values])
        table = np.broadcast_to(found, len(values))
        return self._added(ConditionPart(self._position[name], table.dtype.kind in "biu", table))

    def _chain(self, op: ast.operator | ast.boolop, terms: Sequence[Operand]) -> Operand:
        """Combine the terms of an associative operation in the order in which they are known."""
        first, *rest = sorted(terms, key=self._last)
        for term in rest:
            pair: list[ast.expr] = [_reference(first), _reference(term)]
            if isinstance(op, ast.boolop):
                first = self._inner(ast.BoolOp(op, pair), [first, term])
            else:
                first = self._inner(ast.BinOp(pair[0], op, pair[1]), [first, term])
        return first

    def _inner(self, node: ast.expr, terms: Sequence[Operand]) -> Operand:
        made = _with_operands(node, [_reference(operand) for operand in terms])
        parts = tuple(operand for operand in terms if isinstance(operand, int))
        if not parts:
            return ast.Constant(evaluate(made, {}))
        key = ast.dump(made)
        if key not in self._known:
            last = max(self.parts[part].last for part in parts)
            whole = _gives_whole(node) and all(self._is_whole(operand) for operand in terms)
            is_truth = isinstance(node, (ast.Compare, ast.BoolOp))
            self._known[key] = self._added(
                ConditionPart(last, whole or is_truth, None, made, parts)
            )
        return self._known[key]

    def _added(self, part: ConditionPart) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def _last(self, operand: Operand) -> int:
        return self.parts[operand].last if isinstance(operand, int) else -1

    def _is_whole(self, operand: Operand) -> bool:
        if isinstance(operand, int):
            return self.parts[operand].is_whole
        return isinstance(operand.value, int)


def _flat(node: ast.expr, op: type[ast.operator | ast.boolop]) -> Iterator[ast.expr]:
    """Yield the operands of nested operations of one kind."""
    if isinstance(node, (ast.BoolOp, ast.BinOp)) and isinstance(node.op, op):
        for operand in operands(node):
            yield from _flat(operand, op)
    else:
        yield node


def _named(part: int) -> str:
    return f"#{part}"


def _number_of(reference: ast.expr) -> int:
    assert isinstance(reference, ast.Name)
    return int(reference.id[1:])


def _reference(operand: Operand) -> ast.expr:
    return operand if isinstance(operand, ast.Constant) else ast.Name(_named(operand))


def _with_operands(node: ast.expr, new: list[ast.expr]) -> ast.expr:
    """Return the same operation on other operands, in the order of `operands`."""
    if isinstance(node, ast.BinOp):
        return ast.BinOp(new[0], node.op, new[1])
    if isinstance(node, ast.UnaryOp):
        return ast.UnaryOp(node.op, new[0])
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(node.op, new)
    if isinstance(node, ast.IfExp):
        return ast.IfExp(*new)
    if isinstance(node, ast.Compare):
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return ast.Compare(new[0], node.ops, [ast.List(new[1:])])
        return ast.Compare(new[0], node.ops, new[1:])
    assert isinstance(node, ast.Call)
    return ast.Call(node.func, new, [])


def _gives_whole(node: ast.expr) -> bool:
    """Whether the operation always gives integers for integers."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "abs")
    return isinstance(node, (ast.UnaryOp, ast.IfExp))


def _numbers(values: Sequence[Value]) -> Table:
    """Return numbers as an array; raises Inseparable for anything else."""
    if not all(map(is_number, values)):
        raise Inseparable
    return np.array(values)
