"""Trees as tables: for code where nested conditions would be too deep, too long or too slow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.dispatching.program import Leaf, Node, Split

MAX_LEAVES = 64


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


def renumbered(tree: Node, places: Mapping[int, int]) -> Node:
    """A tree over the columns that are used alone, which have new places."""
    done: list[Node] = []
    waiting: list[tuple[Node, bool]] = [(tree, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if not isinstance(node, Split):
            done.append(node)
        elif is_ready:
            high, low = done.pop(), done.pop()
            done.append(Split(places[node.column], node.threshold, low, high))
        else:
            waiting += [(node, True), (node.high, False), (node.low, False)]
    return done[0]


@dataclass(frozen=True)
class Stretch:
    """What to do for a rank of a column: begin with a row of masks (-1: none), then apply the
    events from `begin` to `end`."""

    row: int
    begin: int
    end: int


@dataclass(frozen=True)
class Masks:
    """An ensemble for QuickScorer (Lucchese and others, SIGIR 2015), with rows to begin from.

    Each tree has a word of one bit a leaf. A split whose threshold the input exceeds clears the
    bits of all leaves on its low side; the lowest bit that stays is the leaf that is reached.
    So splits are taken column by column in ascending order of their thresholds, up to the
    input's rank: how many of the column's distinct thresholds it exceeds. So that few are taken,
    a row now and then holds the words of all trees as they are after all splits before it.
    """

    bits: int  # of a word, 32 or 64
    thresholds: tuple[tuple[float, ...], ...]  # by column, ascending
    stretches: tuple[tuple[Stretch, ...], ...]  # by column and rank
    events: tuple[tuple[int, int], ...]  # tree, mask
    rows: tuple[tuple[int, ...], ...]
    values: tuple[tuple[float, ...], ...]  # by tree and leaf


def masks(trees: Sequence[Node], columns: Sequence[int]) -> Masks | None:
    """The tables of an ensemble; None where a tree has more leaves than MAX_LEAVES."""
    listed = [_listed(tree) for tree in trees]
    most = max((len(values) for values, _ in listed), default=1)
    if most > MAX_LEAVES:
        return None
    made = _Rows(32 if most <= 32 else 64, len(trees))
    thresholds, stretches = [], []
    for column in columns:
        found = [
            (threshold, tree, begin, end)
            for tree, (_, splits) in enumerate(listed)
            for where, threshold, begin, end in splits
            if where == column
        ]
        found.sort()
        thresholds.append(tuple(dict.fromkeys(threshold for threshold, *_ in found)))
        stretches.append(tuple(made.column(found)))
    values = tuple(tuple(values) for values, _ in listed)
    return Masks(
        made.bits, tuple(thresholds), tuple(stretches), tuple(made.events), tuple(made.rows), values
    )


def _listed(tree: Node) -> tuple[list[float], list[tuple[int, float, int, int]]]:
    """The values of the leaves from left to right; and of each split its column, its threshold,
    and from which leaf to before which its low side goes."""
    values: list[float] = []
    splits: list[tuple[int, float, int, int]] = []
    waiting: list[Node | tuple[Split, int]] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            values.append(node.value)
        elif isinstance(node, Split):
            waiting += [node.high, (node, len(values)), node.low]
        else:  # its low side is done
            split, begin = node
            splits.append((split.column, split.threshold, begin, len(values)))
    return values, splits


class _Rows:
    """Events and rows as they gather: a row costs what a quarter as many events do (measured)."""

    def __init__(self, bits: int, trees: int) -> None:
        self.bits = bits
        self.events: list[tuple[int, int]] = []
        self.rows: list[tuple[int, ...]] = []
        self._trees = trees

    def column(self, found: Sequence[tuple[float, int, int, int]]) -> list[Stretch]:
        """Add the splits of a column, in ascending order; the stretches of its ranks."""
        everything = (1 << self.bits) - 1
        words = [everything] * self._trees
        row, begin = -1, len(self.events)
        stretches = [Stretch(row, begin, begin)]
        for _, same in itertools.groupby(found, key=lambda split: split[0]):
            for _, tree, first, end in same:
                mask = everything & ~((1 << end) - (1 << first))
                self.events.append((tree, mask))
                words[tree] &= mask
            if len(self.events) - begin >= max(self._trees // 4, 16):
                self.rows.append(tuple(words))
                row, begin = len(self.rows) - 1, len(self.events)
            stretches.append(Stretch(row, begin, len(self.events)))
        return stretches
