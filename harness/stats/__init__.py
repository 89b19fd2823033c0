"""Statistics of samples: estimates, intervals, tests."""

from harness.stats.estimate import Estimate

__all__ = ["Estimate"]
