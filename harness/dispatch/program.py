"""What a dispatcher computes, independent of the library that learnt it: columns, trees, a choice.

All arithmetic is on IEEE doubles in the order given here, so that generated code agrees with
`harness.dispatch.learnt.choice_orders` bit for bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.core.records import Config
from harness.dispatch.nodes import Leaf, Node, Split
from harness.models.encoding.columns import Column, TunedRange


@dataclass(frozen=True)
class TreeChoice:
    """One tree; each leaf has the order of the candidates."""

    root: Node

    @property
    def predicts_times(self) -> bool:
        """A tree only sorts the candidates."""
        return False

    @property
    def trees(self) -> tuple[Node, ...]:
        """The one tree."""
        return (self.root,)

    def map_trees(self, change: Callable[[Node], Node]) -> TreeChoice:
        """Make the same choice of changed trees."""
        return TreeChoice(change(self.root))

    def among(self, kept: Sequence[int]) -> TreeChoice:
        """Keep only these candidates; a split whose sides then choose alike becomes a leaf."""
        new = {index: number for number, index in enumerate(kept)}

        def merged(split: Split, low: Node, high: Node) -> Node:
            if isinstance(low, Leaf) and isinstance(high, Leaf) and low.order == high.order:
                return Leaf(order=low.order, rows=low.rows + high.rows)
            return Split(split.column, split.threshold, low, high)

        def ordered(leaf: Leaf) -> Leaf:
            return Leaf(order=tuple(new[m] for m in leaf.order if m in new), rows=leaf.rows)

        return TreeChoice(self.root.map(ordered, merged))


@dataclass(frozen=True)
class EnsembleChoice:
    """Trees for each candidate: its expected cost is its offset plus the sum of its trees."""

    offsets: tuple[float, ...]
    by_candidate: tuple[tuple[Node, ...], ...]

    @property
    def predicts_times(self) -> bool:
        """Costs are logarithms of times, up to a constant of the input."""
        return True

    @property
    def trees(self) -> tuple[Node, ...]:
        """All trees, candidate by candidate."""
        return tuple(itertools.chain.from_iterable(self.by_candidate))

    def map_trees(self, change: Callable[[Node], Node]) -> EnsembleChoice:
        """Make the same choice of changed trees."""
        return replace(self, by_candidate=tuple(tuple(map(change, t)) for t in self.by_candidate))

    def among(self, kept: Sequence[int]) -> EnsembleChoice:
        """Keep only these candidates."""
        return EnsembleChoice(
            tuple(self.offsets[index] for index in kept),
            tuple(self.by_candidate[index] for index in kept),
        )


@dataclass(frozen=True)
class ForestChoice:
    """Trees whose leaves have a cost for each of `count` candidates; a candidate's expected cost is
    the sum over the trees. Where it `predicts_times`, costs are logarithms of times, up to a
    constant of the input."""

    count: int
    trees: tuple[Node, ...]
    predicts_times: bool = True

    def map_trees(self, change: Callable[[Node], Node]) -> ForestChoice:
        """Make the same choice of changed trees."""
        return replace(self, trees=tuple(map(change, self.trees)))

    def among(self, kept: Sequence[int]) -> ForestChoice:
        """Keep only these candidates."""

        def priced(leaf: Leaf) -> Leaf:
            return Leaf(costs=tuple(leaf.costs[index] for index in kept))

        return replace(self, count=len(kept), trees=tuple(tree.map(priced) for tree in self.trees))


Choice = TreeChoice | EnsembleChoice | ForestChoice

WORTH_A_TRY = math.log(2.0)
"""A candidate is worth a try if its predicted time is at most twice the least, as a logarithm. On
recorded convolutions, the best of three is within 2 % of the best known, and 4 of 10 inputs need no
try (results/README.md)."""


def with_used_columns(
    columns: Sequence[Column], choice: Choice
) -> tuple[tuple[Column, ...], Choice]:
    """Keep only the columns that some tree splits on."""
    used = sorted({split.column for tree in choice.trees for split in tree.splits()})
    index_of = {column: index for index, column in enumerate(used)}
    kept = tuple(columns[column] for column in used)
    return kept, choice.map_trees(lambda tree: tree.with_columns(index_of))


@dataclass(frozen=True)
class DispatchProgram:
    """A dispatcher: input -> configuration.

    `columns` are those that the trees of `choice` split on. `portfolio` holds the candidates, which
    `choice` sorts for an input in the `tuned` range; the first that applies is taken. `static` is
    the index of the best single one, which is used where a leaf has nothing better, and for inputs
    outside of the `tuned` range. `guards` has for each candidate the constraints over features, as
    expressions of the spec, under which it applies; parameters in them have the candidate's values.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[Config, ...]
    static: int
    choice: Choice
    guards: tuple[tuple[str, ...], ...]

    def with_static(self, order: Sequence[int]) -> tuple[int, ...]:
        """Append the best single candidate to an order that lacks it."""
        return tuple(dict.fromkeys((*order, self.static)))
