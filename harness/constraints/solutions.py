"""The solutions of constraints over finite domains: counted, and each found by its index.

Parameters that no constraint connects are independent; each group of the others becomes a decision
diagram (`diagram`). The size of a diagram depends on the order of its parameters: two orders are
tried, at first with few states. Constraints that are too large for both are left out, those with
the most combinations first.

Solvers that list every solution, like Kernel Tuner's (python-constraint2), need time and memory for
each: 5 s and 1.4 GB for 2.7 million solutions, where this needs a few milliseconds and megabytes
(benchmarks/space.py). Solvers that search one solution after the other, like CP-SAT, neither count
nor draw uniformly.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.constraints import parts
from harness.constraints.arithmetic import numbers_of
from harness.constraints.diagram import MAX_IN_64_BITS, Diagram
from harness.constraints.expression import Expression
from harness.constraints.parts import Domains, Table, TooLarge
from harness.core.errors import ExpressionError
from harness.core.records import Value

Indices = npt.NDArray[np.int64]

MOST_EDGES = (1 << 16, 1 << 20, parts.MAX_EDGES)
"""The most edges of a diagram in each attempt: with a good order, few are enough."""


class Solutions:
    """The solutions of constraints over finite domains: their number, and each by its index.

    What cannot be computed is no solution. Constraints that connect too many combinations are
    `left_out`: only `contains` knows them.
    """

    def __init__(
        self, domains: Domains, constraints: Iterable[Expression], fixed: Mapping[str, Value]
    ) -> None:
        """`fixed` has the values of all other names."""
        self._domains, self._fixed = domains, fixed
        by_size = sorted(constraints, key=lambda c: self._size(c.names))
        alone = [c for c in by_size if not c.names & domains.keys()]
        tied = [c for c in by_size if c.names & domains.keys()]
        self._diagrams, fewest = self._fitting(tied)
        self.left_out: Sequence[Expression] = tied[fewest:]
        in_diagrams = {name for diagram in self._diagrams for name in diagram.order}
        self._free = [name for name in domains if name not in in_diagrams]
        self._is_empty = not all(c.allows(fixed) for c in alone)
        extents = [diagram.count for diagram in self._diagrams]
        extents += [len(domains[name]) for name in self._free]
        self.count = 0 if self._is_empty else math.prod(extents)

    def _size(self, names: Iterable[str]) -> int:
        """Return the number of combinations of the values of names."""
        return math.prod(len(self._domains[name]) for name in names if name in self._domains)

    def _fitting(self, constraints: Sequence[Expression]) -> tuple[list[Diagram], int]:
        """Return the diagrams of as many constraints as possible, the first ones, and how many."""
        diagrams: list[Diagram] = []
        fewest, most, middle = 0, len(constraints), len(constraints)
        while fewest < most:
            attempt = self._attempt(constraints[:middle])
            if attempt is None:
                most = middle - 1
            else:
                fewest, diagrams = middle, attempt
            middle = (fewest + most + 1) // 2
        return diagrams, fewest

    def _attempt(self, constraints: Sequence[Expression]) -> list[Diagram] | None:
        """Return the diagrams of these constraints; None where one is too large."""
        try:
            with np.errstate(all="ignore"):
                return [self._diagram(*each) for each in self._groups(constraints)]
        except TooLarge:
            return None

    def _groups(
        self, constraints: Sequence[Expression]
    ) -> Iterator[tuple[list[str], list[Expression]]]:
        """Yield the names that constraints connect, each group with its constraints."""
        group: dict[str, set[str]] = {}
        for constraint in constraints:
            names = constraint.names & self._domains.keys()
            together = set(names).union(*(group.get(name, ()) for name in names))
            group |= dict.fromkeys(together, together)
        in_order = [group[name] for name in self._domains if name in group]
        for together in {id(names): names for names in in_order}.values():
            own = [c for c in constraints if not together.isdisjoint(c.names)]
            yield [name for name in self._domains if name in together], own

    def _diagram(self, names: Sequence[str], constraints: Sequence[Expression]) -> Diagram:
        """Return the diagram of connected names; raises TooLarge."""
        ties = [tuple(n for n in c.names_in_order if n in names) for c in constraints]
        orders = [self._by_fewest_open(names, ties), self._by_narrowest(ties)]
        for most_edges, order in itertools.product(MOST_EDGES, orders):
            try:
                return Diagram(order, self._domains, constraints, self._fixed, most_edges)
            except TooLarge as error:
                reason = error
        raise reason

    def _by_narrowest(self, ties: Sequence[Sequence[str]]) -> list[str]:
        """Order names by the constraints with the fewest combinations, to know these early."""
        by_size = sorted(ties, key=self._size)
        return list(dict.fromkeys(name for tie in by_size for name in tie))

    def _by_fewest_open(self, names: Sequence[str], ties: Sequence[Sequence[str]]) -> list[str]:
        """Order names so that few combinations are open: of names that still matter later."""
        near = {name: [set(tie) for tie in ties if name in tie] for name in names}
        order: list[str] = []
        left, is_open = dict.fromkeys(names), set[str]()

        def opened(name: str) -> set[str]:
            later = left.keys() - {name}
            return {n for n in {*is_open, name} if any(tie & later for tie in near[n])}

        while left:
            tied = {n for o in is_open for tie in near[o] for n in tie}
            fewest = min(
                (name for name in left if name in tied or tied.isdisjoint(left)),
                key=lambda name: (self._size(opened(name)), len(self._domains[name])),
            )
            is_open = opened(fewest)
            del left[fewest]
            order.append(fewest)
        return order

    # ---------------------------------------------------------------- solutions

    def points(self, indices: Sequence[int]) -> Indices:
        """Return solutions by their indices, as value indices of shape (indices, domains)."""
        index = np.array(indices, dtype=np.int64 if self.count < MAX_IN_64_BITS else object)
        picked: dict[str, Table] = {}
        for diagram in self._diagrams:
            diagram.choose(index % diagram.count, picked)
            index = index // diagram.count
        for name in self._free:
            picked[name] = index % len(self._domains[name])
            index = index // len(self._domains[name])
        return self._gathered(picked, len(indices))

    def draw(self, rng: np.random.Generator, count: int) -> Indices:
        """Draw solutions, uniform and independent, as value indices of shape (count, domains).

        Needs one solution or more.
        """
        picked: dict[str, Table] = {}
        for diagram in self._diagrams:
            diagram.choose(_below(rng, diagram.count, count), picked)
        picked |= {name: _below(rng, len(self._domains[name]), count) for name in self._free}
        return self._gathered(picked, count)

    def _gathered(self, picked: Mapping[str, Table], count: int) -> Indices:
        rows = np.empty((count, len(self._domains)), dtype=np.int64)
        for axis, name in enumerate(self._domains):
            rows[:, axis] = picked[name]
        return rows

    # ------------------------------------------------------------------ judging

    def contains(self, points: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.bool_]:
        """Whether each point satisfies all constraints, also those that are left out."""
        if self._is_empty:
            return np.zeros(len(points), dtype=bool)
        picked = dict(zip(self._domains, points.T, strict=True))
        legal = np.ones(len(points), dtype=bool)
        for diagram in self._diagrams:
            legal &= diagram.contains(picked)
        for constraint in self.left_out:
            rows = np.flatnonzero(legal)
            legal[rows] = self._judged(constraint, {n: c[rows] for n, c in picked.items()})
        return legal

    def _judged(self, constraint: Expression, picked: Mapping[str, Table]) -> Table:
        """Evaluate a constraint on many points: all at once where they are numbers."""
        listed = {
            name: [values[k] for k in picked[name].tolist()]
            for name, values in self._domains.items()
            if name in constraint.names
        }
        columns = {name: numbers_of(values) for name, values in listed.items()}
        if all(column is not None for column in columns.values()):
            try:
                return np.asarray(constraint.holds({**self._fixed, **columns}))
            except ExpressionError:
                pass  # for some points perhaps not
        rows = (dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True))
        return np.array([constraint.allows({**self._fixed, **row}) for row in rows], dtype=bool)

    def nearest(
        self, here: Sequence[int], cost: Callable[[str], Table], rng: random.Random
    ) -> Sequence[int] | None:
        """Return the solution whose values cost the least in all, of `cost` of each value of a
        name, which is 0 for those of `here`; None where there is no solution.

        Without chance: `rng` is for sets of solutions that have several nearest ones.
        """
        if not self.count or self.contains(np.array([here]))[0]:
            return here if self.count else None
        positions = dict(zip(self._domains, here, strict=True))
        for diagram in self._diagrams:
            positions |= diagram.nearest(cost)
        return list(positions.values())


def _below(rng: np.random.Generator, total: int, count: int) -> Table:
    """Draw independent uniform integers below a total of any size."""
    if total < MAX_IN_64_BITS:
        return rng.integers(total, size=count)
    # With 64 bits more than the total has, no integer is favoured by more than 2^-64.
    size_bytes = total.bit_length() // 8 + 9
    drawn = (int.from_bytes(rng.bytes(size_bytes), "little") % total for _ in range(count))
    return np.fromiter(drawn, dtype=object, count=count)
