"""What a dispatcher computes, independent of the library that learnt it: a sum of trees.

All arithmetic is on IEEE doubles in the order given here, so that generated code agrees with
`Choice.costs` bit for bit. Walks over a tree keep their own stack, because a tree may be deeper
than Python's recursion goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config
from harness.dispatch.matrix import first_applicable
from harness.models.columns import Column, TunedRange, column_values

if TYPE_CHECKING:
    import pandas as pd


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


WORTH_A_TRY = math.log(2.0)
"""A candidate is worth a try if its predicted time is at most twice the least, as a logarithm. On
recorded convolutions, the best of three is within 2 % of the best known, and 4 of 10 inputs need no
try (results/README.md)."""

_LAST = 1e300  # a cost above all others


@dataclass(frozen=True)
class CostTree:
    """A tree whose leaves add to the cost of one candidate, by its index, or of all (None)."""

    root: Node
    candidate: int | None = None


@dataclass(frozen=True)
class Choice:
    """A sum of trees: a candidate's cost is its offset, plus what the trees add, in order.

    The candidate of the least cost is chosen; of equal ones the first. Where it `predicts_times`,
    costs are logarithms of times, up to a constant of the input; else they only sort.
    """

    offsets: tuple[float, ...]
    trees: tuple[CostTree, ...]
    predicts_times: bool = False

    @classmethod
    def in_order(cls, count: int, rows: int = 0) -> Choice:
        """Make the choice that takes candidates in their order, whatever the input."""
        leaf = Leaf(tuple(map(float, range(count))), rows)
        return cls.of_trees([leaf], predicts_times=False)

    @classmethod
    def of_trees(cls, roots: Sequence[Node], predicts_times: bool) -> Choice:
        """Make a choice of trees whose leaves have a cost for each candidate."""
        count = len(next(roots[0].leaves()).costs)
        return cls((0.0,) * count, tuple(map(CostTree, roots)), predicts_times)

    @property
    def tree(self) -> Node | None:
        """The root of the only tree, if there is one that sorts all candidates."""
        is_one = len(self.trees) == 1 and not self.predicts_times and not any(self.offsets)
        return self.trees[0].root if is_one and self.trees[0].candidate is None else None

    def costs(self, values: Array) -> Array:
        """Compute the cost of each candidate, shape (inputs, candidates); `values` has the shape
        (inputs, columns)."""
        costs = np.tile(np.array(self.offsets), (len(values), 1))
        for tree in self.trees:
            own = slice(None) if tree.candidate is None else [tree.candidate]
            for leaf, rows in tree.root.routed(values):
                costs[rows, own] += leaf.costs
        return costs

    def orders(self, values: Array) -> Indices:
        """Sort the candidates for each input, best first, shape (inputs, candidates)."""
        orders: Indices = np.argsort(self.costs(values), axis=1, kind="stable")
        return orders

    def among(self, kept: Sequence[int]) -> Choice:
        """Keep only these candidates. Of a single tree, a split whose sides then choose alike
        becomes a leaf."""
        trees = tuple(
            CostTree(tree.root, None if tree.candidate is None else kept.index(tree.candidate))
            for tree in self.trees
            if tree.candidate is None or tree.candidate in kept
        )
        made = Choice(tuple(self.offsets[i] for i in kept), trees, self.predicts_times)

        def priced(leaf: Leaf) -> Leaf:
            costs = [leaf.costs[index] for index in kept]
            ranks = np.unique(costs, return_inverse=True)[1].astype(float).tolist()
            return Leaf(tuple(costs if made.tree is None else ranks), leaf.rows)

        def merged(split: Split, low: Node, high: Node) -> Node:
            if isinstance(low, Leaf) and isinstance(high, Leaf) and low.costs == high.costs:
                return Leaf(low.costs, low.rows + high.rows)
            return Split(split.column, split.threshold, low, high)

        split = None if made.tree is None else merged
        return replace(
            made,
            trees=tuple(
                CostTree(t.root.map(priced, split)) if t.candidate is None else t
                for t in made.trees
            ),
        )

    def with_last(self) -> Choice:
        """Add a candidate that comes after all others."""

        def priced(leaf: Leaf) -> Leaf:
            return Leaf((*leaf.costs, 0.0 if self.tree is None else _LAST), leaf.rows)

        offset = 0.0 if self.tree is not None else _LAST
        trees = (CostTree(t.root.map(priced)) if t.candidate is None else t for t in self.trees)
        return replace(self, offsets=(*self.offsets, offset), trees=tuple(trees))

    def with_used_columns(self, columns: Sequence[Column]) -> tuple[tuple[Column, ...], Choice]:
        """Keep only the columns that some tree splits on."""
        used = sorted({split.column for tree in self.trees for split in tree.root.splits()})
        new = {column: index for index, column in enumerate(used)}

        def renumbered(old: Split, low: Node, high: Node) -> Node:
            return Split(new[old.column], old.threshold, low, high)

        trees = (replace(tree, root=tree.root.map(split=renumbered)) for tree in self.trees)
        return tuple(columns[column] for column in used), replace(self, trees=tuple(trees))

    @property
    def leaf_count(self) -> int:
        """The leaves of all trees: the size of a choice."""
        return sum(1 for tree in self.trees for _ in tree.root.leaves())


@dataclass(frozen=True)
class DispatchProgram:
    """A dispatcher: input -> configuration.

    `columns` are those that the trees of `choice` split on. `portfolio` holds the candidates, the
    best single one first; `choice` sorts them for an input in the `tuned` range, and the first that
    applies is taken. Outside of the range it is the first of the portfolio that applies. `guards`
    has for each candidate the constraints over features, as expressions of the spec, under which it
    applies; parameters in them have the candidate's values.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[Config, ...]
    choice: Choice
    guards: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class LearntSelector:
    """A choice among the candidates of a matrix.

    `portfolio` has the indices of the candidates that `choice` distinguishes, the best single one
    first; outside of the tuned range the first of them that applies is taken.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[int, ...]
    choice: Choice

    def indices(self, features: pd.DataFrame, applies: Flags) -> Indices:
        """Choose as the program does: a candidate's index for each input, -1 where no member of
        the portfolio applies."""
        members = np.array(self.portfolio)
        orders = self.choice.orders(column_values(self.columns, features))
        chosen = first_applicable(members[orders], applies)
        static = first_applicable(members[None, :], applies)
        is_chosen = tuned_rows(self.tuned, features) & (chosen >= 0)
        indices: Indices = np.where(is_chosen, chosen, static)
        return indices

    def program(
        self, candidates: Sequence[Config], guards: Mapping[Config, tuple[str, ...]] | None = None
    ) -> DispatchProgram:
        """Make the library-free program; `guards` has each candidate's constraints over
        features."""
        configs = tuple(candidates[index] for index in self.portfolio)
        columns, choice = self.choice.with_used_columns(self.columns)
        return DispatchProgram(
            columns=columns,
            tuned=self.tuned,
            portfolio=configs,
            choice=choice,
            guards=tuple((guards or {}).get(config, ()) for config in configs),
        )


def tuned_rows(tuned: Sequence[TunedRange], features: pd.DataFrame) -> Flags:
    """Say which inputs lie in the tuned range, shape (inputs,)."""
    inside = np.ones(len(features), dtype=bool)
    for one in tuned:
        series = features[one.feature]
        if one.words:
            inside &= series.isin(one.words).to_numpy()
        else:
            inside &= ((series >= one.low) & (series <= one.high)).to_numpy()
    return inside
