"""What a search measures, counts and stores for each of OpenTuner's requests, and when it ends."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.results import Stored
from harness.search import interface as module
from harness.search.interface import SpecInputs, TuningInterface
from harness.search.records import EndReason, InputSearch, Progress, SearchOptions
from harness.search.rows import TestRows
from harness.space import ConstrainedSpace
from harness.space_file import Parameter

GIVEN = Input({"n": 8})
OPTIONS = SearchOptions(
    techniques=("uniform",), test_limit=5, seed=0, label="a label", parallelism=1
)


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def ok(value: int, time_s: float) -> Measurement:
    return Measurement(block(value), GIVEN, Outcome.OK, Timing((time_s,)))


def failed(value: int, outcome: Outcome = Outcome.LAUNCH_FAILED) -> Measurement:
    return Measurement(block(value), GIVEN, outcome, message="no")


@dataclasses.dataclass
class Searched:
    """A search whose measurer, store and driver are lists."""

    answers: list[Measurement]
    known: dict[Config, Stored] = dataclasses.field(default_factory=dict)
    options: SearchOptions = OPTIONS
    seeds: Sequence[Config] = ()

    def __post_init__(self) -> None:
        self.bests: list[float | None] = []
        self.expected: list[list[Config]] = []
        self.stored: list[Any] = []
        self.reports: list[Progress] = []
        values = (16, 32, 64, 128)
        space = ConstrainedSpace([Parameter("BLOCK", "ordered", values, "source", 16)], [], {})
        spec = SimpleNamespace(name="small", space_sha256="ab" * 32)
        self.interface = TuningInterface(
            InputSearch(
                SimpleNamespace(spec=spec, problem=GIVEN, test_limit=5),  # type: ignore[arg-type]
                space,
                SimpleNamespace(  # type: ignore[arg-type]
                    measure=self.measure,
                    expect=lambda space, configs: self.expected.append(configs),
                    is_replay=False,
                ),
                SimpleNamespace(  # type: ignore[arg-type]
                    next_ordinal=lambda run_id: 7,
                    add_measurements=self.add_measurements,
                    add_tests=lambda *row: self.stored.append(row),
                ),
                self.known,
                self.reports.append,
            ),
            self.options,
            run_id=3,
            seeds=self.seeds,
            rng=random.Random(0),
        )
        self.driver = SimpleNamespace(taken=set(), has_ended=False, test_count=100, pending=[])
        main = SimpleNamespace(search_driver=self.driver)
        self.interface.driver = SimpleNamespace(tuning_run_main=main)

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        self.bests.append(best_s)
        return next(found for found in self.answers if found.config == config)

    def add_measurements(self, run_id: int, plan: Any, stage: str, new: Any) -> list[int]:
        self.stored.append((run_id, stage, [found.config for found in new]))
        return [50 + index for index in range(len(new))]

    def test(self, value: int) -> Any:
        result = self.interface.run(wanted(value), GIVEN, 0.0)
        self.interface.on_measured()
        return result


def wanted(value: int, requestor: str = "it") -> Any:
    configuration = SimpleNamespace(data={"BLOCK": value})
    return SimpleNamespace(configuration=configuration, requestor=requestor)


def test_a_result_is_the_median_time_or_an_error_of_infinite_time() -> None:
    search = Searched([ok(16, 2.0), failed(32)])
    good, bad = search.test(16), search.test(32)
    assert (good.state, good.time) == ("OK", 2.0)
    assert (bad.state, bad.time) == ("ERROR", float("inf"))


def test_the_first_of_the_fastest_is_the_best_and_later_tests_know_its_time() -> None:
    search = Searched([failed(16), ok(32, 2.0), ok(64, 2.0), ok(128, 1.0)])
    for value in (16, 32, 64, 128):
        search.test(value)
    assert search.bests == [None, None, 2.0, 2.0]
    bests = [report.best and report.best.config for report in search.reports]
    assert bests == [None, block(32), block(32), block(128)]
    assert [report.ordinal for report in search.reports] == [1, 2, 3, 4]
    assert [report.total for report in search.reports] == [4] * 4, "the space has four"
    assert not any(report.replayed for report in search.reports)
    assert search.interface.tests == 4


def test_what_is_known_is_not_measured_again() -> None:
    search = Searched([], {block(16): Stored(9, ok(16, 3.0))})
    assert search.interface.is_known(wanted(16))
    assert not search.interface.is_known(wanted(32))
    assert search.test(16).time == 3.0
    assert search.bests == []
    assert search.reports[0].replayed
    search.interface.on_replayed(wanted(16))
    assert [report.replayed for report in search.reports] == [True, True]
    assert search.reports[1].ordinal == 2


def test_only_what_is_not_known_is_built() -> None:
    search = Searched([], {block(16): Stored(9, ok(16, 3.0))})
    search.driver.pending = [wanted(16), wanted(64)]
    search.interface.pre_process()
    assert search.expected == [[block(64)]]


def test_new_measurements_and_all_tests_are_stored_in_their_order() -> None:
    search = Searched([ok(32, 1.0), ok(64, 2.0)], {block(16): Stored(9, ok(16, 3.0))})
    for value, requestor in ((32, "a"), (16, "b"), (64, "c")):
        search.interface.run(wanted(value, requestor), GIVEN, 0.0)
    search.interface.keep_written(search.interface.write([1, 2, 3]))
    assert search.stored[0] == (3, "search", [block(32), block(64)])
    assert search.stored[1] == (3, 7, [1, 2, 3], [50, 9, 51], ["a", "b", "c"])
    assert search.known[block(64)].id == 51
    search.interface.run(wanted(16, "d"), GIVEN, 0.0)
    search.interface.keep_written(search.interface.write([4]))
    assert search.stored[2:] == [(3, "search", []), (3, 10, [4], [9], ["d"])]


def test_a_free_outcome_is_not_counted_and_200_in_a_row_end_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = frozenset({Outcome.ILLEGAL})
    monkeypatch.setattr(SearchOptions, "free_outcomes", property(lambda options: free))
    search = Searched([failed(16, Outcome.ILLEGAL), ok(32, 1.0)])
    for _ in range(199):
        search.test(16)
    assert (search.interface.tests, search.driver.test_count) == (0, 100 - 199)
    assert search.reports[-1].ordinal == 0
    assert search.interface.why_ended() is EndReason.LIMIT
    search.test(32)
    assert (search.interface.tests, search.driver.test_count) == (1, 100 - 199)
    for _ in range(199):
        search.test(16)
    assert search.interface.why_ended() is EndReason.LIMIT, "one that counts begins anew"
    search.test(16)
    assert search.interface.why_ended() is EndReason.REFUSED
    assert search.interface.extra_convergence_criteria(None)


def test_a_search_ends_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "monotonic", lambda: 10.0)
    for stop_at, reason in ((10.0, EndReason.TIME), (10.1, EndReason.LIMIT)):
        search = Searched([], options=dataclasses.replace(OPTIONS, stop_at=stop_at))
        assert search.interface.why_ended() is reason
        assert search.interface.is_time_up() == (reason is EndReason.TIME)
    assert not Searched([]).interface.is_time_up()
    assert not Searched([]).interface.extra_convergence_criteria(None)


def test_a_search_ends_where_all_was_taken_or_its_technique_has_ended() -> None:
    search = Searched([])
    search.driver.taken = {block(16), block(32), block(64)}
    assert search.interface.why_ended() is EndReason.LIMIT
    search.driver.taken.add(block(128))
    assert search.interface.why_ended() is EndReason.EXHAUSTED
    ended = Searched([])
    ended.driver.has_ended = True
    assert ended.interface.why_ended() is EndReason.TECHNIQUE


def test_opentuner_takes_the_first_seeds_from_the_end() -> None:
    search = Searched([], seeds=[block(64), block(16)])
    assert search.interface.seed_configurations() == [{"BLOCK": 16}, {"BLOCK": 64}]


def test_opentuner_knows_the_space_and_the_input_by_name() -> None:
    interface = Searched([]).interface
    assert interface.project_name() == "harness"
    assert (interface.program_name(), interface.program_version()) == ("small", "ab" * 32)
    assert interface.input_manager().path == GIVEN.json
    assert not interface.is_replay


@pytest.fixture
def opentuner_session() -> Any:
    # After the imports above, which patch OpenTuner.
    from opentuner.resultsdb.connect import connect
    from opentuner.resultsdb.models import Program

    _, make_session = connect("sqlite://")
    session = make_session()
    session.add(Program(project="harness", name="small"))
    session.flush()
    return session


def input_row(session: Any, problem: Input) -> Any:
    from opentuner.resultsdb.models import Program

    plan = SimpleNamespace(spec=SimpleNamespace(name="small"), problem=problem)
    inputs = SpecInputs(plan)  # type: ignore[arg-type]
    inputs.session, inputs.program = session, session.query(Program).one()
    return inputs.create_input(None)


def test_an_input_has_one_row_however_often_it_is_searched(opentuner_session: Any) -> None:
    rows = [input_row(opentuner_session, one) for one in (GIVEN, Input({"n": 9}), GIVEN)]
    assert rows[0] is rows[2]
    assert [row.path for row in rows[:2]] == [GIVEN.json, Input({"n": 9}).json]
    assert rows[0].id != rows[1].id


def test_the_table_of_inputs_is_scanned_once_for_all_searches(opentuner_session: Any) -> None:
    first = input_row(opentuner_session, GIVEN)
    opentuner_session.commit()
    opentuner_session.info.clear()  # as in another command
    scans: list[str] = []

    @sqlalchemy.event.listens_for(opentuner_session.bind, "before_cursor_execute")
    def count(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        if re.search(r"FROM input\b", text) and "input.id = ?" not in text:
            scans.append(text)

    for n in range(5):
        input_row(opentuner_session, Input({"n": n}))
        assert input_row(opentuner_session, GIVEN) is first
    assert len(scans) == 1


def test_the_table_of_configurations_is_read_once_for_all_searches(opentuner_session: Any) -> None:
    scans: list[str] = []

    @sqlalchemy.event.listens_for(opentuner_session.bind, "before_cursor_execute")
    def count(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        if re.search(r"FROM configuration \nWHERE configuration.program_id = \?$", text):
            scans.append(text)

    moment = datetime(2026, 1, 1)
    tested = SimpleNamespace(
        configuration=SimpleNamespace(hash="a" * 64, data={"X": 1}),
        generation=1,
        requestor="a technique",
        request_date=moment,
        start_date=moment,
    )
    result = SimpleNamespace(
        collection_date=moment, collection_cost=0.0, state="OK", time=1.0, was_new_best=True
    )
    program, ids = SimpleNamespace(id=1), set[int]()
    for run in range(1, 4):
        of_run = SimpleNamespace(id=run, program=program)
        rows = TestRows(opentuner_session, of_run, input_id=1, machine_id=1)
        rows.add([(tested, result)])
        opentuner_session.commit()
        rows.keep_new()
        ids.add(rows.id_of(tested.configuration))
    assert len(ids) == 1
    assert len(scans) == 1


def test_an_input_whose_row_was_rolled_back_gets_another(opentuner_session: Any) -> None:
    input_row(opentuner_session, Input({"n": 1}))
    opentuner_session.commit()
    input_row(opentuner_session, GIVEN)
    opentuner_session.rollback()
    other = input_row(opentuner_session, Input({"n": 9}))  # which may get the same id
    row = input_row(opentuner_session, GIVEN)
    assert row is not other
    assert (row.path, other.path) == (GIVEN.json, Input({"n": 9}).json)
