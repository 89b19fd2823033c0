"""The plan of a campaign, and the state that its stages share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.analysis.failures import headline, suspects
from harness.constraints.expression import Expression
from harness.core.arrays import Flags
from harness.core.errors import HostModuleError
from harness.core.machine import notes as machine_notes
from harness.core.records import Config, Input, Interleaved, Measurement, Outcome
from harness.core.text import command_line
from harness.display.progress import Display
from harness.measure.measurer import Measurer
from harness.measure.occasions import ONE_OCCASION, new_seed
from harness.recordings.recording import Recording
from harness.recordings.replay import ListedSpace
from harness.results.campaigns import LEFT_OUT, StoredCampaign
from harness.results.columns import MeasurementRows
from harness.results.fitting import VersionRows, digests_of_data, fitting
from harness.results.ledger import Ledger
from harness.results.measured import by_input
from harness.results.notes import Notes
from harness.results.read import CampaignKey
from harness.results.schema import SEARCHED
from harness.results.store import COMPLETE, RunPlan, Store
from harness.results.view import Results, results_of
from harness.search import Progress, Searched, SearchOptions
from harness.search.transfer import TransferSources
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec
from harness.tuning.devices import DevicePool, SharedDevice

_SHOWN_AFTER_S = 2.0
"""Progress of comparing data is shown where it takes longer."""


@dataclass(frozen=True)
class CampaignPlan:
    """What a campaign tunes, and how. Its `number` is that of the campaign in the database
    (`Store.choose_campaign`).

    With a `target` the inputs are not searched but sampled, until a tree predicts times with this
    median relative error (harness.tuning.validation). `warm_start` are recordings of the same
    kernel on other devices, to learn from; `other_devices` says whether new searches start from
    the results of other devices in the database. `arguments` are the words that the user typed
    after `tune` or `replay`, for the database. With a `recording`, its configurations are searched.

    Of the stages after the search, `cross` measures every winner on every input, and a few
    candidates interleaved, and `ablate` finds the flags that a winner needs. `finalists` of each
    input are measured once more beside the default; by default two or three.
    """

    spec: Spec
    options: SearchOptions
    number: int
    cross: bool = True
    ablate: bool = True
    finalists: int | None = None
    target: float | None = None
    warm_start: Sequence[Recording] = ()
    other_devices: bool = False
    arguments: Sequence[str] = ()
    recording: Recording | None = None


class State:
    """One plan, measured on a pool of devices into one store."""

    def __init__(
        self, plan: CampaignPlan, measurer: Measurer | DevicePool, store: Store, display: Display
    ) -> None:
        self.plan = plan
        self.spec = plan.spec
        self.options = plan.options
        pool = measurer if isinstance(measurer, DevicePool) else DevicePool({"": measurer})
        self.pool = pool
        self.store = store
        self.sources = TransferSources(plan.warm_start, store, plan.other_devices, self.warn)
        self.runs: dict[Input, int] = {}
        self.left_out: dict[Input, str] = {}  # inputs that could not be measured, and why
        self.same: Sequence[Expression] = ()  # constraints: values that are the same on all inputs
        self.stages: dict[str, str] = {}  # the stages after the search, and what each skipped
        self.searched: dict[Input, Searched] = {}  # none if inputs are only sampled
        self.last: dict[Input, Progress] = {}
        self._failed_defaults: dict[Input, Outcome] = {}
        self._checked: set[Input] = set()  # whose tests may be weak
        self._warned = set(pool.notices)
        self.replayed = 0  # tests that the database answered
        self._display = display
        self._spaces: dict[Input, Space] = {}
        self._introduced: set[tuple[SharedDevice, Input]] = set()

    @property
    def measurer(self) -> SharedDevice:
        """The device that the present thread serves, or the first one."""
        return self.pool.served or self.pool.left[0]

    def measurer_for(self, problem: Input) -> SharedDevice:
        """Return the present device, which then knows the input's earlier measurements. The input's
        run notes it: a command that goes on may have another one."""
        device = self.measurer
        if (device, problem) not in self._introduced:
            self._introduced.add((device, problem))
            device.recall(problem, self.ledger.searched(problem).values())
            if problem in self.runs:  # a run that begins notes it by itself
                self.store.note_device(self.runs[problem], device.environment)
        return device

    def note_run(self, problem: Input, notes: Notes) -> None:
        """Store notes with the run of an input."""
        self.store.note_run(self.runs[problem], notes)

    @property
    def display(self) -> Display:
        """The display of the device that the present thread serves, or of the campaign."""
        served = self.pool.served
        return self._display if served is None else self._display.on(served.name)

    def space(self, problem: Input) -> Space:
        """Return the legal configurations of an input on the device; of a recording, those that
        were recorded."""
        if problem in self._spaces:
            return self._spaces[problem]
        space: Space
        if self.plan.recording is not None:
            space = ListedSpace(self.plan.recording, problem)
        else:
            limits = self.measurer.limits
            compiler = self.measurer.compiler
            space = ConstrainedSpace.of(self.spec, problem, limits, compiler)
        self._spaces[problem] = space
        return space

    def run_plan(self, problem: Input) -> RunPlan:
        """Return the plan of an input's run."""
        options = self.options
        return RunPlan(
            spec=self.spec,
            environment=self.measurer.environment,
            problem=problem,
            technique=self.sources.technique(options.techniques),
            seed=options.seed,
            test_limit=options.test_limit,
            parallelism=options.parallelism,
            label=options.label,
            campaign=self.plan.number,
        )

    @property
    def key(self) -> CampaignKey:
        """The key of the campaign in the database."""
        fingerprint = self.measurer.environment.fingerprint
        return CampaignKey(self.spec.program_sha256, fingerprint, self.plan.number)

    def is_time_up(self) -> bool:
        """Whether the time of the search is up."""
        stop_at = self.options.stop_at
        return stop_at is not None and time.monotonic() >= stop_at

    def note(self, progress: Progress) -> None:
        """Count and show a test that has ended."""
        if not progress.replayed:
            self._check_default(progress.measurement)
            self._check_tests(progress.measurement)
            self.show_notices()
        self.last[progress.plan.problem] = progress
        self.replayed += progress.replayed
        self.display.test(progress)

    def _check_default(self, measurement: Measurement) -> None:
        """Warn where the default fails, and where it is wrong on every input."""
        problem = measurement.input
        outcome = measurement.outcome
        if outcome is Outcome.OK or problem in self._failed_defaults:
            return
        space = self.space(problem)
        if measurement.config != space.canonical(space.default):
            return
        self._failed_defaults[problem] = outcome
        reason = f"{outcome}: {headline(measurement.message)}"
        if reason not in self._warned:
            self._warned.add(reason)
            self.warn(f"({problem}): the default failed, {reason}")
        failed = list(self._failed_defaults.values())
        if failed == [Outcome.WRONG_RESULT] * len(self.spec.inputs):
            check_again = "harness.tune(space, test_limit=1)"
            if not self.spec.is_in_python:
                check_again = command_line("check", str(self.spec.path), "--run")
            self.warn(
                "even the default is wrong on every input: "
                f"{suspects(self.spec.program is not None)}. "
                f"To run the default alone: {check_again}"
            )

    def _check_tests(self, measurement: Measurement) -> None:
        """Warn of weak tests, once an input's first configuration works."""
        problem = measurement.input
        if measurement.outcome is not Outcome.OK or problem in self._checked:
            return
        self._checked.add(problem)
        for text in self.measurer.weak_tests(problem):
            if text not in self._warned:
                self._warned.add(text)
                self.warn(f"verify is weak on {problem}: {text}.")

    def show_notices(self) -> None:
        """Warn of what the measurer has noticed since."""
        for text in self.pool.notices:
            if text not in self._warned:
                self._warned.add(text)
                self.warn(text)

    def warn(self, text: str) -> None:
        """Show a problem that does not end the campaign."""
        self.display.warn(text)

    # ------------------------------------------------------------ measurements

    @cached_property
    def ledger(self) -> Ledger:
        """All measurements of the campaign."""
        return Ledger(self._stored, self.fitting.rows.where(~self._may_end_otherwise()))

    @cached_property
    def _stored(self) -> MeasurementRows:
        """What earlier commands measured, read at once: a query for each input takes longer."""
        return self.store.measured(self.run_plan(self.spec.inputs[0]))

    @cached_property
    def fitting(self) -> VersionRows:
        """The measurements of earlier commands that count for the space as it is now."""
        limits = self.measurer.limits
        inputs = self.spec.inputs
        return fitting(
            self._stored,
            StoredCampaign.begun(self.key, self.spec, self.measurer.environment),
            limits.names() if limits else {},
            inputs,
            frozenset(self.space(inputs[0]).default),
            present=self.data_digests,
        )

    @cached_property
    def data_digests(self) -> Mapping[Input, str | None]:
        """The digest of the present data of each input whose measurements have digests; None of one
        whose data differ each time. An input whose data cannot be made is missing.

        This takes as long as the host module's arguments(), once for each input; where that is
        long, progress is shown.
        """
        present: dict[Input, str | None] = {}
        if self.measurer.is_replay:
            return present
        stored = by_input(self._stored)
        inputs = [problem for problem in self.spec.inputs if problem in stored]
        shown_at_s = time.monotonic() + _SHOWN_AFTER_S
        is_shown = False
        for number, problem in enumerate(inputs):
            if not is_shown and time.monotonic() > shown_at_s:
                is_shown = True
                title = "data compared with the measured ones"
                self.display.begin_stage(title, len(inputs) - number)
            digests = digests_of_data(stored[problem])
            try:
                if digests:
                    present[problem] = self.pool.data_sha256(problem, digests)
            except HostModuleError as error:  # it leaves the input out where more is measured
                text = "its data cannot be compared with the measured ones"
                self.warn(f"({problem}): {text}: {error}")
            if is_shown:
                self.display.step(str(problem))
        return present

    def _may_end_otherwise(self) -> Flags:
        """Say which searched configurations timed out under a shorter deadline than the present
        one, or found no memory on the device, which other programs may have held."""
        rows = self.fitting.rows
        if self.measurer.is_replay:  # a recording would answer the same again
            return np.zeros(len(rows), dtype=np.bool_)
        program = self.spec.program
        columns = rows.columns
        allowed_s = self.spec.measure.timeout_s
        if program is not None and program.model.limits.deadline_s:
            allowed_s = min(allowed_s, program.model.limits.deadline_s)
        outcome = rows.of(columns.outcome)
        may: Flags = outcome == Outcome.TIMEOUT
        may &= rows.of(columns.wall_s) < allowed_s
        may |= outcome == Outcome.OUT_OF_MEMORY
        return may & np.isin(rows.of(columns.stage), SEARCHED)

    def add_measurements(
        self, problem: Input, stage: str, measured: Sequence[Measurement], group: str | None = None
    ) -> None:
        """Store measurements of an input, and append them to the ledger."""
        store = self.store
        run_id = self.runs[problem]
        plan = self.run_plan(problem)
        rows = store.transact(lambda: store.add_measurements(run_id, plan, stage, measured, group))
        self.ledger.append(rows)

    def measure_interleaved(
        self,
        problem: Input,
        configs: Sequence[Config],
        *,
        stage: str,
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> Interleaved:
        """Measure configurations interleaved, so that drift affects all alike, on an occasion for
        each seed, and store the results."""
        measured = self.measurer_for(problem).measure_interleaved(
            self.space(problem), problem, configs, rounds, seeds
        )
        self.add_measurements(problem, stage, measured, uuid.uuid4().hex)
        return measured

    def data_seed(self, problem: Input) -> int:
        """Return the seed of the new data of an input: it is drawn when it is first asked for, and
        stored with the run. A campaign that goes on has the same."""
        seed = self.store.notes_of(self.runs[problem]).get("data_seed")
        if seed is None:
            seed = new_seed()
            self.note_run(problem, {"data_seed": seed})
        return seed

    def is_same(self, config: Config) -> bool:
        """Whether a configuration has the values that are the same on all inputs."""
        return all(expression.allows(config) for expression in self.same)

    def best(self, problem: Input) -> Measurement | None:
        """Return the fastest measurement that may win; None where nothing worked."""
        searched = self.ledger.searched(problem)
        if self.same:
            working = [m for c, m in searched.items() if m.timing and self.is_same(c)]
            return min(working, key=lambda m: m.time_s, default=None)
        return searched.fastest

    def results(self) -> Results:
        """Return the campaign's results so far."""
        store = self.store
        environment = self.measurer.environment
        rows = self.ledger.rows
        return store.transact(
            lambda: results_of(store.connection, self.key, self.spec, environment, rows)
        )

    # ---------------------------------------------------------- inputs left out

    @contextmanager
    def leaving_out(self, problem: Input) -> Iterator[None]:
        """Leave an input out, with a warning, if its data cannot be made; the others go on."""
        try:
            yield
        except HostModuleError as error:
            self.store.roll_back()
            self.left_out[problem] = f"{LEFT_OUT}{error}"
            self.warn(f"({problem}) is left out: {error}")

    def is_empty(self, problem: Input) -> bool:
        """Whether an input has no legal configuration; note why.

        Its run is stored without a test: a program without any legal configuration would
        otherwise be missing from the database.
        """
        space = self.space(problem)
        if space.count != 0:
            return False
        where = "in the recording" if self.measurer.is_replay else "on this device"
        reason = space.why_illegal(space.default)
        self.left_out[problem] = f"no configuration is legal {where}; the default: {reason}"
        store = self.store
        plan = self.run_plan(problem)

        def store_run() -> None:
            run_id = store.begin_run(plan, {"facts": machine_notes()})
            store.end_run(run_id, COMPLETE)

        store.transact(store_run)
        return True
