"""Split conditions into parts that can be computed as soon as their names are known.

Parameters get their values in a fixed order. Of `A * B * C <= 64`, only the product of A and B
matters once both are known. Every part of a condition is computed as soon as all its names have
values; sums, products, conjunctions and alternatives are computed term by term. So many
combinations of values leave few different numbers. What cannot be split, such as a comparison of
texts, is a table over the values of its names.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from harness.constraints.arithmetic import MAX_EXACT, apply, numbers_of, truth
from harness.constraints.bounds import Bounds, Table, bounds_of, exactly, truth_bounds
from harness.constraints.expression import Expression, evaluate, operands_of
from harness.core.errors import ExpressionError
from harness.core.records import Value

Domains = Mapping[str, Sequence[Value]]

MAX_EDGES = 1 << 23
"""The most edges of a diagram, states times values of the parameter, and entries of a table."""

_MAX_EVALUATIONS = 1 << 17
"""The most evaluations of one condition for its table (some 10 us each)."""


class TooLarge(Exception):
    """The constraints connect too many combinations."""


Operand = int | ast.Constant
"""The index of a part, or a constant."""


@dataclass
class Part:
    """A node of a condition.

    `last` is the position, in the order, of the last parameter that it needs. A part has a `node`
    over its operands, or a `table`: over the values of its parameter, or of its operands. `bounds`
    hold whatever the parameters are. `conditions` are those that it is a part of, or is itself.
    """

    last: int
    operands: tuple[Operand, ...]
    node: ast.expr | None = None
    table: Table | None = None
    bounds: Bounds | None = None
    is_whole: bool = False
    conditions: set[int] = field(default_factory=set)

    @property
    def parts(self) -> list[int]:
        """The operands that are parts."""
        return [operand for operand in self.operands if isinstance(operand, int)]

    def value(self, known: Mapping[int, Table]) -> Table:
        """Compute the part from its operands' values, which broadcast together."""
        if self.table is None:
            assert self.node is not None
            values = [known[o] if isinstance(o, int) else o.value for o in self.operands]
            return np.asarray(apply(self.node, values))
        found: Table = self.table
        return found[tuple(known[part] for part in self.parts)] if self.operands else found

    def bounds_with(self, known: Mapping[int, Bounds | None]) -> Bounds | None:
        """Return the part's bounds from its operands' bounds."""
        if self.node is None:
            return self.bounds
        below = [known[o] if isinstance(o, int) else exactly(o.value) for o in self.operands]
        return bounds_of(self.node, below)


class Parts:
    """Conditions split into parts; each part can be computed after those before it."""

    def __init__(self, order: Sequence[str], domains: Domains, fixed: Mapping[str, Value]) -> None:
        """`fixed` has the values of all names that are not in the order."""
        self._position = {name: position for position, name in enumerate(order)}
        self._domains = domains
        self._fixed = fixed
        self._known: dict[object, Operand] = {}
        self._columns: dict[str, Table | None] = {}
        self.all: list[Part] = []
        self.is_false = False  # whether some condition is false whatever the parameters are

    def add(self, constraint: Expression) -> None:
        """Split a constraint into parts; raises TooLarge."""
        for condition in _flat(constraint.tree, ast.And):
            try:
                self._add_condition(self._part(condition))
            except (ExpressionError, TypeError, OverflowError):
                self._add_condition(self._tabulated(condition))

    def _add_condition(self, condition: Operand) -> None:
        if isinstance(condition, ast.Constant):
            self.is_false = self.is_false or not truth(condition.value)
            return
        sure, possible = truth_bounds(self.all[condition].bounds)
        self.is_false = self.is_false or not possible
        below = [] if sure else [condition]
        while below:
            part = self.all[below.pop()]
            part.conditions.add(condition)
            below += part.parts

    # ----------------------------------------------------------------- building

    def _part(self, node: ast.expr) -> Operand:
        key = ast.dump(node)
        if key not in self._known:
            self._known[key] = self._made(node)
        return self._known[key]

    def _made(self, node: ast.expr) -> Operand:
        names = _names(node) & self._position.keys()
        if not names:
            return ast.Constant(evaluate(node, self._fixed))
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
        column, found = self._column(name), None
        if column is not None:
            found = evaluate(node, {**self._fixed, name: column})
        elif len(values) <= _MAX_EVALUATIONS:
            found = numbers_of([evaluate(node, {**self._fixed, name: v}) for v in values])
        if found is None:
            raise TypeError("an array holds numbers only")
        table = np.broadcast_to(found, len(values))
        return self._added_table(self._position[name], (), table)

    def _added_table(self, last: int, operands: tuple[Operand, ...], table: Table) -> int:
        ends = exactly(table)
        bounds = None if ends is None else (ends[0].min(), ends[1].max())
        is_whole = bool(np.all((np.floor(table) == table) | (table != table)))
        return self._added(Part(last, operands, None, table, bounds, is_whole))

    def _column(self, name: str) -> Table | None:
        """Return a parameter's values as an array; None unless all are numbers."""
        if name not in self._columns:
            if len(self._domains[name]) > MAX_EDGES:
                raise TooLarge(f"{name} has {len(self._domains[name]):,} values")
            self._columns[name] = numbers_of(self._domains[name])
        return self._columns[name]

    def _is_exact(self, op: ast.operator, terms: Sequence[Operand]) -> bool:
        """Whether a sum or product is the same in any order: whole, and up to MAX_EXACT."""
        if not all(self._is_whole(term) for term in terms):
            return False
        most = []
        for term in terms:
            bounds = self.all[term].bounds if isinstance(term, int) else exactly(term.value)
            most.append(math.inf if bounds is None else max(1.0, *map(abs, map(float, bounds))))
        return (sum(most) if isinstance(op, ast.Add) else math.prod(most)) <= MAX_EXACT

    def _chain(self, node: ast.BinOp | ast.BoolOp, terms: Sequence[Operand]) -> Operand:
        """Combine the terms of an associative operation in the order in which they are known."""
        first, *rest = sorted(terms, key=self._last)
        for term in rest:
            key = (type(node.op), first, term)
            if key not in self._known:
                self._known[key] = self._inner(node, [first, term])
            first = self._known[key]
        return first

    def _inner(self, node: ast.expr, terms: Sequence[Operand]) -> Operand:
        # Numbers in place of the parts show whether the operation has a value for numbers.
        tried = apply(node, [np.ones(1) if isinstance(t, int) else t.value for t in terms])
        parts = [term for term in terms if isinstance(term, int)]
        if not parts:
            return ast.Constant(tried)
        is_whole = isinstance(node, (ast.Compare, ast.BoolOp)) or (
            _gives_whole(node) and all(map(self._is_whole, terms))
        )
        last = max(self.all[part].last for part in parts)
        made = Part(last, tuple(terms), node, is_whole=is_whole)
        made.bounds = made.bounds_with({part: self.all[part].bounds for part in parts})
        return self._added(made)

    def _tabulated(self, node: ast.expr) -> Operand:
        """Add a condition as a table over the indices of its names' values."""
        names = [name for name in self._domains if name in _names(node)]
        domains = {name: self._domains[name] for name in names}
        table = truth_table(partial(evaluate, node), domains, self._fixed, is_strict=False)
        if not names:
            return ast.Constant(bool(table))
        last = max(self._position[name] for name in names)
        return self._added_table(last, tuple(map(self._index, names)), table)

    def _index(self, name: str) -> Operand:
        """Return the part that is the index of a parameter's value."""
        key = (name, "index")
        if key not in self._known:
            table = np.arange(len(self._domains[name]))
            self._known[key] = self._added_table(self._position[name], (), table)
        return self._known[key]

    def _added(self, part: Part) -> int:
        self.all.append(part)
        return len(self.all) - 1

    def _last(self, operand: Operand) -> int:
        return self.all[operand].last if isinstance(operand, int) else -1

    def _is_whole(self, operand: Operand) -> bool:
        if isinstance(operand, int):
            return self.all[operand].is_whole
        return isinstance(operand.value, int)


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
