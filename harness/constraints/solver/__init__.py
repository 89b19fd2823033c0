"""Count the solutions of constraints over finite domains, and return any of them by index."""

from harness.constraints.solver.solutions import Solutions
from harness.constraints.solver.tables import Factor, TooLarge, constraint_factor

__all__ = ["Factor", "Solutions", "TooLarge", "constraint_factor"]
