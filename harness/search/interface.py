"""OpenTuner's MeasurementInterface over a Measurer: configurations in, results out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from opentuner import MeasurementInterface
from opentuner.measurement.inputmanager import FixedInputManager
from opentuner.resultsdb.models import Input as InputRow
from opentuner.resultsdb.models import Result
from opentuner.search.objective import MinimizeTime

from harness.core.records import Config, Measurement, Outcome
from harness.measure.kernels import Measurer
from harness.models.transfer_prior import TransferData
from harness.results import RunPlan, Store, Stored
from harness.search.manipulator import SpaceManipulator
from harness.space import Space


@dataclass(frozen=True)
class Progress:
    """A test that has just ended: its place in the run, and the best so far."""

    plan: RunPlan
    ordinal: int  # 1-based; a refusal that does not count has that of the test before it
    total: int
    measurement: Measurement
    best: Measurement | None
    replayed: bool  # answered from the database


Report = Callable[[Progress], None]

MAX_FREE_IN_A_ROW = 200
"""So many refusals in a row end a search that does not count them: with one in twenty that can
run, it happens by chance once in 30,000 times."""


class Ended(str, Enum):
    """Why a search ended."""

    LIMIT = "limit"
    TIME = "time"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    TECHNIQUE = "technique"


@dataclass(frozen=True)
class _Answer:
    """A measurement that answers a request, and its row where it was there before."""

    requestor: str
    measurement: Measurement
    measurement_id: int | None


class SpecInputs(FixedInputManager):  # type: ignore[misc]
    """The one input of a run; its features stand in input.path, readable without unpickling."""

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(input_class_name=plan.spec.name, path=plan.given.json)

    def create_input(self, desired_result: Any) -> Any:
        """The row of this input, made where it is missing."""
        input_class = self.get_input_class()
        self.session.flush()
        row = (
            self.session.query(InputRow)
            .filter_by(input_class_id=input_class.id, path=self.path)
            .first()
        )
        if row is None:
            row = InputRow(input_class=input_class, path=self.path)
            self.session.add(row)
            self.session.flush()
        return row


class TuningInterface(MeasurementInterface):  # type: ignore[misc]
    """Measures one input's configurations, never one of them twice, and records them."""

    def __init__(
        self,
        args: Any,
        plan: RunPlan,
        run_id: int,
        space: Space,
        measurer: Measurer,
        store: Store,
        seeds: Sequence[Config],
        known: dict[Config, Stored],
        stop_at: float | None,
        free_outcomes: frozenset[Outcome],
        report: Report,
        rng: random.Random,
        transfer: TransferData | None,
    ) -> None:
        """`stop_at` is a time.monotonic() after which no test begins; a test that ends in one of
        `free_outcomes` does not count against the limit; `rng` draws configurations, and
        techniques may learn from `transfer`."""
        self._plan = plan
        self._run_id = run_id
        self._space = space
        self._measurer = measurer
        self._store = store
        self._seeds = list(seeds)
        self._stop_at = stop_at
        self._free_outcomes = free_outcomes
        self._free_in_a_row = 0
        self._report = report
        self._known = known
        self._unwritten: list[_Answer] = []
        self._ordinal = 0  # of the progress that is told, replayed tests included
        self._next_test = store.next_ordinal(run_id)
        self.best: Measurement | None = None
        super().__init__(
            args,
            project_name="harness",
            program_name=plan.spec.name,
            program_version=plan.spec.space_sha256,
            manipulator=SpaceManipulator(space, rng, transfer),
            objective=MinimizeTime(),  # without it OpenTuner ignores the input manager
            input_manager=SpecInputs(plan),
        )

    def seed_configurations(self) -> list[dict[str, Any]]:
        """Where the search starts; OpenTuner takes them from the end."""
        return [dict(config) for config in reversed(self._seeds)]

    def extra_convergence_criteria(self, result: Any) -> bool:
        """Stop when there is nothing more to test, beside the test limit."""
        ended = (Ended.TIME, Ended.EXHAUSTED, Ended.REFUSED, Ended.TECHNIQUE)
        return self.why_ended() in ended

    def why_ended(self) -> Ended:
        """Why nothing more is tested; LIMIT also where something may be."""
        search = self.driver.tuning_run_main.search_driver
        if self.is_time_up():
            return Ended.TIME
        if self._space.count is not None and len(search.taken) >= self._space.count:
            return Ended.EXHAUSTED
        if self._free_in_a_row >= MAX_FREE_IN_A_ROW:
            return Ended.REFUSED
        return Ended.TECHNIQUE if search.has_ended else Ended.LIMIT

    @property
    def is_replay(self) -> bool:
        """Whether a file holds what is measured."""
        return self._measurer.is_replay

    def is_time_up(self) -> bool:
        """Whether no test may begin any more."""
        return self._stop_at is not None and time.monotonic() >= self._stop_at

    def is_known(self, desired: Any) -> bool:
        """Whether a configuration was measured and need not be again."""
        return Config(desired.configuration.data) in self._known

    def pre_process(self) -> None:
        """A generation is about to be measured: let its builds start now."""
        pending = self.driver.tuning_run_main.search_driver.pending
        configs = [Config(desired.configuration.data) for desired in pending]
        self._measurer.expect(self._space, [c for c in configs if c not in self._known])

    def run(self, desired_result: Any, input: Any, limit: float) -> Any:
        """OpenTuner's result of one configuration: its median time, or an error."""
        config = Config(desired_result.configuration.data)
        stored = self._known.get(config)
        if stored is not None:
            measurement, measurement_id = stored.measurement, stored.id
        else:
            best_s = self.best.time_s if self.best else None
            measurement = self._measurer.measure(self._space, self._plan.given, config, best_s)
            measurement_id = None
        self._unwritten.append(_Answer(desired_result.requestor, measurement, measurement_id))
        return _result(measurement)

    def on_measured(self) -> None:
        """What `run` has just found is told and counted."""
        answer = self._unwritten[-1]
        self._note(answer.measurement, replayed=answer.measurement_id is not None)

    def write(self, result_ids: Sequence[int]) -> None:
        """Write what `run` found since the last time beside OpenTuner's results, which are in the
        same order, in the same transaction."""
        new = [a.measurement for a in self._unwritten if a.measurement_id is None]
        added = self._store.add_measurements(self._run_id, self._plan, "search", new)
        for measurement, row_id in zip(new, added, strict=True):
            self._known[measurement.config] = Stored(row_id, measurement)
        self._store.add_tests(
            self._run_id,
            self._next_test,
            result_ids,
            [self._known[a.measurement.config].id for a in self._unwritten],
            [a.requestor for a in self._unwritten],
        )
        self._next_test += len(self._unwritten)
        self._unwritten.clear()

    def on_replayed(self, result: Any) -> None:
        """A test of a run that is continued was asked for again: it is on record already."""
        self._note(self._known[Config(result.configuration.data)].measurement, replayed=True)

    def _note(self, measurement: Measurement, replayed: bool) -> None:
        self._count(measurement.outcome)
        if measurement.outcome is Outcome.OK and (
            self.best is None or measurement.time_s < self.best.time_s
        ):
            self.best = measurement
        total = self._space.budget(self._plan.test_limit)
        self._report(Progress(self._plan, self._ordinal, total, measurement, self.best, replayed))

    def _count(self, outcome: Outcome) -> None:
        """Count a test, or take it back from those that the driver counted when it was asked."""
        if outcome in self._free_outcomes:
            self._free_in_a_row += 1
            self.driver.tuning_run_main.search_driver.test_count -= 1
        else:
            self._free_in_a_row = 0
            self._ordinal += 1

    @property
    def tests(self) -> int:
        """How many tests have counted, replayed ones included."""
        return self._ordinal

    def save_final_config(self, config: Any) -> None:
        """The caller reads the results; there is nothing to save here."""


def _result(measurement: Measurement) -> Any:
    """The only failure that OpenTuner survives is an ERROR of infinite time; NaN, 0 and None
    would win or crash the search."""
    if measurement.outcome is Outcome.OK:
        return Result(state="OK", time=measurement.time_s)
    return Result(state="ERROR", time=float("inf"))
