"""The inputs whose search has begun, from which the next searches learn."""

from __future__ import annotations

from collections import deque

from harness.core.records import Input

MOST_FINISHED = 500
"""The last inputs that a search looks at, and as many of those before them."""


class EarlierInputs:
    """All inputs, or of very many a part: the last ones, and others spread evenly over the rest.

    So a search costs the same whether it comes after a thousand inputs or after all others.
    """

    def __init__(self, most: int = MOST_FINISHED) -> None:
        self._most = most
        self._count = 0
        self._last: deque[Input] = deque(maxlen=most)
        self._spread: list[tuple[int, Input]] = []  # every _step-th, with its number
        self._step = 1

    def add(self, problem: Input) -> None:
        """Add an input whose search begins."""
        if self._count % self._step == 0:
            self._spread.append((self._count, problem))
        if len(self._spread) > self._most:
            self._spread = self._spread[::2]
            self._step *= 2
        self._last.append(problem)
        self._count += 1

    def to_learn_from(self) -> list[Input]:
        """Return at most twice MOST_FINISHED inputs, in the order in which they began."""
        before_last = self._count - len(self._last)
        return [*(one for number, one in self._spread if number < before_last), *self._last]
