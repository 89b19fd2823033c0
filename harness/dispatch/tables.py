"""Trees as tables: for code where nested conditions would be too deep, too long or too slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.dispatch.program import Leaf, Node, Split


@dataclass
class Flat:
    """Nodes in preorder: a split's low side is the next node, its high side is at `high`.

    A leaf has the column -1, and its result in `high`, a number in `number`.
    """

    column: list[int] = field(default_factory=list)
    number: list[float] = field(default_factory=list)  # threshold of a split, value of a leaf
    high: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)


def flat(trees: Sequence[Node], result: Callable[[Leaf], int]) -> Flat:
    """All nodes of some trees in one table; `result` of a leaf stands in its `high`."""
    found = Flat()
    for tree in trees:
        found.roots.append(len(found.column))
        waiting: list[tuple[Node, int | None]] = [(tree, None)]
        while waiting:
            node, above = waiting.pop()
            here = len(found.column)
            if above is not None:
                found.high[above] = here
            if isinstance(node, Split):
                found.column.append(node.column)
                found.number.append(node.threshold)
                found.high.append(0)  # known when the low side is written
                waiting += [(node.high, here), (node.low, None)]
            else:
                found.column.append(-1)
                found.number.append(node.value)
                found.high.append(result(node))
    return found


def renumbered(tree: Node, indices: Mapping[int, int]) -> Node:
    """A tree over the columns that are used alone, which have new indices."""
    done: list[Node] = []
    waiting: list[tuple[Node, bool]] = [(tree, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if not isinstance(node, Split):
            done.append(node)
        elif is_ready:
            high, low = done.pop(), done.pop()
            done.append(Split(indices[node.column], node.threshold, low, high))
        else:
            waiting += [(node, True), (node.high, False), (node.low, False)]
    return done[0]


@dataclass(frozen=True)
class Ranked:
    """Trees over ranks: how many of a column's thresholds a number exceeds.

    `nodes` have a column, the rank beyond which the high side is taken, and how many nodes on the
    low side is; the high side is next to it. A leaf, whose rank none exceeds, is followed by
    itself, so that trees of unlike depths can be walked in step, without a branch (Asadi, Lin,
    de Vries: Runtime optimizations for tree-based machine learning models, IEEE TKDE 2014).
    """

    thresholds: tuple[tuple[float, ...], ...]  # by column, ascending
    nodes: tuple[tuple[int, int, int], ...]
    leaves: tuple[Leaf | None, ...]  # by node
    roots: tuple[int, ...]  # by tree
    depths: tuple[int, ...]  # by tree: splits above its deepest leaf


def ranked(trees: Sequence[Node], columns: int) -> Ranked:
    """The trees over so many columns in one table."""
    found: list[set[float]] = [set() for _ in range(columns)]
    for tree in trees:
        for split in _splits(tree):
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


def _splits(tree: Node) -> Iterator[Split]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Split):
            yield node
            waiting += [node.low, node.high]
