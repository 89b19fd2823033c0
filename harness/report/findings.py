"""Everything that the page tells of one space on one device, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.analysis.coverage import input_reports
from harness.analysis.effects import Effects, Trials, effects_on_time, trials
from harness.analysis.explain import Explanation, explain, samples
from harness.analysis.inputs import InputReport
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.dispatch.candidates import matrix_of
from harness.dispatch.study import Study, learners, study
from harness.models.starchart import TreeTarget
from harness.report.reproducing import Origin
from harness.results.view import Results


@dataclass(frozen=True)
class Findings:
    """What was found; each part is computed when it is first asked for."""

    results: Results
    origin: Origin | None = None

    @property
    def default(self) -> Config:
        """What configurations are told beside."""
        return self.results.default or self.results.campaign.default

    @cached_property
    def reports(self) -> list[InputReport]:
        """What each input came to; last those that were not measured."""
        return input_reports(self.results)

    @cached_property
    def across(self) -> Study | None:
        """What was learnt across inputs; None where there are too few."""
        try:
            return study(matrix_of(self.results), learners())
        except ValueError:
            return None

    @cached_property
    def trials(self) -> Trials:
        """All that was tried, failures included."""
        return trials(self.results)

    @cached_property
    def effects(self) -> Effects | None:
        """What each value does to the time; None where nothing was varied."""
        return effects_on_time(self.trials) if self.trials.parameters else None

    @cached_property
    def explanation(self) -> Explanation | None:
        """What slowdowns depend on; None where there is too little to tell."""
        try:
            return explain(samples(self.results), TreeTarget("slowdown", log=True))
        except UsageError:
            return None
