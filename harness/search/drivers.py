"""OpenTuner's drivers with their bookkeeping in memory.

Stock OpenTuner asks its database about every proposal, which costs 5 to 8 ms a test and grows
with the results. Here a dictionary answers; the database is only written to, with one commit
a test, so that a finished test is on disk before the next one starts. Only distinct
configurations count as tests, and a technique that asks for a known one gets its result.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from opentuner.measurement.driver import MeasurementDriver
from opentuner.resultsdb.models import (
    BanditInfo,
    BanditSubTechnique,
    Configuration,
    DesiredResult,
    Result,
    TuningRun,
)
from opentuner.search.driver import SearchDriver
from opentuner.tuningrunmain import TuningRunMain

from harness.records import Config
from harness.search.manipulator import Cfg

_IDLE_GENERATIONS = 5
UNMEASURED = "unmeasured"
"""Who asked, where a technique repeats itself: a uniform draw among what is not measured."""


class _Found(list[Any]):
    """Results in memory, with the few verbs of a query that techniques use."""

    def one(self) -> Any:
        (result,) = self
        return result

    def first(self) -> Any:
        return self[0] if self else None

    def all(self) -> list[Any]:
        return self

    def count(self, *_: object) -> int:
        return len(self)


class InMemorySearchDriver(SearchDriver):  # type: ignore[misc]
    """Proposals in, results out; knows every configuration of its run by its hash."""

    def __init__(self, **kwargs: Any) -> None:
        self._configurations: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._requests: dict[str, Any] = {}
        self._waiting: list[tuple[Any, Any]] = []
        self._idle = 0
        self.earlier: dict[str, Any] = {}
        self.pending: list[Any] = []
        self.arrived: list[Any] = []
        super().__init__(**kwargs)

    # -------------------------------------------------------------- what techniques ask

    def get_configuration(self, cfg: Cfg) -> Any:
        """The one database object of a configuration; stored only if it gets tested."""
        cfg = copy.deepcopy(cfg)
        self.manipulator.normalize(cfg)
        digest = self.manipulator.hash_config(cfg)
        if digest not in self._configurations:
            self._configurations[digest] = Configuration(
                program_id=self.program.id, hash=digest, data=cfg
            )
        return self._configurations[digest]

    def has_results(self, config: Any) -> bool:
        """Whether a configuration has a result in this run."""
        return config.hash in self._results

    def results_query(
        self, generation: int | None = None, objective_ordered: bool = False, config: Any = None
    ) -> _Found:
        """The results of this run, or of one configuration; best first if asked."""
        if config is not None:
            return _Found([self._results[config.hash]] if config.hash in self._results else [])
        found = _Found(self._results.values())
        if objective_ordered:
            found.sort(key=lambda result: result.time)
        return found

    # ---------------------------------------------------------------------- a generation

    def run_generation_techniques(self) -> int:
        """Ask for up to `parallelism` new tests; returns how many requests came at all."""
        self.plugin_proxy.before_techniques()
        asked = new = 0
        for _ in range(self.args.parallelism):
            if self.args.test_limit and self.test_count >= self.args.test_limit:
                break
            desired = self._next_request()
            if desired is None:
                break
            asked += 1
            new += self._file(desired)
        self._idle = 0 if new else self._idle + 1
        self.plugin_proxy.after_techniques()
        return asked

    def _next_request(self) -> Any:
        if self.seed_cfgs:
            return self._request(self.seed_cfgs.pop(), "seed")
        if self._idle >= _IDLE_GENERATIONS:
            tested = {Config(d.configuration.data) for d in self._requests.values()}
            drawn = self.manipulator.space.sample(self.manipulator.rng, 1, tested)
            self._idle = 0
            return self._request(dict(drawn[0]), UNMEASURED) if drawn else None
        return self.root_technique.desired_result() or None

    def _request(self, cfg: Cfg, requestor: str) -> Any:
        return DesiredResult(
            configuration=self.get_configuration(cfg),
            requestor=requestor,
            generation=self.generation,
            request_date=datetime.now(),
            tuning_run=self.tuning_run,
        )

    def _file(self, desired: Any) -> bool:
        """Queue a request for a configuration that is new; answer one for a known one."""
        digest = desired.configuration.hash
        first = self._requests.setdefault(digest, desired)
        if first is not desired:
            self._forget(desired)
            self._waiting.append((desired, first))
            return False
        if digest in self.earlier:
            self._forget(desired)
        desired.state = "REQUESTED"
        self.test_count += 1
        self.pending.append(desired)
        return True

    def _forget(self, desired: Any) -> None:
        """Keep a request out of the database: it asks for what is there already."""
        if desired in self.session:
            self.session.expunge(desired)

    def process_new_results(self) -> None:
        """Tell plug-ins and techniques what arrived, in the order it was asked for."""
        self.new_results, self.arrived = self.arrived, []
        for result in self.new_results:
            self._results[result.configuration.hash] = result
            self.plugin_proxy.on_result(result)
            is_best = self.best_result is None or self.objective.lt(result, self.best_result)
            if is_best:
                first = self.best_result is None
                self.best_result = result
                if not first:
                    self.plugin_proxy.on_new_best_result(result)
            if result.was_new_best is not is_best:
                result.was_new_best = is_best
        for desired, first in self._waiting:
            desired.result = first.result
        self._waiting.clear()
        self.result_callbacks()


class DurableMeasurementDriver(MeasurementDriver):  # type: ignore[misc]
    """Measures what the search driver queued, and commits each result with its measurement."""

    def process_all(self) -> None:
        """Measure the pending requests, in order."""
        self.lap_timer()
        search = self.tuning_run_main.search_driver
        for desired in _drained(search.pending):
            result = search.earlier.get(desired.configuration.hash)
            if result is None:
                result = self._measured(desired)
            else:
                desired.result = result
                self.interface.on_replayed(result)
            search.arrived.append(result)

    def _measured(self, desired: Any) -> Any:
        desired.start_date = datetime.now()
        input_ = self.input_manager.select_input(desired)
        result = self.interface.compile_and_run(desired, input_, float("inf"))
        result.configuration = desired.configuration
        result.input_id = input_.id
        result.machine_id = self.machine.id
        result.tuning_run_id = self.tuning_run.id
        result.collection_date = datetime.now()
        result.collection_cost = self.lap_timer()
        self.session.add(result)
        desired.result = result
        desired.state = "COMPLETE"
        self.session.flush()  # gives the result its id
        self.interface.record(desired, result)
        self.commit()
        return result


def _drained(queue: list[Any]) -> Iterator[Any]:
    while queue:
        yield queue.pop(0)


class DurableRun(TuningRunMain):  # type: ignore[misc]
    """OpenTuner's main object on a session of ours: no logging set-up, no folder of its own,
    real commits, and a run that can be continued."""

    def __init__(self, interface: Any, args: Any, session: Any, tuning_run: Any = None) -> None:
        self.args = args
        self.session = session
        self.fake_commit = False
        self.last_commit_time = 0.0
        self.measurement_interface = interface
        self.input_manager = interface.input_manager()
        self.manipulator = interface.manipulator()
        self.objective = interface.objective()
        self.objective_copy = copy.copy(self.objective)
        self.search_driver_cls = InMemorySearchDriver
        self.measurement_driver_cls = DurableMeasurementDriver
        self.tuning_run = tuning_run
        self.search_driver: Any = None

    def init(self) -> None:
        """Make OpenTuner's rows and drivers; a run that is continued keeps its own."""
        if self.search_driver is not None:
            return
        version = self.measurement_interface.db_program_version(self.session)
        self.session.flush()
        continued = self.tuning_run is not None
        if not continued:
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
        self.search_driver = self.search_driver_cls(**parts)
        if continued:
            self._recall()
        self.measurement_driver = self.measurement_driver_cls(**parts)
        self.measurement_interface.set_driver(self.measurement_driver)
        self.input_manager.set_driver(self.measurement_driver)
        self.tuning_run.machine_class = self.measurement_driver.get_machine_class()
        self.tuning_run.input_class = self.input_manager.get_input_class()
        self.session.flush()

    def _new_run(self, version: Any) -> Any:
        run = TuningRun(
            uuid=uuid.uuid4().hex,
            name=self.args.label,
            args=self.args,
            start_date=datetime.now(),
            program_version=version,
            objective=self.objective_copy,
        )
        self.session.add(run)
        self.session.flush()
        return run

    def _recall(self) -> None:
        """Give the search what the run found before; its bandit is on record already."""
        for made in list(self.session.new):
            if isinstance(made, (BanditInfo, BanditSubTechnique)):
                self.session.expunge(made)
        results = self.session.query(Result).filter_by(tuning_run_id=self.tuning_run.id)
        self.search_driver.earlier = {r.configuration.hash: r for r in results}
