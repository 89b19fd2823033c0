"""What the stages of a campaign share: where it measures, and what is known of each input."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.analysis.inputs import fastest
from harness.core.errors import HostModuleError
from harness.core.machine import notes
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.results import LEFT_OUT, RunPlan, Store, Stored
from harness.search import SearchOptions
from harness.search.transfer.sources import TransferSources, stored_technique
from harness.space import Space
from harness.space_file import Spec
from harness.tuning.progress import Display


class State:
    """One spec, measured with one measurer into one store."""

    def __init__(
        self,
        spec: Spec,
        measurer: Measurer,
        store: Store,
        options: SearchOptions,
        display: Display,
        space: Callable[[Input], Space],
        warm_start: Sequence[Recording] = (),
        fresh: bool = False,
    ) -> None:
        """`space` gives the legal configurations of an input; `fresh` begins a new campaign."""
        self.spec = spec
        self.measurer = measurer
        self.store = store
        self.options = options
        self.display = display
        self.space = space
        self.transfer_sources = TransferSources(warm_start)
        self.number = store.choose_campaign(spec, measurer.environment, fresh)
        self.runs: dict[Input, int] = {}
        self.left_out: dict[Input, str] = {}  # inputs that could not be measured, and why
        self.stages: dict[str, str] = {}  # those after the search: what each left out, or nothing
        self.replayed = 0  # tests that the database answered
        self._stored: dict[Input, dict[Config, Stored]] = {}

    def plan(self, given: Input) -> RunPlan:
        """The run of an input."""
        options = self.options
        return RunPlan(
            spec=self.spec,
            environment=self.measurer.environment,
            given=given,
            technique=stored_technique(options.techniques, self.transfer_sources.recordings),
            seed=options.seed,
            test_limit=options.test_limit,
            parallelism=options.parallelism,
            label=options.label,
            campaign=self.number,
        )

    def is_time_up(self) -> bool:
        """Whether nothing more may be searched."""
        stop_at = self.options.stop_at
        return stop_at is not None and time.monotonic() >= stop_at

    def leave_out(self, stage: str, text: str) -> None:
        """Tell, and keep, what a stage leaves out since the time is up."""
        notice = f"the time is up: {text} left out; tune again with a longer --max-time"
        self.stages[stage] = notice
        self.display.warn(notice)

    # ------------------------------------------------------------ what is known

    def known(self, given: Input) -> dict[Config, Stored]:
        """What is measured of an input, read once and kept up to date by the search.

        Measurements outlive a change of the space's ranges; what it left out is not of it.
        """
        if given not in self._stored:
            known, space = self.store.known(self.plan(given)), self.space(given)
            self._stored[given] = {
                config: stored
                for config, stored in known.items()
                if space.is_legal(config) and not self._had_less_time(stored.measurement)
            }
            self.measurer.recall(given, self.measured(given).values())
        return self._stored[given]

    def _had_less_time(self, m: Measurement) -> bool:
        """Whether it ran into a deadline that has been put off since."""
        is_real = not self.measurer.is_replay  # a recording would answer the same again
        program = self.spec.program
        of_a_run = program.limits.deadline_s if program else None
        allowed_s = min(self.spec.measure.timeout_s, of_a_run or math.inf)
        return is_real and m.outcome is Outcome.TIMEOUT and m.wall_s < allowed_s

    def measured(self, given: Input) -> dict[Config, Measurement]:
        """Each configuration's measurement by the search."""
        return {config: stored.measurement for config, stored in self.known(given).items()}

    def best(self, given: Input) -> Measurement | None:
        """The fastest; None where nothing worked."""
        return fastest(self.measured(given).values())

    # ---------------------------------------------------------- what is left out

    @contextmanager
    def telling(self, given: Input) -> Iterator[None]:
        """An input whose data cannot be made is left out and told; the others go on."""
        try:
            yield
        except HostModuleError as error:
            self.store.session.rollback()
            self.left_out[given] = f"{LEFT_OUT}{error}"
            self.display.warn(f"({given}) is left out: {error}")

    def is_empty(self, given: Input) -> bool:
        """Whether nothing is legal; why is then noted, with a run that nothing was searched in:
        without one a program that has no legal configuration at all would not be known."""
        space = self.space(given)
        if space.count == 0:
            where = "in the recording" if self.measurer.is_replay else "on this device"
            reason = space.why_illegal(space.default)
            self.left_out[given] = f"no configuration is legal {where}; the default: {reason}"
            run = self.store.begin_run(self.plan(given), notes(), ())
            self.store.end_run(run.id, "complete")
        return space.count == 0
