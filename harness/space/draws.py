"""Legal configurations by index, and uniform samples of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.records import Config
from harness.space.points import PointArray, Points

_MAX_DRAWS = 200_000
_DRAW_COST = 32  # of a draw by index, in configurations that are looked up in a set
_ESTIMATE_DRAWS = 20_000
_BATCH = 1 << 14  # points that are drawn and judged together


class Candidates(Protocol):
    """Points by index, among them all legal ones, as `Solutions` of constraints are."""

    count: int

    def points(self, indices: Sequence[int]) -> PointArray:
        """Return the points with these indices, shape (indices, parameters)."""

    def draw(self, rng: np.random.Generator, count: int) -> PointArray:
        """Draw so many points, uniform and independent; needs one candidate or more."""


Legality = Callable[[PointArray], npt.NDArray[np.bool_]]
"""From points, shape (points, parameters), to whether each is legal, shape (points,)."""


class Draws:
    """The legal ones among candidates.

    `judge` is None where every candidate is legal; only then their number is known exactly.
    """

    def __init__(
        self,
        points: Points,
        candidates: Candidates,
        decode: Callable[[Sequence[int]], Config],
        judge: Legality | None = None,
    ) -> None:
        self._points = points
        self._candidates = candidates
        self._decode = decode
        self._judge = judge

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where it is not known."""
        return self._candidates.count if self._judge is None else None

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Estimate the number of legal configurations, with its standard error.

        One success and one failure are added to the share of legal draws (Agresti and Coull,
        1998), so that the error is not 0 where all draws end alike.
        """
        total = self._candidates.count
        if total == 0 or self._judge is None:
            return float(total), 0.0
        indices = [rng.randrange(total) for _ in range(_ESTIMATE_DRAWS)]
        legal = len(self._legal(self._candidates.points(indices)))
        share = (legal + 1) / (_ESTIMATE_DRAWS + 2)
        error = math.sqrt(share * (1 - share) / _ESTIMATE_DRAWS)
        return total * share, total * error

    def __getitem__(self, index: int) -> Config:
        """Return the legal configuration with this index; needs an exact count."""
        if self._judge is not None:
            raise UsageError("this space is too large to index its legal configurations")
        if not 0 <= index < self._candidates.count:
            raise IndexError(f"configuration {index} of {self._candidates.count}")
        return self._decode(self._candidates.points([index])[0].tolist())

    def __iter__(self) -> Iterator[Config]:
        """Yield every legal configuration."""
        total = self._candidates.count
        for begin in range(0, total, _BATCH):
            yield from self._configs(range(begin, min(begin + _BATCH, total)))

    def _configs(self, indices: Sequence[int]) -> Iterator[Config]:
        """Yield the legal ones among the candidates with these indices."""
        return map(self._decode, self._legal(self._candidates.points(indices)).tolist())

    def _legal(self, points: PointArray) -> PointArray:
        return points if self._judge is None else points[self._judge(points)]

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Draw distinct legal configurations, uniformly among those not excluded (a set).

        Returns fewer than `count` where there are no more, and, in a space that is too large to
        list or to count, where 200,000 draws in a row find none.
        """
        total = self._candidates.count
        listable = self._judge is None or total <= _MAX_DRAWS
        # Draw for as long as listing everything once would cost, then list.
        patience = total // _DRAW_COST if listable else _MAX_DRAWS
        found: dict[Config, None] = {}
        missed, batch = patience if listable and 4 * count > total else 0, count
        while len(found) < count and missed < patience:
            drawn = self._configs([rng.randrange(total) for _ in range(batch)])
            distinct = dict.fromkeys(drawn)
            new = [config for config in distinct if config not in exclude and config not in found]
            found |= dict.fromkeys(new[: count - len(found)])
            missed = 0 if new else missed + batch
            batch = count - len(found) if new else min(_BATCH, 2 * batch)
        if len(found) < count and listable:
            rest = [c for c in self._listed if c not in exclude and c not in found]
            found |= dict.fromkeys(rng.sample(rest, min(count - len(found), len(rest))))
        return list(found)

    @cached_property
    def _listed(self) -> list[Config]:
        """All legal configurations; only where few are left to find, or many are wanted."""
        return list(self)

    def sample_points(self, rng: np.random.Generator, count: int) -> PointArray:
        """Draw legal points, uniform and independent, so repeats occur; shape (points, parameters).

        Returns fewer than `count` where nothing is legal, and, in a space that is too large to
        count, where 200,000 draws find fewer.
        """
        found, drawn, wanted = [self._points.encode_all([])], 0, count
        while wanted > 0 and self._candidates.count > 0 and drawn < max(count, _MAX_DRAWS):
            batch = min(_BATCH, wanted if self._judge is None else wanted * 2 ** len(found))
            points = self._candidates.draw(rng, batch).astype(self._points.dtype)
            found.append(self._legal(points)[:wanted])
            drawn, wanted = drawn + batch, wanted - len(found[-1])
        return np.concatenate(found)
