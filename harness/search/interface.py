"""OpenTuner's MeasurementInterface over a Measurer and a Store."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opentuner import MeasurementInterface
from opentuner.measurement.inputmanager import FixedInputManager
from opentuner.resultsdb.models import Input as InputRow
from opentuner.resultsdb.models import Result
from opentuner.search.objective import MinimizeTime

from harness.core.records import Config, Measurement, Outcome
from harness.results import MeasurementRow, RunPlan
from harness.search.manipulator import SpaceManipulator
from harness.search.records import EndReason, InputSearch, SearchOptions, Tally

MAX_FREE_IN_A_ROW = 200
"""A search that does not count refusals ends after so many in a row. If one configuration in
twenty can run, that happens by chance once in 30,000 times."""


@dataclass(frozen=True)
class _Answer:
    """A measurement that answers a request, and its row's id if it was stored before."""

    requestor: str
    measurement: Measurement
    measurement_id: int | None


class SpecInputs(FixedInputManager):  # type: ignore[misc]
    """The one input of a run; `input.path` holds its features as readable JSON."""

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(input_class_name=plan.spec.name, path=plan.problem.json)

    def create_input(self, desired_result: Any) -> Any:
        """Return the row of this input; make it where it is missing."""
        input_class = self.get_input_class()
        self.session.flush()
        known = self._known_ids(input_class.id)
        row = self.session.get(InputRow, known[self.path]) if self.path in known else None
        if row is None or row.path != self.path:  # also where its transaction was rolled back
            row = InputRow(input_class=input_class, path=self.path)
            self.session.add(row)
            self.session.flush()
            known[self.path] = row.id
        return row

    def _known_ids(self, class_id: int) -> dict[str, int]:
        """Return the ids of the input rows by path, read once a session: the table has no index by
        path, so a query for each of many inputs would take the square of their number."""
        kept: dict[int, dict[str, int]] = self.session.info.setdefault(SpecInputs, {})
        if class_id not in kept:
            rows = self.session.query(InputRow.path, InputRow.id).filter_by(input_class_id=class_id)
            kept[class_id] = dict(rows.order_by(InputRow.id.desc()).all())
        return kept[class_id]


class TuningInterface(MeasurementInterface):  # type: ignore[misc]
    """Measures one input's configurations, none of them twice, and stores the results."""

    def __init__(
        self,
        search: InputSearch,
        options: SearchOptions,
        *,
        run_id: int,
        seeds: Sequence[Config],
        rng: random.Random,
    ) -> None:
        """`run_id` is our row of the run; `rng` draws configurations."""
        self._search = search
        self._plan = search.plan
        self._space = search.space
        self._known = search.known
        self._run_id = run_id
        self._seeds = list(seeds)
        self._stop_at = options.stop_at
        self._tally = Tally(search.plan, search.space, options.free_outcomes, search.report)
        self._unwritten: list[_Answer] = []
        self._next_test = search.store.next_ordinal(run_id)
        super().__init__(
            options.for_opentuner(),
            project_name="harness",
            program_name=search.plan.spec.name,
            program_version=search.plan.spec.space_sha256,
            manipulator=SpaceManipulator(search.space, rng, search.transfer),
            objective=MinimizeTime(),  # without it OpenTuner ignores the input manager
            input_manager=SpecInputs(search.plan),
        )

    def seed_configurations(self) -> list[dict[str, Any]]:
        """Return the configurations to start from; OpenTuner takes them from the end."""
        return [dict(config) for config in reversed(self._seeds)]

    def extra_convergence_criteria(self, result: Any) -> bool:
        """Stop for another reason than the test limit."""
        return self.why_ended() is not EndReason.LIMIT

    def why_ended(self) -> EndReason:
        """Say why nothing more is tested; LIMIT also while the search goes on."""
        search = self.driver.tuning_run_main.search_driver
        if self.is_time_up():
            return EndReason.TIME
        if self._space.count is not None and len(search.taken) >= self._space.count:
            return EndReason.EXHAUSTED
        if self._tally.free_in_a_row >= MAX_FREE_IN_A_ROW:
            return EndReason.REFUSED
        return EndReason.TECHNIQUE if search.has_ended else EndReason.LIMIT

    @property
    def is_replay(self) -> bool:
        """Whether a recording answers in place of a device."""
        return self._search.measurer.is_replay

    def is_time_up(self) -> bool:
        """Whether the time is up, so that no test may begin."""
        return self._stop_at is not None and time.monotonic() >= self._stop_at

    def is_known(self, desired: Any) -> bool:
        """Whether a configuration was measured before."""
        return Config(desired.configuration.data) in self._known

    def pre_process(self) -> None:
        """Start the builds of the generation that is about to be measured."""
        pending = self.driver.tuning_run_main.search_driver.pending
        configs = [Config(desired.configuration.data) for desired in pending]
        self._search.measurer.expect(self._space, [c for c in configs if c not in self._known])

    def run(self, desired_result: Any, input: Any, limit: float) -> Any:
        """Measure one configuration; the result is its time, or an error."""
        config = Config(desired_result.configuration.data)
        stored = self._known.get(config)
        if stored is not None:
            measurement, measurement_id = stored.measurement, stored.id
        else:
            best = self._tally.best
            best_s = best.time_s if best else None
            measurement = self._search.measurer.measure(
                self._space, self._plan.problem, config, best_s
            )
            measurement_id = None
        self._unwritten.append(_Answer(desired_result.requestor, measurement, measurement_id))
        return _result(measurement)

    def on_measured(self) -> None:
        """Report and count what `run` has just found."""
        answer = self._unwritten[-1]
        self._note(answer.measurement, replayed=answer.measurement_id is not None)

    def write(self, result_ids: Sequence[int]) -> Sequence[int]:
        """Write the unwritten measurements, in the transaction of OpenTuner's results, which are in
        the same order; return the ids of their rows."""
        new = [a.measurement for a in self._unwritten if a.measurement_id is None]
        added = iter(self._search.store.add_measurements(self._run_id, self._plan, "search", new))
        ids = [
            next(added) if a.measurement_id is None else a.measurement_id for a in self._unwritten
        ]
        self._search.store.add_tests(
            self._run_id, self._next_test, result_ids, ids, [a.requestor for a in self._unwritten]
        )
        return ids

    def keep_written(self, ids: Sequence[int]) -> None:
        """Know the measurements that were written, and committed."""
        for answer, row_id in zip(self._unwritten, ids, strict=True):
            if answer.measurement_id is None:
                measurement = answer.measurement
                self._known[measurement.config] = MeasurementRow(row_id, "search", measurement)
        self._next_test += len(self._unwritten)
        self._unwritten.clear()

    def on_replayed(self, result: Any) -> None:
        """Report a test of a continued run, which is stored already."""
        self._note(self._known[Config(result.configuration.data)].measurement, replayed=True)

    def _note(self, measurement: Measurement, replayed: bool) -> None:
        self._tally.note(measurement, replayed)
        if self._tally.free_in_a_row:  # the driver counted it
            self.driver.tuning_run_main.search_driver.test_count -= 1

    @property
    def tests(self) -> int:
        """The number of tests that counted, replayed ones included."""
        return self._tally.tests

    def save_final_config(self, config: Any) -> None:
        """Save nothing: the caller reads the results."""


def _result(measurement: Measurement) -> Any:
    """Make OpenTuner's result. A failure is an ERROR of infinite time: with NaN, 0 or None it
    would win, or crash the search."""
    if measurement.outcome is Outcome.OK:
        return Result(state="OK", time=measurement.time_s)
    return Result(state="ERROR", time=float("inf"))
