"""Starchart's sampling: Jia, Shaw, Martonosi, "Starchart: Hardware and Software Optimization
Using Recursive Partitioning Regression Trees", PACT 2013."""

from __future__ import annotations

from typing import Any

from harness.core.records import Outcome
from harness.search.techniques.self_contained import SelfContained

REFUSALS = frozenset({Outcome.ILLEGAL, Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED})
"""Outcomes with which compiler or device refuse a configuration: it never ran, so there is nothing
to learn. A wrong result, a crash and a timeout are failures of a run, and count."""


class UniformRandom(SelfContained):
    """Draws legal configurations uniformly, without replacement, until there are no more.

    `PureRandom` draws with replacement. Refusals (REFUSALS) are not counted: a test limit of N
    gives N samples of configurations that can run.
    """

    free_outcomes = REFUSALS

    def desired_configuration(self) -> Any:
        """Draw the next configuration; None when all are drawn."""
        return self.manipulator.draw_unmeasured(self.driver.taken)
