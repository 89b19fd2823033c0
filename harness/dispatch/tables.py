"""Trees as tables, for code where nested conditions would be too deep, too long or too slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.dispatch.nodes import Leaf, Node, Split


@dataclass
class Flat:
    """Nodes in preorder: the low side of a split is the next node, its high side is at `high`.

    A leaf has the column -1, its result in `high`, and its value in `number`.
    """

    column: list[int] = field(default_factory=list)
    number: list[float] = field(default_factory=list)  # threshold of a split, value of a leaf
    high: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)


def flat(trees: Sequence[Node], result: Callable[[Leaf], int]) -> Flat:
    """Write all nodes of some trees into one table; `result` gives a leaf's entry in `high`."""
    table = Flat()
    for tree in trees:
        table.roots.append(len(table.column))
        without_high: list[int] = []
        is_after_leaf = False
        for node in tree.nodes():
            if is_after_leaf:  # this is the high side of the last split that lacks one
                table.high[without_high.pop()] = len(table.column)
            is_after_leaf = isinstance(node, Leaf)
            if isinstance(node, Split):
                without_high.append(len(table.column))
            table.column.append(node.column if isinstance(node, Split) else -1)
            table.number.append(node.threshold if isinstance(node, Split) else node.value)
            table.high.append(0 if isinstance(node, Split) else result(node))
    return table


@dataclass(frozen=True)
class Ranked:
    """Trees over ranks: a number's rank counts its column's thresholds that the number exceeds.

    A node has a column, the rank beyond which the high side is taken, and how many nodes further
    the low side is; the high side is next to it. A leaf, whose rank is never exceeded, steps to
    itself, so that trees of different depths can be walked in step, without a branch (Asadi, Lin,
    de Vries: Runtime optimizations for tree-based machine learning models, IEEE TKDE 2014).
    """

    thresholds: tuple[tuple[float, ...], ...]  # by column, ascending
    nodes: tuple[tuple[int, int, int], ...]
    leaves: tuple[Leaf | None, ...]  # by node
    roots: tuple[int, ...]  # by tree
    depths: tuple[int, ...]  # by tree: splits above its deepest leaf


def ranked(trees: Sequence[Node], columns: int) -> Ranked:
    """Write the trees over this many columns into one table, which has at least one column."""
    found: list[set[float]] = [set() for _ in range(max(columns, 1))]
    for tree in trees:
        for split in tree.splits():
            found[split.column].add(split.threshold)
    ranks = [{number: rank for rank, number in enumerate(sorted(own))} for own in found]
    never = max(map(len, found), default=0)  # no rank exceeds it
    nodes: list[tuple[int, int, int]] = []
    leaves: list[Leaf | None] = []
    roots, depths = [], []
    for tree in trees:
        roots.append(len(nodes))
        level, depth = [tree], -1
        while level:
            below: list[Node] = []
            for index, node in enumerate(level):
                if isinstance(node, Split):
                    step = len(level) - index + len(below)
                    nodes.append((node.column, ranks[node.column][node.threshold], step))
                    below += [node.low, node.high]
                else:
                    nodes.append((0, never, 0))
                leaves.append(node if isinstance(node, Leaf) else None)
            level, depth = below, depth + 1
        depths.append(depth)
    thresholds = tuple(tuple(sorted(own)) for own in found)
    return Ranked(thresholds, tuple(nodes), tuple(leaves), tuple(roots), tuple(depths))
