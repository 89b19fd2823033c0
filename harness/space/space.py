"""`Space`: the legal configurations of one input, as searches, measurers and models use them, and
`Points`: configurations as the indices of their values."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.core.errors import UsageError
from harness.core.program import Launch
from harness.core.records import Config, Value, shown
from harness.space_file import Parameter

PointArray = npt.NDArray[np.signedinteger[Any]]
"""Points as indices of values, shape (points, parameters): 32-bit integers, or 64-bit ones where a
parameter has more values than 32 bits can count."""

_NEAR = 32
_SPREAD = 32
_MAX_DRAWS = 200_000
_DRAW_COST = 32  # of a draw by index, in configurations that are looked up in a set
_ESTIMATE_DRAWS = 20_000
_BATCH = 1 << 14  # points that are drawn and judged together
_REPAIR_CANDIDATES = 64

Costs = Callable[[str], npt.NDArray[np.float64]]
"""From a parameter to the cost of each of its values."""


class Points:
    """The points of the product of some parameters' values, as indices of these."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.extents = tuple(len(p.values) for p in self.parameters)
        self.axis = {p.name: axis for axis, p in enumerate(self.parameters)}
        self.dtype = np.int32 if max(self.extents, default=0) < 2**31 else np.int64

    def why_no_point(self, config: Mapping[str, Value]) -> str | None:
        """Return why a configuration is no point of the product; None if it is one."""
        for name in config:
            if name not in self.axis:
                return f"`{name}` is not a parameter; there are {', '.join(self.axis)}"
        for parameter in self.parameters:
            if parameter.name not in config:
                return f"it has no value for {parameter.name}"
            value = config[parameter.name]
            if parameter.position(value) is None:
                told = repr(value) if isinstance(value, str) else shown(value)
                return f"{parameter.name}={told} is not one of its values"
        return None

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the index of each parameter's value; raises UsageError for an unknown value."""
        return tuple([self._index(p, config[p.name]) for p in self.parameters])

    def encode_all(self, configs: Sequence[Mapping[str, Value]]) -> PointArray:
        """Encode many configurations, shape (configs, parameters)."""
        points = np.empty((len(configs), len(self.parameters)), dtype=self.dtype)
        for axis, p in enumerate(self.parameters):
            points[:, axis] = [self._index(p, config[p.name]) for config in configs]
        return points

    def decode(self, positions: Sequence[int]) -> Config:
        """Return the configuration with these indices; the inverse of `encode`."""
        pairs = zip(self.parameters, positions, strict=True)
        return Config({parameter.name: parameter.values[index] for parameter, index in pairs})

    def _index(self, parameter: Parameter, value: Value) -> int:
        index = parameter.position(value)
        if index is None:
            raise UsageError(f"{parameter.name}={shown(value)} is not one of its values")
        return index


class _SolutionSet(Protocol):
    """Points by index, among them all legal ones: `Solutions` of constraints, or rows.

    Every one is legal unless constraints are `left_out`, which only `contains` knows.
    """

    @property
    def count(self) -> int:
        """The number of these points."""

    @property
    def left_out(self) -> Sequence[object]:
        """The constraints that some of these points break."""

    def points(self, indices: Sequence[int]) -> PointArray:
        """Return the points with these indices, shape (indices, parameters)."""

    def draw(self, rng: np.random.Generator, count: int) -> PointArray:
        """Draw so many points, uniform and independent; needs one or more."""

    def contains(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are legal, shape (points,)."""

    def nearest(self, here: Sequence[int], cost: Costs, rng: random.Random) -> Sequence[int] | None:
        """Return the point whose values cost the least in all, which is 0 for the values of `here`;
        None where there is no point."""


class Space(Points, ABC):
    """The legal configurations among the points of some parameters, for one input.

    `ConstrainedSpace` solves the constraints of a spec, `ListedSpace` lists what a recording
    holds. `parameters` are those that are searched.
    """

    tried_values = 64
    """The most values of a parameter of which `neighbour_points` tries all."""

    @cached_property
    def default(self) -> Config:
        """Every parameter at its default, to start from: the baseline of speed-ups."""
        return Config({p.name: p.default for p in self.named_points.parameters})

    @cached_property
    @abstractmethod
    def solutions(self) -> _SolutionSet:
        """The legal points."""

    # ---------------------------------------------------------------- judging

    @abstractmethod
    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return what is wrong with a configuration, with its values; None if it is legal."""

    def is_point(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration has a value of each parameter, legal or not."""
        return self.named_points.why_no_point(config) is None

    @property
    def named_points(self) -> Points:
        """The points of all parameters that a configuration names, searched or not."""
        return self

    def are_legal(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are legal, shape (points,)."""
        return self.solutions.contains(points)

    def canonical(self, config: Config) -> Config:
        """Set every parameter that does not matter to its default."""
        return config

    def _canonical(self, points: PointArray) -> PointArray:
        """Return the canonical form of many points, shape (points, parameters)."""
        return points

    def is_legal(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration is legal."""
        return self.why_illegal(config) is None

    # --------------------------------------------------------------- counting

    @property
    def raw_count(self) -> int:
        """The number of points, legal or not."""
        return math.prod(self.extents)

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where counting costs too much."""
        return None if self.solutions.left_out else self.solutions.count

    def budget(self, limit: int) -> int:
        """Return how many configurations can be measured within a limit."""
        return limit if self.count is None else min(limit, self.count)

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Estimate the number of legal configurations, with its standard error.

        One success and one failure are added to the share of legal draws (Agresti and Coull,
        1998), so that the error is not 0 where all draws end alike.
        """
        total = self.solutions.count
        if total == 0 or self.count is not None:
            return float(total), 0.0
        indices = [rng.randrange(total) for _ in range(_ESTIMATE_DRAWS)]
        legal = len(self._legal(self.solutions.points(indices)))
        share = (legal + 1) / (_ESTIMATE_DRAWS + 2)
        error = math.sqrt(share * (1 - share) / _ESTIMATE_DRAWS)
        return total * share, total * error

    # ---------------------------------------------------------------- drawing

    def __getitem__(self, index: int) -> Config:
        """Return the legal configuration with this index; needs an exact count."""
        if self.count is None:
            raise UsageError("this space is too large to index its legal configurations")
        if not 0 <= index < self.count:
            raise IndexError(f"configuration {index} of {self.count}")
        return self.decode(self.solutions.points([index])[0].tolist())

    def __iter__(self) -> Iterator[Config]:
        """Yield every legal configuration."""
        total = self.solutions.count
        for begin in range(0, total, _BATCH):
            yield from self._configs(range(begin, min(begin + _BATCH, total)))

    def _configs(self, indices: Sequence[int]) -> Iterator[Config]:
        """Yield the legal ones among the solutions with these indices."""
        return map(self.decode, self._legal(self.solutions.points(indices)).tolist())

    def _legal(self, points: PointArray) -> PointArray:
        return points[self.are_legal(points)] if self.solutions.left_out else points

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Draw distinct legal configurations, uniformly among those not excluded (a set).

        Returns fewer than `count` where there are no more, and, in a space that is too large to
        list or to count, where 200,000 draws in a row find none.
        """
        total = self.solutions.count
        listable = self.count is not None or total <= _MAX_DRAWS
        # Draw for as long as listing everything once would cost, then list.
        patience = total // _DRAW_COST if listable else _MAX_DRAWS
        drawn: dict[Config, None] = {}
        missed, batch = patience if listable and 4 * count > total else 0, count
        while len(drawn) < count and missed < patience:
            tried = dict.fromkeys(self._configs([rng.randrange(total) for _ in range(batch)]))
            new = [config for config in tried if config not in exclude and config not in drawn]
            drawn |= dict.fromkeys(new[: count - len(drawn)])
            missed = 0 if new else missed + batch
            batch = count - len(drawn) if new else min(_BATCH, 2 * batch)
        if len(drawn) < count and listable:
            rest = [c for c in self._all if c not in exclude and c not in drawn]
            drawn |= dict.fromkeys(rng.sample(rest, min(count - len(drawn), len(rest))))
        return list(drawn)

    @cached_property
    def _all(self) -> list[Config]:
        """All legal configurations; only where few are left to draw, or many are wanted."""
        return list(self)

    def sample_points(self, rng: np.random.Generator, count: int) -> PointArray:
        """Draw legal points, uniform and independent, so repeats occur; shape (points, parameters).

        Returns fewer than `count` where nothing is legal, and, in a space that is too large to
        count, where 200,000 draws find fewer.
        """
        batches, drawn, wanted = [self.encode_all([])], 0, count
        while wanted > 0 and self.solutions.count > 0 and drawn < max(count, _MAX_DRAWS):
            more = 1 if self.count is not None else 2 ** len(batches)
            batch = min(_BATCH, wanted * more)
            points = self.solutions.draw(rng, batch).astype(self.dtype)
            batches.append(self._legal(points)[:wanted])
            drawn, wanted = drawn + batch, wanted - len(batches[-1])
        return np.concatenate(batches)

    # ------------------------------------------------------------- neighbours

    def neighbour_points(self, point: PointArray) -> PointArray:
        """Return the legal points that differ from a point, shape (parameters,), in one parameter.

        Parameters that no longer matter then differ too. All values are tried where there are at
        most `tried_values`, else the 32 nearest on each side and 32 spread evenly over all.
        """
        here = self._canonical(point[None, :])[0]
        there = [self._other_indices(axis, int(index)) for axis, index in enumerate(here)]
        which = np.repeat(np.arange(len(here)), list(map(len, there)))
        changed = np.repeat(here[None, :], len(which), axis=0)
        if there:
            changed[np.arange(len(which)), which] = np.concatenate(there)
        changed = self._canonical(changed)
        changed = changed[changed[np.arange(len(which)), which] != here[which]]
        legal: PointArray = changed[self.are_legal(changed)]
        return legal

    def _other_indices(self, axis: int, here: int) -> PointArray:
        extent = self.extents[axis]
        if extent <= self.tried_values:
            points = np.arange(extent - 1, dtype=self.dtype)
            points[here:] += 1
            return points
        near = np.arange(max(0, here - _NEAR), min(extent, here + _NEAR + 1))
        spread = np.arange(_SPREAD) * (extent - 1) // (_SPREAD - 1)
        indices = np.union1d(near, spread)
        return np.array(indices[indices != here], dtype=self.dtype)

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """Return the legal configuration at the least distance, for techniques that propose
        anything.

        Where constraints are left to rejection and that one breaks them, it is the nearest of those
        that differ in one parameter, a uniform sample, and the default. Raises UsageError where
        there is none either.
        """
        here = self._canonical(self.encode_all([config]))[0]

        def cost(name: str) -> npt.NDArray[np.float64]:
            axis = self.axis[name]
            indices = np.arange(self.extents[axis])
            return np.asarray(_step_size(self.parameters[axis], int(here[axis]), indices), float)

        nearest = self.solutions.nearest(here.tolist(), cost, rng)
        if nearest is not None and self.are_legal(np.array([nearest]))[0]:
            return self.decode(nearest)
        near = [*map(self.decode, self.neighbour_points(here).tolist())]
        candidates = [*near, *self.sample(rng, _REPAIR_CANDIDATES), self.default]
        legal = [other for other in candidates if self.is_legal(other)]
        if not legal:
            raise UsageError("no legal configuration was found; check the constraints")
        return min(legal, key=lambda other: self.distance(config, other))

    def distance(self, one: Config, other: Config) -> float:
        """Sum the relative steps on scales, and 1 for any other change."""
        steps = zip(self.parameters, self.encode(one), self.encode(other), strict=True)
        return float(sum(_step_size(parameter, here, there) for parameter, here, there in steps))

    # -------------------------------------------------------------- launching

    @abstractmethod
    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Return the launch of a configuration; raises ExpressionError where a size is no int."""


def _step_size(parameter: Parameter, here: int, there: Any) -> Any:
    """Return the relative step on a scale, and 1 for any other change; `there` is one index or an
    array."""
    away = abs(there - here)
    if parameter.kind in ("boolean", "enum"):
        return away != 0
    return away / max(1, len(parameter.values) - 1)
