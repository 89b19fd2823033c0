"""Constraints over finite domains: how many solutions there are, and any of them by its index."""

from harness.constraints.solver.solutions import Solutions
from harness.constraints.solver.tables import Factor, TooLarge, constraint_factor

__all__ = ["Factor", "Solutions", "TooLarge", "constraint_factor"]
