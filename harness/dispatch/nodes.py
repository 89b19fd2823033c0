"""Binary trees that choose: leaves, splits, and the walks over them.

Walks keep their own stack, because a tree may be deeper than Python's recursion goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array, Indices


class _Walks:
    """Walks over a tree from its root; every one visits a split's low side first."""

    def nodes(self) -> Iterator[Node]:
        """Iterate over all nodes, parents before children."""
        waiting: list[_Walks] = [self]
        while waiting:
            node = waiting.pop()
            assert isinstance(node, (Leaf, Split))
            yield node
            if isinstance(node, Split):
                waiting += [node.high, node.low]

    def leaves(self) -> Iterator[Leaf]:
        """Iterate over the leaves."""
        return (node for node in self.nodes() if isinstance(node, Leaf))

    def splits(self) -> Iterator[Split]:
        """Iterate over the splits, parents before children."""
        return (node for node in self.nodes() if isinstance(node, Split))

    def map(
        self,
        leaf: Callable[[Leaf], Leaf] = lambda leaf: leaf,
        split: Callable[[Split, Node, Node], Node] | None = None,
    ) -> Node:
        """Make a new tree: `leaf` replaces each leaf; `split` gets each split and its new low and
        high sides, by default it keeps column and threshold."""
        rebuilt = split or (lambda old, low, high: Split(old.column, old.threshold, low, high))
        done: list[Node] = []
        for node in reversed(list(self.nodes())):  # children before parents, high before low
            if isinstance(node, Split):
                done.append(rebuilt(node, done.pop(), done.pop()))
            else:
                done.append(leaf(node))
        return done[0]

    def routed(self, values: Array) -> Iterator[tuple[Leaf, Indices]]:
        """Iterate over the leaves, each with the rows of `values`, shape (inputs, columns), that
        reach it."""
        waiting: list[tuple[_Walks, Indices]] = [(self, np.arange(len(values)))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, Leaf):
                yield node, rows
            elif isinstance(node, Split):
                is_low = values[rows, node.column] <= node.threshold
                waiting += [(node.high, rows[~is_low]), (node.low, rows[is_low])]


@dataclass(frozen=True)
class Leaf(_Walks):
    """An end of a tree: what it adds to the cost of each candidate. `rows` counts the inputs it was
    learnt from; 0 if unknown."""

    costs: tuple[float, ...]
    rows: int = 0

    @property
    def first(self) -> int:
        """The index of the least cost."""
        return min(range(len(self.costs)), key=self.costs.__getitem__)


@dataclass(frozen=True)
class Split(_Walks):
    """A comparison: inputs whose column is at most the threshold go to `low`, all others, NaN
    included, to `high`."""

    column: int
    threshold: float
    low: Node
    high: Node


Node = Leaf | Split
