"""Ensembles, forests, and trees too deep for nested conditions, as tables of a Python module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.formulas import Formula, is_guarded
from harness.dispatch.nodes import Leaf
from harness.dispatch.program import EnsembleChoice, ForestChoice, TreeChoice
from harness.dispatch.rendering import in_lines
from harness.dispatch.tables import Flat, flat

_LEAF = '''

def _leaf(node, numbers):
    """Walk from a node to its leaf."""
    column = _COLUMN[node]
    while column >= 0:
        node = node + 1 if numbers[column] <= _NUMBER[node] else _HIGH[node]
        column = _COLUMN[node]
    return node
'''

_ENSEMBLE_COSTS = '''

def _costs(indices, numbers):
    """Compute the expected costs of configurations, by their indices."""
    costs = {}
    for index in indices:
        cost = _OFFSETS[index]
        for root in _ROOTS[index]:
            cost += _NUMBER[_leaf(root, numbers)]
        costs[index] = cost
    return costs
'''

_FOREST_COSTS = '''

def _costs(indices, numbers):
    """Compute the expected costs of configurations, by their indices."""
    costs = [0.0] * len(PORTFOLIO)
    for root in _ROOTS:
        more = _COSTS[_HIGH[_leaf(root, numbers)]]
        costs = [cost + own for cost, own in zip(costs, more)]
    return {index: costs[index] for index in indices}
'''


def deep_tree(
    dispatcher: Dispatcher, choice: TreeChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write one tree as tables whose leaves name a row of candidates; also return the lines that
    use them."""
    orders: dict[tuple[int, ...], int] = {}
    table = flat(
        choice.trees,
        lambda leaf: orders.setdefault(dispatcher.orders(leaf.order), len(orders)),
    )
    has_guards = is_guarded(dispatcher.guards)
    found = "_ORDERS[_HIGH[_leaf(0, numbers)]]"
    chosen = f"_first({found}, {arguments})" if has_guards else found
    return [
        *_walk(table),
        "# The candidates of each leaf.",
        *_tuple("_ORDERS", [order if has_guards else order[0] for order in orders]),
    ], [f"return {chosen}"]


def ensemble(
    dispatcher: Dispatcher, choice: EnsembleChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write all candidates' trees as tables; also return the lines that find the least cost among
    the candidates that apply."""
    table = flat(choice.trees, lambda leaf: 0)
    left = iter(table.roots)
    own = [tuple(next(left) for _ in trees) for trees in choice.by_candidate]
    return [
        *_walk(table),
        "# For each configuration the roots of its trees, and the offset of their sum.",
        *_tuple("_ROOTS", own),
        *_tuple("_OFFSETS", map(float, choice.offsets)),
        _ENSEMBLE_COSTS,
    ], [
        *costs_lines(dispatcher.guards, arguments),
        "return min(costs, key=costs.__getitem__)",
    ]


def forest(
    dispatcher: Dispatcher, choice: ForestChoice, arguments: str
) -> tuple[list[str], list[str]]:
    """Write the trees that all candidates share as tables; also return the lines that find the
    least cost."""
    rows: list[tuple[float, ...]] = []

    def row(leaf: Leaf) -> int:
        rows.append(leaf.costs)
        return len(rows) - 1

    table = flat(choice.trees, row)
    return [
        *_walk(table),
        "# The roots of the trees; for each leaf the costs it adds, one a configuration.",
        *_tuple("_ROOTS", table.roots),
        *_tuple("_COSTS", rows),
        _FOREST_COSTS,
    ], [
        *costs_lines(dispatcher.guards, arguments),
        "return min(costs, key=costs.__getitem__)",
    ]


def costs_lines(guards: Sequence[Formula], arguments: str) -> list[str]:
    """Write the lines that compute the expected cost of each candidate that applies."""
    if not is_guarded(guards):
        return ["costs = _costs(range(len(PORTFOLIO)), numbers)"]
    return [
        "indices = range(len(PORTFOLIO))",
        f"indices = [index for index in indices if applies(index, {arguments})]",
        "if not indices:",
        f"    _first((), {arguments})  # raises LookupError",
        "costs = _costs(indices, numbers)",
    ]


def _walk(table: Flat) -> Iterator[str]:
    yield _LEAF
    yield "\n"
    yield "# Nodes: the low side of a split is the next node; a leaf has the column -1."
    yield from _tuple("_COLUMN", table.column)
    yield from _tuple("_NUMBER", map(float, table.number))
    yield from _tuple("_HIGH", table.high)


def _tuple(name: str, items: Iterable[object]) -> Iterator[str]:
    yield f"{name} = ("
    yield from (f"    {line}" for line in in_lines([repr(item) for item in items]))
    yield ")"
