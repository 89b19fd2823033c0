"""What a dispatcher computes, independent of the library that learnt it: columns, trees, a choice.

All arithmetic is on IEEE doubles in the order given here, so that generated code agrees with
`DispatchProgram.order` bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from harness.constraints.expression import Expression
from harness.core.records import Config, Value
from harness.dispatch.nodes import Leaf, Node, Split
from harness.models.encoding.columns import Column, TunedRange


@dataclass(frozen=True)
class TreeChoice:
    """One tree; each leaf has the order of the candidates."""

    root: Node

    @property
    def trees(self) -> tuple[Node, ...]:
        """The one tree."""
        return (self.root,)

    def map_trees(self, change: Callable[[Node], Node]) -> TreeChoice:
        """Make the same choice of changed trees."""
        return TreeChoice(change(self.root))

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """Sort the candidates, best first."""
        return self.root.reached(numbers).order

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
    def trees(self) -> tuple[Node, ...]:
        """All trees, candidate by candidate."""
        return tuple(itertools.chain.from_iterable(self.by_candidate))

    def map_trees(self, change: Callable[[Node], Node]) -> EnsembleChoice:
        """Make the same choice of changed trees."""
        return replace(self, by_candidate=tuple(tuple(map(change, t)) for t in self.by_candidate))

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """Sort the candidates by cost; equal ones keep their order."""
        costs = []
        for offset, trees in zip(self.offsets, self.by_candidate, strict=True):
            cost = offset
            for tree in trees:
                cost += tree.reached(numbers).value
            costs.append(cost)
        return _by_cost(costs)

    def among(self, kept: Sequence[int]) -> EnsembleChoice:
        """Keep only these candidates."""
        return EnsembleChoice(
            tuple(self.offsets[index] for index in kept),
            tuple(self.by_candidate[index] for index in kept),
        )


@dataclass(frozen=True)
class ForestChoice:
    """Trees whose leaves have a cost for each of `count` candidates; a candidate's expected cost is
    the sum over the trees, up to a factor."""

    count: int
    trees: tuple[Node, ...]

    def map_trees(self, change: Callable[[Node], Node]) -> ForestChoice:
        """Make the same choice of changed trees."""
        return replace(self, trees=tuple(map(change, self.trees)))

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """Sort the candidates by cost; equal ones keep their order."""
        costs = [0.0] * self.count
        for tree in self.trees:
            for index, cost in enumerate(tree.reached(numbers).costs):
                costs[index] += cost
        return _by_cost(costs)

    def among(self, kept: Sequence[int]) -> ForestChoice:
        """Keep only these candidates."""

        def priced(leaf: Leaf) -> Leaf:
            return Leaf(costs=tuple(leaf.costs[index] for index in kept))

        return ForestChoice(len(kept), tuple(tree.map(priced) for tree in self.trees))


def _by_cost(costs: Sequence[float]) -> tuple[int, ...]:
    return tuple(sorted(range(len(costs)), key=costs.__getitem__))


Choice = TreeChoice | EnsembleChoice | ForestChoice


def used_columns(choice: Choice) -> tuple[int, ...]:
    """Return the indices of the columns that some tree splits on, ascending."""
    return tuple(sorted({split.column for tree in choice.trees for split in tree.splits()}))


@dataclass(frozen=True)
class DispatchProgram:
    """A dispatcher: input -> configuration.

    `portfolio` holds the candidates. `static` is the index of the best single one, which is used
    where a leaf has nothing better, and for inputs outside of the `tuned` range. `guards` has for
    each candidate the constraints over features, as expressions of the spec, under which it
    applies; parameters in them have the candidate's values.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[Config, ...]
    static: int
    choice: Choice
    guards: tuple[tuple[str, ...], ...]

    def is_tuned(self, features: Mapping[str, Value]) -> bool:
        """Say whether an input lies in the tuned range."""
        return all(tuned.holds(features[tuned.feature]) for tuned in self.tuned)

    def order(self, features: Mapping[str, Value]) -> tuple[int, ...]:
        """Sort the candidates for an input, best first, the best single one last; the first that
        applies is taken."""
        if not self.is_tuned(features):
            return (self.static,)
        return self.with_static(self.choice.order([column.of(features) for column in self.columns]))

    def with_static(self, order: Sequence[int]) -> tuple[int, ...]:
        """Append the best single candidate to an order that lacks it."""
        return tuple(dict.fromkeys((*order, self.static)))

    def applies(self, index: int, features: Mapping[str, Value]) -> bool:
        """Say whether the guards of a candidate hold for an input."""
        values = {**self.portfolio[index], **features}
        return all(bool(_parsed(guard).holds(values)) for guard in self.guards[index])

    def select(self, features: Mapping[str, Value]) -> int | None:
        """Return the index of the configuration for an input: the first of its order that applies,
        else the first of the portfolio that does; None if none does."""
        indices = dict.fromkeys((*self.order(features), *range(len(self.portfolio))))
        return next((index for index in indices if self.applies(index, features)), None)


@lru_cache(maxsize=1024)
def _parsed(guard: str) -> Expression:
    return Expression(guard)
