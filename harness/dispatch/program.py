"""What a dispatcher computes, free of the library that learnt it: columns, trees, a choice.

All arithmetic is that of IEEE doubles, in the order given here, so that generated code agrees
with `DispatchProgram.order` bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.constraints.expression import Expression
from harness.core.records import Config, Value
from harness.models.encoding.columns import Column, TunedRange


@dataclass(frozen=True)
class Leaf:
    """Where a tree ends: the number it predicts, or one for each candidate, or the candidates by
    their indices, the best first. `rows` says how many inputs it was learnt from, 0 where that is
    not told."""

    value: float = 0.0
    order: tuple[int, ...] = ()
    rows: int = 0
    costs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Split:
    """Inputs of which the column is at most the threshold go to `low`, all others, NaN as well,
    to `high`."""

    column: int
    threshold: float
    low: Node
    high: Node


Node = Leaf | Split


def reached(node: Node, numbers: Sequence[float]) -> Leaf:
    """The leaf that an input reaches, by the numbers of its columns."""
    while isinstance(node, Split):
        node = node.low if numbers[node.column] <= node.threshold else node.high
    return node


@dataclass(frozen=True)
class TreeChoice:
    """One tree whose leaves have the order of the candidates."""

    root: Node

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """The candidates, the best first."""
        return reached(self.root, numbers).order


@dataclass(frozen=True)
class EnsembleChoice:
    """Trees of each candidate whose sum, from `offsets`, is the candidate's expected cost."""

    offsets: tuple[float, ...]
    trees: tuple[tuple[Node, ...], ...]

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """The candidates, the least cost first; of equal costs in their own order."""
        costs = []
        for offset, trees in zip(self.offsets, self.trees, strict=True):
            cost = offset
            for tree in trees:
                cost += reached(tree, numbers).value
            costs.append(cost)
        return _by_cost(costs)


@dataclass(frozen=True)
class ForestChoice:
    """Trees whose leaves have a cost for each of `count` candidates; the sum over the trees, from
    0, is what a candidate is expected to cost, but for a factor."""

    count: int
    trees: tuple[Node, ...]

    def order(self, numbers: Sequence[float]) -> tuple[int, ...]:
        """As EnsembleChoice has it."""
        costs = [0.0] * self.count
        for tree in self.trees:
            for index, cost in enumerate(reached(tree, numbers).costs):
                costs[index] += cost
        return _by_cost(costs)


def _by_cost(costs: Sequence[float]) -> tuple[int, ...]:
    return tuple(sorted(range(len(costs)), key=costs.__getitem__))


Choice = TreeChoice | EnsembleChoice | ForestChoice


@dataclass(frozen=True)
class DispatchProgram:
    """A dispatcher: input -> configuration.

    `portfolio` are the candidates; `static` is the index of the best single one, which stands in
    for all that are unsure, and for inputs outside of what was `tuned`. `guards` have of each
    candidate the constraints over features, in words of the spec's expressions, that must hold
    for it to apply; parameters in them have the candidate's values.
    """

    columns: tuple[Column, ...]
    tuned: tuple[TunedRange, ...]
    portfolio: tuple[Config, ...]
    static: int
    choice: Choice
    guards: tuple[tuple[str, ...], ...]

    def is_tuned(self, given: Mapping[str, Value]) -> bool:
        """Whether an input lies in the range that was tuned."""
        return all(tuned.holds(given[tuned.feature]) for tuned in self.tuned)

    def order(self, given: Mapping[str, Value]) -> tuple[int, ...]:
        """Candidates by preference, the best single one last; the first that applies is taken."""
        if not self.is_tuned(given):
            return (self.static,)
        chosen = self.choice.order([column.of(given) for column in self.columns])
        return self.with_static(chosen)

    def with_static(self, order: Sequence[int]) -> tuple[int, ...]:
        """An order of candidates with the best single one behind it, unless it is there."""
        return tuple(dict.fromkeys((*order, self.static)))

    def applies(self, index: int, given: Mapping[str, Value]) -> bool:
        """Whether the guards of a candidate hold for an input."""
        values = {**self.portfolio[index], **given}
        return all(bool(_parsed(guard).holds(values)) for guard in self.guards[index])

    def select(self, given: Mapping[str, Value]) -> int | None:
        """The index of the configuration for an input: the first of its order that applies, else
        the first of the portfolio that does; None where none does."""
        indices = dict.fromkeys((*self.order(given), *range(len(self.portfolio))))
        return next((index for index in indices if self.applies(index, given)), None)


@lru_cache(maxsize=1024)
def _parsed(guard: str) -> Expression:
    return Expression(guard)
