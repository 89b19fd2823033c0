"""What a technique promises that, asked for alone, has the run to itself."""

from __future__ import annotations

from opentuner.search.technique import SearchTechnique

from harness.core.records import Outcome


class SelfContained(SearchTechnique):  # type: ignore[misc]
    """A published procedure: what it tests, and how many, must be its own doing.

    Asked for alone it starts without the default and without winners of other inputs, nothing
    is drawn beside its proposals, and the run ends when `desired_result` is None. Beside other
    techniques it takes its turns like any of them.
    """

    free_outcomes: frozenset[Outcome] = frozenset()
    """Outcomes that do not count against the test limit, when it has the run to itself."""
