"""Starchart's sampling: Jia, Shaw, Martonosi, "Starchart: Hardware and Software Optimization
Using Recursive Partitioning Regression Trees", PACT 2013."""

from __future__ import annotations

from typing import Any

from harness.core.records import Outcome
from harness.search.techniques.self_contained import SelfContained

REFUSALS = frozenset({Outcome.ILLEGAL, Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED})
"""Outcomes by which compiler or device refuse a configuration: it never ran to its end, so there
is nothing about it to learn from. A wrong result, a crash and a time-out are failures of what
did run, and count."""


class UniformRandom(SelfContained):
    """Legal configurations, uniformly and without replacement, until there are no more.

    `PureRandom` draws with replacement. Configurations that are refused (REFUSALS) are not
    counted: a test limit of N gives N samples of what can run.
    """

    free_outcomes = REFUSALS

    def desired_configuration(self) -> Any:
        """The next draw; None when all are drawn."""
        return self.manipulator.draw_unmeasured(self.driver.taken)
