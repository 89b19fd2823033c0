"""OpenTuner's drivers with their bookkeeping in memory, and its main object on a store of ours.

Stock OpenTuner queries its database for every proposal, which costs 5 to 8 ms a test and grows
with the results. Here a dictionary answers. The database is only written, with one commit a
test, so that a finished test is on disk before the next one starts. OpenTuner's objects stay
outside its session, whose bookkeeping would grow; `harness.search.rows` writes them.

Only distinct configurations count as tests. A technique that asks for a known configuration gets
its result.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from opentuner.measurement.driver import MeasurementDriver
from opentuner.resultsdb.models import BanditInfo, BanditSubTechnique, Configuration, TuningRun
from opentuner.search.driver import SearchDriver
from opentuner.tuningrunmain import TuningRunMain

from harness.core.records import Config
from harness.results.transactions import Transactions
from harness.search.manipulator import Cfg
from harness.search.rows import Request, TestRows
from harness.search.techniques import SelfContained

_IDLE_GENERATIONS = 3
_WRITE_EVERY_S = 0.25  # for replayed measurements
UNMEASURED = "unmeasured"
"""The requestor of a uniform draw, made where a technique only repeats itself."""
_LONGEST_NAME = 128
"""Characters of OpenTuner's column; a server refuses more. Our own table has the whole label."""


class _ResultList(list[Any]):
    """Results in memory, with the few methods of a query that techniques call."""

    def one(self) -> Any:
        (result,) = self
        return result

    def all(self) -> list[Any]:
        return self

    def count(self, *_: object) -> int:
        return len(self)


class InMemorySearchDriver(SearchDriver):  # type: ignore[misc]
    """Asks techniques for proposals and gives them the results."""

    def __init__(self, **kwargs: Any) -> None:
        self._configurations: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._requests: dict[str, Any] = {}
        self.taken: set[Config] = set()  # asked for, or held out; the others may be drawn
        self.has_ended = False  # a self-contained technique asks for nothing more
        self._repeated: list[tuple[Any, Any]] = []
        self._idle = 0
        self.pending: list[Any] = []
        self.arrived: list[Any] = []
        super().__init__(**kwargs)
        # Techniques tie their requests to this. Tied to a stored run, each would join its session,
        # which examines all its objects at every commit.
        self.tuning_run = None

    # -------------------------------------------------------------- methods for techniques

    def get_configuration(self, cfg: Cfg) -> Any:
        """Return the one object of a configuration, with a copy, since techniques change theirs.

        `cfg` is made legal in place. The legal configuration near it may be chosen by chance, and
        a technique that asks for its proposal again must get the same one.
        """
        key = self.manipulator.hash_config(cfg)
        if key not in self._configurations:
            self.manipulator.normalize(cfg)
            key = self.manipulator.hash_config(cfg)
        if key not in self._configurations:
            data = dict(cfg)
            self._configurations[key] = Configuration(hash=Config(data).digest, data=data)
        return self._configurations[key]

    def results_query(self, config: Any) -> _ResultList:
        """Return the result of a configuration, if there is one."""
        return _ResultList([self._results[config.hash]] if config.hash in self._results else [])

    # ---------------------------------------------------------------------- a generation

    def run_generation_techniques(self) -> int:
        """Ask for up to `parallelism` tests; return how many requests came, new or not."""
        requested = new = 0
        for _ in range(self.args.parallelism):
            if self.args.test_limit and self.test_count >= self.args.test_limit:
                break
            desired = self._next_request()
            if desired is None:
                break
            requested += 1
            new += self._queue(desired)
        self._idle = 0 if new else self._idle + 1
        return requested

    def _next_request(self) -> Any:
        if self.seed_cfgs:
            return self._request(self.seed_cfgs.pop(), "seed")
        if self._idle >= _IDLE_GENERATIONS:
            self._idle = 0
            drawn = self.manipulator.draw_unmeasured(self.taken)
            return self._request(drawn, UNMEASURED) if drawn else None
        desired = self.root_technique.desired_result()
        # False says that it waits for results, None that it asks for nothing.
        self.has_ended = desired is None and isinstance(self.root_technique, SelfContained)
        return desired or None

    def _request(self, cfg: Cfg, requestor: str) -> Request:
        return Request(
            configuration=self.get_configuration(cfg),
            requestor=requestor,
            generation=self.generation,
            request_date=datetime.now(),
        )

    def _queue(self, desired: Any) -> bool:
        """Queue a request for a new configuration; another waits for the first one's result."""
        first = self._requests.setdefault(desired.configuration.hash, desired)
        if first is not desired:
            self._repeated.append((desired, first))
            return False
        self.taken.add(Config(desired.configuration.data))
        self.test_count += 1
        self.pending.append(desired)
        return True

    def run_generation_results(self, offset: int = 0) -> None:
        """Have the pending requests measured."""
        self.wait_for_results(self.generation + offset)
        self.process_new_results()

    def process_new_results(self) -> None:
        """Pass arrived results to plug-ins and techniques, in the order of their requests."""
        self.new_results, self.arrived = self.arrived, []
        for result in self.new_results:
            self._results[result.configuration.hash] = result
            for plugin in self.plugins:  # at most the one that writes the results log
                plugin.on_result(result)
            if result.was_new_best:
                self.best_result: Any = result
        for desired, first in self._repeated:
            desired.result = first.result
        self._repeated.clear()
        self.result_callbacks()


class DurableMeasurementDriver(MeasurementDriver):  # type: ignore[misc]
    """Measures the requests that the search driver queued, and commits each result.

    Replayed results are committed together, a few times a second: if lost, they are read again,
    and a commit takes longer than everything else about them.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rows: TestRows
        self._input: Any = None
        self._best: Any = None
        self._unwritten: list[tuple[Any, Any]] = []
        self._written_at = time.monotonic()

    def make_rows(self, problem: Any) -> None:
        """Prepare to write tests of an input, whose row has been written."""
        self._input = problem
        self.rows = TestRows(self.session, self.tuning_run, problem.id, self.machine.id)

    def process_all(self) -> None:
        """Measure the pending requests, in order."""
        self.lap_timer()
        search = self.tuning_run_main.search_driver
        while search.pending and not self.interface.is_time_up():
            desired = search.pending.pop(0)
            result = self.rows.earlier.get(desired.configuration.hash)
            if result is None or not self.interface.is_known(desired):
                result = self._measured(desired)
            else:
                result.configuration = desired.configuration
                self._compare(result)
                self.interface.on_replayed(result)
            desired.result = result
            search.arrived.append(result)

    def _measured(self, desired: Any) -> Any:
        desired.start_date = datetime.now()
        result = self.interface.compile_and_run(desired, self._input, float("inf"))
        result.configuration = desired.configuration
        result.collection_date = datetime.now()
        result.collection_cost = self.lap_timer()
        self._compare(result)
        self._unwritten.append((desired, result))
        self.interface.on_measured()
        if not self.interface.is_replay or time.monotonic() - self._written_at >= _WRITE_EVERY_S:
            self.write()
        return result

    def write(self) -> None:
        """Commit the tests that have ended since the last call."""
        if self._unwritten:
            written = self.tuning_run_main.store.transact(self._write)
            self.rows.keep_new()
            self.interface.keep_written(written)
            self._unwritten.clear()
        self._written_at = time.monotonic()

    def _write(self) -> Sequence[int]:
        ids = self.rows.add(self._unwritten)
        written: Sequence[int] = self.interface.write(ids)
        return written

    def _compare(self, result: Any) -> None:
        result.was_new_best = self._best is None or self.objective.lt(result, self._best)
        if result.was_new_best:
            self._best = result


class DurableRun(TuningRunMain):  # type: ignore[misc]
    """OpenTuner's main object on a store of ours: it sets up no logging, makes no folder, commits
    for real, and can continue a run."""

    def __init__(
        self, interface: Any, args: Any, store: Transactions, tuning_run: Any = None
    ) -> None:
        self.args = args
        self.store = store
        self.session = store.session
        self.fake_commit = False
        self.last_commit_time = 0.0
        self.measurement_interface = interface
        self.input_manager = interface.input_manager()
        self.manipulator = interface.manipulator()
        self.objective = interface.objective()
        self.objective_copy = copy.copy(self.objective)
        self.tuning_run = tuning_run
        self.search_driver: Any = None

    def init(self) -> None:
        """Make the drivers, and OpenTuner's rows unless a run is continued."""
        if self.search_driver is not None:
            return
        version = self.measurement_interface.db_program_version(self.session)
        self.session.flush()
        is_continued = self.tuning_run is not None
        if not is_continued:
            self.tuning_run = self._new_run(version)
        parts = {
            "args": self.args,
            "input_manager": self.input_manager,
            "manipulator": self.manipulator,
            "measurement_interface": self.measurement_interface,
            "objective": self.objective,
            "session": self.session,
            "tuning_run_main": self,
            "tuning_run": self.tuning_run,
            "extra_seeds": self.measurement_interface.seed_configurations(),
            "extra_criteria": self.measurement_interface.extra_convergence_criteria,
        }
        self.search_driver = InMemorySearchDriver(**parts)
        if is_continued:
            self._drop_second_bandit()
        self.measurement_driver = DurableMeasurementDriver(**parts)
        self.measurement_interface.set_driver(self.measurement_driver)
        self.input_manager.set_driver(self.measurement_driver)
        self.tuning_run.machine_class = self.measurement_driver.get_machine_class()
        self.tuning_run.input_class = self.input_manager.get_input_class()
        self.session.flush()
        self.measurement_driver.make_rows(self.input_manager.select_input(None))

    def _new_run(self, version: Any) -> Any:
        run = TuningRun(
            uuid=uuid.uuid4().hex,
            name=(self.args.label or "unnamed")[:_LONGEST_NAME],
            args=self.args,
            start_date=datetime.now(),
            program_version=version,
            objective=self.objective_copy,
        )
        self.session.add(run)
        self.session.flush()
        return run

    def _drop_second_bandit(self) -> None:
        """Drop the search driver's rows of its bandit, which a continued run has already."""
        for made in list(self.session.new):
            if isinstance(made, BanditInfo):
                made.tuning_run = None
            if isinstance(made, (BanditInfo, BanditSubTechnique)):
                self.session.expunge(made)

    def main(self) -> None:
        """Search to the end; the run's state records how it ended."""
        self.init()
        self._note(state="RUNNING")
        state = "ABORTED"
        try:
            self.search_driver.main()
            self.measurement_driver.write()
            self._name_best()
            state = "COMPLETE"
        finally:
            self.session.rollback()
            self._note(state=state, end_date=datetime.now())

    def _name_best(self) -> None:
        best = self.search_driver.best_result
        if best is not None:
            self._note(final_config_id=self.measurement_driver.rows.id_of(best.configuration))

    def _note(self, **values: object) -> None:
        def note() -> None:
            for name, value in values.items():
                setattr(self.tuning_run, name, value)

        self.store.transact(note)
