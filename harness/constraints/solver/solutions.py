"""The solutions of constraints over finite domains: their number, and each by its index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solver.elimination import share_out
from harness.constraints.solver.solver import solve
from harness.constraints.solver.tables import MAX_IN_64_BITS, Domains, Table
from harness.core.records import Value

Indices = npt.NDArray[np.int64]


class Solutions:
    """The solutions of constraints over finite domains: their number, and each by its index.

    Constraints that connect too many combinations are `left_out`; solutions need not satisfy them.
    """

    left_out: Sequence[Expression]

    def __init__(
        self, domains: Domains, constraints: Iterable[Expression], fixed: Mapping[str, Value]
    ) -> None:
        """`fixed` has the values of all other names. Raises ExpressionError."""
        self._domains = domains
        solved = solve(domains, constraints, fixed)
        self._roots, self._kept, self.left_out = solved.roots, solved.kept, solved.left_out
        self.count = math.prod(int(root.table) for root in self._roots)

    def __getitem__(self, index: int) -> dict[str, Value]:
        """Return the solution with this index, 0 <= index < count."""
        if not 0 <= index < self.count:
            raise IndexError(f"solution {index} of {self.count}")
        (point,) = self.points([index])
        pairs = zip(self._domains.items(), point.tolist(), strict=True)
        return {name: values[k] for (name, values), k in pairs}

    def points(self, indices: Sequence[int]) -> Indices:
        """Return solutions by their indices, as value indices of shape (indices, domains)."""
        dtype = np.int64 if self.count < MAX_IN_64_BITS else object
        picked: dict[str, Table] = {}
        share_out(self._roots, np.array(indices, dtype=dtype), picked)
        return self._gathered(picked, len(indices))

    def draw(self, rng: np.random.Generator, count: int) -> Indices:
        """Draw solutions, uniform and independent, as value indices of shape (count, domains).

        Needs one solution or more.
        """
        picked: dict[str, Table] = {}
        for root in self._roots:
            if root.child is not None:
                root.child.choose(_below(rng, int(root.table), count), picked)
        return self._gathered(picked, count)

    def _gathered(self, picked: Mapping[str, Table], count: int) -> Indices:
        found = np.empty((count, len(self._domains)), dtype=np.int64)
        for axis, name in enumerate(self._domains):
            kept = self._kept.get(name)
            found[:, axis] = picked[name] if kept is None else kept[picked[name]]
        return found


def _below(rng: np.random.Generator, total: int, count: int) -> Table:
    """Draw independent uniform integers below a total of any size."""
    if total < MAX_IN_64_BITS:
        return rng.integers(total, size=count)
    # With 64 bits more than the total has, no integer is favoured by more than 2^-64.
    size_bytes = total.bit_length() // 8 + 9
    drawn = (int.from_bytes(rng.bytes(size_bytes), "little") % total for _ in range(count))
    return np.fromiter(drawn, dtype=object, count=count)
