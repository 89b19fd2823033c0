"""The stages of a campaign, one after another, and what they came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.results import LIMITS, RunPlan, Store
from harness.results.ablation import Reduction
from harness.search import EndReason, Searched, SearchOptions
from harness.space import Space
from harness.space_file import Spec
from harness.tuning.crossing import cross_measure, measure_candidates
from harness.tuning.finals import final_reports
from harness.tuning.progress import Display
from harness.tuning.reducing import reduce_winners
from harness.tuning.sampling import Sampling
from harness.tuning.searching import Searching
from harness.tuning.state import State
from harness.tuning.validation import Validation, describe_validation


@dataclass(frozen=True)
class Stages:
    """What follows the search: every winner on every input and few candidates in turn, so many
    finalists of each beside the default (by default two or three), and what of a winner's flags
    is needed."""

    cross: bool = True
    reduce: bool = True
    finalists: int | None = None


class Campaign:
    """The inputs of one spec, tuned in turn with one measurer into one store."""

    def __init__(
        self,
        spec: Spec,
        measurer: Measurer,
        store: Store,
        options: SearchOptions,
        display: Display,
        fresh: bool = False,
        target: float | None = None,
        warm_start: Sequence[Recording] = (),
        stages: Stages | None = None,
    ) -> None:
        """`fresh` begins a new campaign: nothing that was measured before is used again.
        `warm_start` are recordings of the same kernel on other devices, to learn from.

        With a `target` the inputs are not searched but sampled, until a tree predicts times
        with this median relative error (harness.tuning.validation).
        """
        self.spec = spec
        self._measurer = measurer
        self._options = options
        self._target = target
        self.state = State(spec, measurer, store, options, display, self.space, warm_start, fresh)
        self._searching = self.searching(self.state)
        self.sampling = Sampling(self.state)
        self.validation: Validation | None = None
        self.stages = stages or Stages()
        self.reductions: Mapping[Input, Reduction] = {}

    def space(self, given: Input) -> Space:
        """The legal configurations of an input on the measurer's device."""
        return Space.of(self.spec, given, self._measurer.limits, self._measurer.compiler)

    def searching(self, state: State) -> Searching:
        """What searches the inputs."""
        return Searching(state)

    def plan(self, given: Input) -> RunPlan:
        """The run of an input."""
        return self.state.plan(given)

    def check_seeds(self) -> None:
        """Raise UsageError for a person's seed that is legal on no input, or of no use."""
        self._searching.check_seeds()

    def describe_warm_start(self) -> Iterator[str]:
        """Describe each recording of the warm start in a line.

        Raises UsageError for one of which nothing can be used, before anything is measured.
        """
        given = self.spec.inputs[0]
        return self.state.transfer_sources.describe(self.space(given), given)

    def run(self) -> list[InputReport]:
        """Search, cross-measure, measure candidates and finalists in turn; every measurement is
        kept as soon as it is finished."""
        state, store = self.state, self.state.store
        command = store.begin_command(self.spec, self._measurer.environment, state.number)
        if self._target is None:
            self._searching.run()
        else:
            self.validation = self.sampling.run(self._target)
        self._note_limits()
        if self.stages.cross:
            cross_measure(state)
            measure_candidates(state)
        reports = final_reports(state, self.stages.finalists)
        if self.stages.reduce:
            self.reductions = reduce_winners(state, reports)
        store.end_command(command, self._left_out(reports), state.stages)
        return reports

    def _left_out(self, reports: Sequence[InputReport]) -> dict[Input, str]:
        """Inputs that were not measured, or not to the end, and why."""
        unmeasured = {report.given: report.note for report in reports if not report.measured}
        return unmeasured | self.state.left_out

    def _note_limits(self) -> None:
        """Keep the device's numbers with the runs: code that is made of them may need these."""
        limits, store = self._measurer.limits, self.state.store
        if limits is None:
            return
        for run_id in self.state.runs.values():
            store.note_run(run_id, LIMITS, json.dumps(limits.names()))
        store.commit()

    # ------------------------------------------------------------ what it came to

    @property
    def searched(self) -> Mapping[Input, Searched]:
        """How each input's search ended; nothing where the inputs were sampled."""
        return self._searching.searched

    @property
    def left_out(self) -> Mapping[Input, str]:
        """Inputs that could not be measured, and why."""
        return self.state.left_out

    @property
    def replayed(self) -> int:
        """How many tests the database answered."""
        return self.state.replayed

    @property
    def has_ended(self) -> bool:
        """Whether a larger budget would change nothing, since the technique has ended."""
        if self.validation is not None:
            return not self.validation.may_go_on
        ends = [found.ended for found in self.searched.values()]
        return self._options.is_self_contained and not {EndReason.LIMIT, EndReason.TIME} & set(ends)

    def describe_tests(self) -> Iterator[str]:
        """What a technique that has the run to itself came to, in lines; nothing of others."""
        if self.validation is not None:
            yield from describe_validation(self.validation)
        elif self._options.is_self_contained and self.searched:
            tests = sum(found.tests for found in self.searched.values())
            yield (
                f"{self._options.techniques[0]} tested {tests / len(self.searched):.1f} "
                f"configurations an input, {tests} in all; the default and the winners of other "
                "inputs are measured beside them and not counted."
            )

    def measured(self) -> dict[Input, dict[Config, Measurement]]:
        """Of every input, each configuration's measurement by the search."""
        return {given: self.state.measured(given) for given in self.spec.inputs}

    def times(self) -> dict[Input, dict[Config, float]]:
        """Of every input, the median seconds of each configuration; infinity where it failed."""
        return {
            given: {config: m.time_s for config, m in known.items()}
            for given, known in self.measured().items()
        }
