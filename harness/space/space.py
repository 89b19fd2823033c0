"""`Space`: the legal configurations of one input, as searches, measurers and models use them."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.program import Launch
from harness.core.records import Config, Value
from harness.space.draws import Draws
from harness.space.points import PointArray, Points, step_size
from harness.space_file import Parameter


class Space(ABC):
    """The legal configurations of some parameters for one input.

    `ConstrainedSpace` solves the constraints of a spec, `ListedSpace` lists what a recording
    holds. An implementation sets `parameters`, those that are searched, and `points`, their
    product.
    """

    parameters: tuple[Parameter, ...]
    points: Points

    @property
    @abstractmethod
    def default(self) -> Config:
        """The configuration to start from, and the baseline of speed-ups."""

    @cached_property
    @abstractmethod
    def draws(self) -> Draws:
        """The legal configurations by index, and samples of them."""

    # ---------------------------------------------------------------- judging

    @abstractmethod
    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return what is wrong with a configuration, with its values; None if it is legal."""

    def is_point(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration has a value of each parameter, legal or not."""
        return self.points.why_no_point(config) is None

    @abstractmethod
    def are_legal(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are legal, shape (points,)."""

    @abstractmethod
    def canonical(self, config: Config) -> Config:
        """Set every parameter that does not matter to its default."""

    def is_legal(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration is legal."""
        return self.why_illegal(config) is None

    def legal_among(self, configs: Sequence[Config]) -> list[Config]:
        """Select the legal ones of many configurations, in a tenth of the time of `is_legal`."""
        points = list(filter(self.is_point, configs))
        legal = self.are_legal(self.encode_all(points)) if points else ()
        return [config for config, is_legal in zip(points, legal, strict=True) if is_legal]

    # --------------------------------------------------------------- counting

    @property
    def raw_count(self) -> int:
        """The number of points, legal or not."""
        return math.prod(self.points.extents)

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where counting costs too much."""
        return self.draws.count

    def budget(self, limit: int) -> int:
        """Return how many configurations can be measured within a limit."""
        return limit if self.count is None else min(limit, self.count)

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Estimate the number of legal configurations, with its standard error."""
        return self.draws.estimate_count(rng)

    # ---------------------------------------------------------------- drawing

    def __getitem__(self, index: int) -> Config:
        """Return the legal configuration with this index; needs an exact count."""
        return self.draws[index]

    def __iter__(self) -> Iterator[Config]:
        """Yield every legal configuration."""
        return iter(self.draws)

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Draw distinct legal configurations uniformly; see Draws.sample."""
        return self.draws.sample(rng, count, exclude)

    def sample_points(self, rng: np.random.Generator, count: int) -> PointArray:
        """Draw legal points uniformly, with repeats; see Draws.sample_points."""
        return self.draws.sample_points(rng, count)

    # ------------------------------------------------------------- neighbours

    @abstractmethod
    def neighbour_points(self, point: PointArray) -> PointArray:
        """Return the legal points that differ from a point, shape (parameters,), in one parameter.

        For a parameter with many values, the nearest ones and some others are tried.
        """

    @abstractmethod
    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """Return a legal configuration near an illegal one, for techniques that propose anything.

        Raises UsageError where nothing is legal.
        """

    def distance(self, one: Config, other: Config) -> float:
        """Sum the relative steps on scales, and 1 for any other change."""
        steps = zip(self.parameters, self.encode(one), self.encode(other), strict=True)
        return float(sum(step_size(parameter, here, there) for parameter, here, there in steps))

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """Return the index of each parameter's value, in the order of the parameters."""
        return self.points.encode(config)

    def encode_all(self, configs: Sequence[Mapping[str, Value]]) -> PointArray:
        """Encode many configurations, shape (configs, parameters).

        Raises UsageError for a value that a parameter does not have.
        """
        return self.points.encode_all(configs)

    @abstractmethod
    def decode(self, positions: Sequence[int]) -> Config:
        """Return the configuration with these indices; the inverse of `encode`."""

    # -------------------------------------------------------------- launching

    @abstractmethod
    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Return the launch of a configuration; raises ExpressionError where a size is no int."""
