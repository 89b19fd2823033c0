"""The driver of a search: techniques propose, an interface measures, and a database remembers.

Stock OpenTuner queries its database for every proposal, which costs 5 to 8 ms a test and grows
with the results. Here a dictionary answers. The database is only written, with one commit a
test, so that a finished test is on disk before the next one starts. OpenTuner's objects stay
outside its session, whose bookkeeping would grow; `harness.results.store` writes their rows.

Only distinct configurations count as tests. A technique that asks for a known configuration gets
its result.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from opentuner.resultsdb.models import Configuration, ProgramVersion, TuningRun
from opentuner.search.driver import SearchDriver
from opentuner.search.objective import MinimizeTime

from harness.core.observations import PEAK_FRACTION
from harness.core.records import Config, Measurement, Outcome
from harness.results import MeasurementRow
from harness.results.database import utc_now
from harness.search.manipulator import Cfg, SpaceManipulator
from harness.search.options import EndReason, InputSearch, Progress
from harness.search.patches import Request
from harness.search.techniques import SelfContained

MAX_FREE_IN_A_ROW = 200
"""A search that does not count refusals ends after so many in a row. If one configuration in
twenty can run, that happens by chance once in 30,000 times."""

UNMEASURED = "unmeasured"
"""The requestor of a uniform draw, made where a technique only repeats itself."""

_CALLER = "caller"
"""The requestor of a configuration that the caller of a session made up."""

_IDLE_GENERATIONS = 3
WRITE_EVERY_S = 0.25  # for replayed measurements


class _ResultList(list[Any]):
    """Results in memory, with the few methods of a query that techniques call."""

    def one(self) -> Any:
        (result,) = self
        return result

    def all(self) -> list[Any]:
        return self

    def count(self, *_: object) -> int:
        return len(self)


class Driver(SearchDriver):  # type: ignore[misc]
    """Searches one input: asks techniques for proposals, has them measured and stored, each
    configuration once, and gives the techniques the results."""

    best_result: Any

    def __init__(
        self,
        search: InputSearch,
        run_id: int,
        seeds: Sequence[Config],
        manipulator: SpaceManipulator,
    ) -> None:
        """`run_id` is the row of the run that has begun."""
        options = search.options
        self._search = search
        self.run_id = run_id
        self.tests = 0  # that counted, replayed ones included
        self.taken = set(options.held_out)  # and those asked for; the others may be drawn
        self.pending: list[Request] = []
        self._total = search.interface.space.budget(search.plan.test_limit)
        self._free_outcomes = options.free_outcomes
        self._free_in_a_row = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._shared = 0
        self._configurations: dict[str, Any] = {}
        self._requests: dict[str, Request] = {}  # the first of each configuration, by digest
        self._repeated: list[Request] = []
        self._idle = 0
        self._has_ended = False  # a self-contained technique asks for nothing more
        self._unwritten: list[Request] = []
        self._written_at = time.monotonic()
        self._of_caller: list[tuple[int, Config]] = []  # each with the number of tests before
        answers = search.store.answers(run_id)
        self._answered = {answer.hash for answer in answers}
        config_of = {row.id: config for config, row in search.answers.items()}
        for number, answer in enumerate(answers):
            if answer.requestor == _CALLER and answer.result_id in config_of:
                self._of_caller.append((number, config_of[answer.result_id]))
        super().__init__(
            manipulator,
            extra_seeds=[dict(seed) for seed in reversed(seeds)],  # taken from the end
            session=SimpleNamespace(flush=lambda: None, add=lambda row: None),
            tuning_run=TuningRun(program_version=ProgramVersion()),
            objective=MinimizeTime(),
            tuning_run_main=SimpleNamespace(results_wait=None, commit=None),
            args=options.for_opentuner(),
        )
        self.tuning_run = None  # requests are of no run of a session (harness.search.patches)

    # ----------------------------------------------------------------------- proposals

    def run_generation_techniques(self) -> int:
        """Ask for up to `parallelism` tests; return how many requests came, new or not."""
        requested = new = 0
        for _ in range(self.args.parallelism):
            if self.test_count >= self.args.test_limit:
                break
            request = self._next_request()
            if request is None:
                break
            requested += 1
            new += self._queue(request)
        self._idle += 1
        if new:
            self._idle = 0
        return requested

    def _next_request(self) -> Request | None:
        if self.seed_cfgs:
            return self._request(self.seed_cfgs.pop(), "seed")
        if self._idle >= _IDLE_GENERATIONS:
            self._idle = 0
            drawn = self.manipulator.draw_unmeasured(self.taken)
            if drawn is None:
                return None
            return self._request(drawn, UNMEASURED)
        desired = self.root_technique.desired_result()
        # False says that it waits for results, None that it asks for nothing.
        self._has_ended = desired is None and isinstance(self.root_technique, SelfContained)
        return desired or None

    def _request(self, cfg: Cfg, requestor: str) -> Request:
        return Request(self.get_configuration(cfg), requestor, self.generation, utc_now())

    def _queue(self, request: Request) -> bool:
        """Queue a request for a new configuration; another waits for the first one's result."""
        first = self._requests.setdefault(request.configuration.hash, request)
        if first is not request:
            self._repeated.append(request)
            return False
        self.taken.add(request.configuration.config)
        self.test_count += 1
        self.pending.append(request)
        return True

    # ------------------------------------------------------------------------- results

    def run_generation_results(self, offset: int = 0) -> None:
        """Measure the pending requests in order; then pass the results on to the techniques."""
        search = self._search
        best = self.best_result
        configs = [request.configuration.config for request in self.pending]
        search.interface.expect([c for c in configs if c not in search.answers])
        results = []
        while self.pending and not (self.is_time_up() or self.has_reached_peak()):
            result = self._answer(self.pending.pop(0), best)
            if result.was_new_best:
                best = result
            results.append(result)
        for result in results:
            for plugin in self.plugins:  # techniques may be some
                plugin.on_result(result)
            if result.was_new_best:
                self.best_result = result
        for request in self._repeated:
            request.result = self._requests[request.configuration.hash].result
        self._repeated.clear()
        self.result_callbacks()

    def _answer(self, request: Request, best: Any) -> Any:
        """Return the result of a request; store what is new about it, unless a replay waits."""
        search = self._search
        config = request.configuration.config
        stored = search.answers.get(config)
        request.start_date = utc_now()
        if stored is None:
            result = search.interface.run(request, None, None)
        else:
            result = search.interface.result(request.configuration, stored.measurement)
        request.result = result
        result.was_new_best = best is None or self.objective.lt(result, best)
        self._note(result.measurement, is_replayed=stored is not None)
        if stored is None or config.digest not in self._answered:
            self._unwritten.append(request)
            waits_s = time.monotonic() - self._written_at
            if waits_s >= WRITE_EVERY_S or not search.interface.measurer.is_replay:
                self.write()
        return result

    def _note(self, measurement: Measurement, is_replayed: bool) -> None:
        """Count and report a test that has ended."""
        search = self._search
        self._outcomes[measurement.outcome] += 1
        if measurement.shared_with is not None:
            self._shared += 1
        if measurement.outcome in self._free_outcomes:
            self._free_in_a_row += 1
            self.test_count -= 1
        else:
            self._free_in_a_row = 0
            self.tests += 1
        progress = Progress(
            plan=search.plan,
            ordinal=self.tests,
            total=self._total,
            measurement=measurement,
            best=search.interface.best,
            replayed=int(is_replayed),
            outcomes=self._outcomes,
            shared=self._shared,
        )
        search.report(progress)

    def write(self) -> None:
        """Commit the tests that have ended since the last call.

        Replayed results are committed together, a few times a second: if lost, they are read
        again, and a commit takes longer than everything else about them.
        """
        search = self._search
        if self._unwritten:
            rows = search.store.transact(self._write)
            asked: list[MeasurementRow] = []
            for request, row in zip(self._unwritten, rows, strict=True):
                if row.requestor is None:
                    asked.append(replace(row, requestor=request.requestor))
            if asked:
                search.ledger.append(asked)
            self._unwritten.clear()
        self._written_at = time.monotonic()

    def _write(self) -> list[MeasurementRow]:
        """Write the tests: what was measured, and who asked; return the measurements."""
        search = self._search
        stored = search.answers
        new = [r.result for r in self._unwritten if r.configuration.config not in stored]
        added = search.store.add_measurements(
            self.run_id,
            search.plan,
            "search",
            [result.measurement for result in new],
            new_best=[result.was_new_best for result in new],
        )
        row_of = {row.measurement.config: row for row in added}
        answers: list[MeasurementRow] = []
        requests: list[dict[str, object]] = []
        for request in self._unwritten:
            config = request.configuration.config
            answers.append(row_of.get(config) or stored[config])
            asked = {
                "generation": request.generation,
                "requestor": request.requestor,
                "request_date": request.request_date,
                "start_date": request.start_date,
            }
            requests.append(asked)
        search.store.add_requests(self.run_id, search.plan, answers, requests)
        return answers

    # ----------------------------------------------------------------------------- the end

    def convergence_criteria(self) -> bool:
        """Stop at the test limit, or for another reason."""
        is_spent: bool = self.test_count >= self.args.test_limit
        return is_spent or self.why_ended() is not EndReason.LIMIT

    def why_ended(self) -> EndReason:
        """Say why nothing more is tested; LIMIT also while the search goes on."""
        count = self._search.interface.space.count
        if self.is_time_up():
            return EndReason.TIME
        if count is not None and len(self.taken) >= count:
            return EndReason.EXHAUSTED
        if self._free_in_a_row >= MAX_FREE_IN_A_ROW:
            return EndReason.REFUSED
        if self.has_reached_peak():
            return EndReason.PEAK
        if self._has_ended:
            return EndReason.TECHNIQUE
        return EndReason.LIMIT

    def is_time_up(self) -> bool:
        """Whether the time is up, so that no test may begin."""
        stop_at = self._search.options.stop_at
        return stop_at is not None and time.monotonic() >= stop_at

    def has_reached_peak(self) -> bool:
        """Whether the best is as near to the device's peak as the space asks for. Above it, the
        peak is no limit: caches are faster, or the space's `work` is too much."""
        best = self._search.interface.best
        fraction = self._search.options.peak_fraction
        if best is None or fraction is None:
            return False
        return fraction <= best.observed.get(PEAK_FRACTION, 0) <= 1

    # ------------------------------------------------------------- methods for techniques

    def get_configuration(self, cfg: Cfg) -> Any:
        """Return the one object of a configuration, with a copy, since techniques change theirs.

        `cfg` is made legal in place. The legal configuration near it may be chosen by chance, and
        a technique that asks for its proposal again must get the same one.
        """
        key = self.manipulator.key(cfg)
        if key not in self._configurations:
            self.manipulator.normalize(cfg)
            key = self.manipulator.key(cfg)
        if key not in self._configurations:
            config = Config(cfg)
            configuration = Configuration(hash=config.digest, data=dict(cfg))
            configuration.config = config
            self._configurations[key] = configuration
        return self._configurations[key]

    def results_query(self, config: Any) -> _ResultList:
        """Return the result of a configuration, if there is one."""
        request = self._requests.get(config.hash)
        if request is None or request.result is None:
            return _ResultList()
        return _ResultList([request.result])

    # ------------------------------------------------------------- a caller who decides

    def propose(self) -> Config | None:
        """Return the next proposal that is not measured yet, the same until it is tested; None
        where the search has ended. Needs a parallelism of 1."""
        idle = 0
        while self.pending or not self.convergence_criteria():
            if self._test_again():
                continue
            if not self.pending:
                idle = 0 if self.run_generation_techniques() else idle + 1
            proposed = [request.configuration.config for request in self.pending]
            if set(proposed) - self._search.answers.keys():
                first: Config = proposed[0]
                return first
            if idle > self.args.bail_threshold:
                return None
            self.run_generation_results()
            self.generation += 1
        return None

    def test(self, config: Config) -> Measurement:
        """Measure the proposal, or a legal configuration of the caller; return what is known of it
        where it was measured before. Another proposal waits."""
        while self._test_again():
            pass
        return self._test(config)

    def _test(self, config: Config) -> Measurement:
        waiting = [r for r in self.pending if r.configuration.config != config]
        if len(waiting) == len(self.pending):
            self._queue(self._request(dict(config), _CALLER))
        self.pending = [r for r in self.pending if r not in waiting]
        self.run_generation_results()
        self.generation += 1
        self.pending = waiting
        self.write()
        return self._search.answers[config].measurement

    def _test_again(self) -> bool:
        """Test what the caller of an earlier session made up, if it is its turn: then the
        techniques propose the same again."""
        if not self._of_caller or self._of_caller[0][0] > self._outcomes.total():
            return False
        _, config = self._of_caller.pop(0)
        self._test(config)
        return True
