"""Statistics of samples: estimates, intervals, tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

NEGLIGIBLE = 0.005
"""A difference of logarithms. Below 0.5 % a difference is not reproducible without many samples,
even on a GPU with locked clocks."""


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval; the function that makes it states the level."""

    value: float
    low: float
    high: float

    def excludes(self, number: float) -> bool:
        """Say whether the number lies outside the interval."""
        return not self.low <= number <= self.high

    @property
    def is_clear(self) -> bool:
        """Whether a ratio's interval excludes 1 and the difference is not negligible."""
        return self.excludes(1) and abs(math.log(self.value)) > NEGLIGIBLE

    def text(self, spec: str, unit: str = "") -> str:
        """Render as `1.12x [1.09, 1.15]`; `spec` formats each number, `unit` follows the value."""
        return f"{self.value:{spec}}{unit} [{self.low:{spec}}, {self.high:{spec}}]"

    @property
    def inverse(self) -> Estimate:
        """One over a ratio above 0, with its interval."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low if self.low > 0 else math.inf)

    @classmethod
    def from_log(cls, mean: float, half_width: float) -> Estimate:
        """Make a ratio from an estimate mean +- half_width of its logarithm."""
        return cls(_exp(mean), _exp(mean - half_width), _exp(mean + half_width))


def _exp(exponent: float) -> float:
    """Raise e to this power; infinity where the result is too large for a float."""
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf
