"""The base class of techniques that, alone, have a run to themselves."""

from __future__ import annotations

from opentuner.search.technique import SearchTechnique

from harness.core.records import Outcome


class SelfContained(SearchTechnique):  # type: ignore[misc]
    """A published procedure, which must choose by itself what it tests, and how much.

    Alone it starts without the default and without winners of other inputs, only its proposals
    are tested, and the run ends when `desired_result` is None. Among other techniques it
    alternates with them.
    """

    free_outcomes: frozenset[Outcome] = frozenset()
    """Outcomes that do not count against the test limit when it runs alone."""
