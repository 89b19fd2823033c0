"""A factor as an automaton that reads the values of its names one by one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.constraints.solver.tables import Factor, Table


class Automaton:
    """Reads the value indices of a factor's names in a fixed order; the last state is its entry.

    Combinations of the first values that leave the same rest of the table are one state. In state 0
    the entry is 0, whatever follows.
    """

    def __init__(self, factor: Factor, position: Mapping[str, int]) -> None:
        """`position` orders the names."""
        self.factor = factor
        self.names = tuple(sorted(factor.names, key=position.__getitem__))
        table = np.transpose(factor.table, [factor.names.index(name) for name in self.names])
        with_zero = np.concatenate([np.zeros(1, table.dtype), table.reshape(-1)])
        self.entries, states = np.unique(with_zero, return_inverse=True)
        states = states.reshape(-1)[1:].reshape(table.shape)
        steps: list[Table] = []
        for extent in reversed(table.shape):
            step, states = _merged(states.reshape(-1, extent))
            steps.append(step)
        self.steps = dict(zip(self.names, reversed(steps), strict=True))
        self.start = int(states[0])

    @property
    def is_weighted(self) -> bool:
        """Whether its entries are counts, not just true or false."""
        return len(self.entries) > 2 or self.factor.child is not None

    def ends_with(self, name: str) -> bool:
        """Whether this is the last name that the automaton reads."""
        return name == self.names[-1]


def _merged(rows: Table) -> tuple[Table, Table]:
    """Return the distinct rows of small non-negative integers, a row of zeros first, and the index
    of each row among them."""
    with_zero = np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), rows])
    weights = np.random.default_rng(0).integers(2**62, size=rows.shape[1], dtype=np.uint64)
    keys = with_zero.astype(np.uint64) @ (2 * weights + np.uint64(1))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if not np.array_equal(with_zero[first[which]], with_zero):  # two rows with one key
        distinct, which = np.unique(with_zero, axis=0, return_inverse=True)
        return distinct, which.reshape(-1)[1:]
    # The key of zeros is the least.
    return with_zero[first], which[1:]
