"""The search over a formula: what is proposed, counted, kept and continued."""

from __future__ import annotations

import json
import random

import pytest
from opentuner.search.manipulator import (
    BooleanParameter,
    EnumParameter,
    IntegerParameter,
    LogIntegerParameter,
)

from harness.core.records import Config, Measurement, Outcome, Value
from harness.search import EndReason, driver
from harness.search.driver import Driver
from harness.search.manipulator import SpaceManipulator
from harness.space import ConstrainedSpace
from harness.space_file import Parameter
from tests.helpers.replays import SPACE, FormulaMeasurer, make_spec, ran
from tests.helpers.results_examples import query, tamper

ONE_INPUT = SPACE.replace(", {m: 4096, n: 64}", "")


@pytest.mark.parametrize(
    ("kind", "values", "place"),
    [
        ("enum", (None, *range(16, 257, 16)), 8),
        ("power_of_two", tuple(2**exponent for exponent in range(32)), 29),
        ("ordered", (1, 2, 3, 4, 6), 4),
    ],
)
def test_numbers_in_order_are_searched_by_position(kind, values, place):
    parameter = Parameter("P", kind, values, "source", values[0])
    (made,) = SpaceManipulator(ConstrainedSpace([parameter]), random.Random(0)).params
    assert isinstance(made, IntegerParameter)
    config: dict[str, Value] = {"P": values[0]}
    assert (made.legal_range(config), made.get_value(config)) == ((0, len(values) - 1), 0)
    made.set_value(config, place)
    assert (config["P"], made.get_value(config)) == (values[place], place)


def test_a_flag_without_an_order_is_an_enumeration():
    for values in ((None, "ca", "cg"), (None, 3, 1), (None, 16)):
        flag = Parameter("F", "enum", values, "flag", None, "nvcc")
        (made,) = SpaceManipulator(ConstrainedSpace([flag]), random.Random(0)).params
        assert isinstance(made, EnumParameter)


@pytest.fixture
def spec(tmp_path):
    return make_spec(tmp_path)


@pytest.fixture
def manipulator(spec):
    return SpaceManipulator(ConstrainedSpace.of(spec, spec.inputs[0], None), random.Random(0))


def test_each_kind_of_parameter_has_its_opentuner_parameter(manipulator):
    kinds = {
        "BLOCK": IntegerParameter,
        "TILE": IntegerParameter,
        "UNROLL": IntegerParameter,
        "DEPTH": LogIntegerParameter,
        "LAYOUT": EnumParameter,
        "CACHE": BooleanParameter,
    }
    assert [parameter.name for parameter in manipulator.params] == list(kinds)
    for parameter in manipulator.params:
        assert isinstance(parameter, kinds[parameter.name])


def test_an_illegal_proposal_becomes_a_legal_neighbour(spec):
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    proposed = {**space.default, "UNROLL": 3}
    assert space.why_illegal(proposed) == "`UNROLL <= TILE` is false with UNROLL=3, TILE=1"
    SpaceManipulator(space, random.Random(0)).normalize(proposed)
    assert space.is_legal(proposed)
    assert sum(proposed[name] != value for name, value in space.default.items()) <= 2


def test_values_of_another_type_are_another_configuration(manipulator):
    config = manipulator.seed_config()
    for key in (manipulator.key, manipulator.hash_config):
        assert len({key({**config, "TILE": value}) for value in (1, 1.0, True, "1")}) == 4
        assert key(dict(reversed(config.items()))) == key(config)


def test_each_input_is_a_run_and_starts_from_earlier_winners(spec, tmp_path):
    database = tmp_path / "r.db"
    first = ran(spec, database, test_limit=12)
    winner = first.reports[0].best
    assert winner is not None
    default = first.campaign.space(spec.inputs[1]).default
    assert first.tested(spec.inputs[1])[:2] == [default, winner.config]
    paths = query(database, "select distinct path from input")
    assert sorted(paths) == sorted((problem.json,) for problem in spec.inputs)
    # Another technique or parallelism is another run, of the same inputs and configurations.
    ran(spec, database, test_limit=12, technique=["PureRandom"])
    ran(spec, database, test_limit=12, parallelism=1)
    counts = query(database, "select count(*) from desired_result group by tuning_run_id")
    assert counts == [(12,)] * 6
    for table, distinct in (("input", "path"), ("configuration", "hash"), ("machine", "name")):
        counted = f"select count(*), count(distinct {distinct}) from {table}"
        ((rows, different),) = query(database, counted)
        assert rows == different > 0


class Asked(FormulaMeasurer):
    """It remembers the best times and the configurations to expect that it is given."""

    def __init__(self):
        super().__init__()
        self.bests: list[float | None] = []
        self.expected: list[Config] = []

    def measure(self, space, problem, config, best_s):
        self.bests.append(best_s)
        return super().measure(space, problem, config, best_s)

    def expect(self, space, configs):
        self.expected += configs


def test_a_measurer_hears_the_best_time_and_what_was_not_measured_yet(tmp_path):
    spec, first, again = make_spec(tmp_path, ONE_INPUT), Asked(), Asked()
    tests = ran(spec, tmp_path / "r.db", first, test_limit=15).tests
    bests = [test.best and test.best.time_s for test in tests]
    assert first.bests[:15] == [None, *bests[:14]]
    times_s = [test.measurement.time_s for test in tests]
    assert bests == [min(times_s[: place + 1]) for place in range(15)]
    ran(spec, tmp_path / "r.db", again, technique=["PureRandom"], test_limit=15)
    assert not set(again.expected) & {config for _, config in first.asked}
    assert set(again.expected) >= {config for _, config in again.asked} != set()


def test_an_interrupted_run_goes_on_and_repeats_nothing(spec, tmp_path):
    whole, cut, rest = FormulaMeasurer(), FormulaMeasurer(stop_after=9), FormulaMeasurer()
    database = tmp_path / "r.db"
    expected = ran(spec, tmp_path / "whole.db", whole, test_limit=15)
    with pytest.raises(KeyboardInterrupt):
        ran(spec, database, cut, test_limit=15)
    again = ran(spec, database, rest, test_limit=15)
    assert cut.asked + rest.asked == whole.asked
    assert [test.replayed for test in again.tests[:10]] == [True] * 9 + [False]
    assert [r.best and r.best.config for r in again.reports] == [
        r.best and r.best.config for r in expected.reports
    ]
    assert query(database, "select count(*) from desired_result") == [(30,)]
    assert query(database, "select state from tuning_run") == [("COMPLETE",), ("COMPLETE",)]


def test_a_replay_that_is_written_in_one_go_stores_what_a_search_stores(
    spec, tmp_path, monkeypatch
):
    stored = []
    monkeypatch.setattr(driver, "WRITE_EVERY_S", float("inf"))
    for is_replay in (False, True):
        place = tmp_path / f"{is_replay}.db"
        monkeypatch.setattr(FormulaMeasurer, "is_replay", is_replay)
        ran(spec, place, test_limit=15)
        stored.append([query(place, sql) for sql in STORED])
        assert query(place, "pragma foreign_key_check") == []
    assert stored[0] == stored[1]
    assert [len(rows) for rows in stored[0][:2]] == [30, 30]


STORED = (
    "select r.tuning_run_id, r.input_id, m.outcome, c.digest, r.state, r.time, r.was_new_best"
    " from result r join measurements m on m.id = r.id"
    " join configurations c on c.id = r.configuration_id where stage = 'search' order by r.id",
    "select d.tuning_run_id, d.generation, d.requestor, r.time, c.hash from desired_result d"
    " join result r on r.id = d.result_id join configuration c on c.id = d.configuration_id"
    " and c.id = r.configuration_id order by d.id",
    "select id, samples_s from measurements where stage = 'search'",
    "select t.state, c.hash from tuning_run t join configuration c on c.id = t.final_config_id",
)


@pytest.mark.parametrize("is_replay", [True, False])
def test_a_technique_that_fails_ends_the_run_with_its_own_error(
    is_replay, spec, tmp_path, monkeypatch
):
    from opentuner.search.technique import PureRandom  # patched, since harness.search is here

    measurer, database = FormulaMeasurer(), tmp_path / "r.db"
    propose = PureRandom.desired_configuration

    def propose_eight(self):
        if len(measurer.asked) >= 8:
            raise ZeroDivisionError("of the technique")
        return propose(self)

    monkeypatch.setattr(PureRandom, "desired_configuration", propose_eight)
    monkeypatch.setattr(FormulaMeasurer, "is_replay", is_replay)
    monkeypatch.setattr(driver, "WRITE_EVERY_S", float("inf"))  # replayed tests are not kept
    with pytest.raises(ZeroDivisionError, match="of the technique") as raised:
        ran(spec, database, measurer, technique=["PureRandom"])
    assert raised.value.__context__ is None
    assert query(database, "select state from tuning_run") == [("ABORTED",)]
    assert query(database, "select count(*) from desired_result") == [(0 if is_replay else 8,)]
    assert query(database, "pragma foreign_key_check") == []


def test_a_search_that_has_ended_is_reported_again_without_its_techniques(
    spec, tmp_path, monkeypatch
):
    before = ran(spec, tmp_path / "r.db", test_limit=12)
    again = FormulaMeasurer()
    monkeypatch.setattr(Driver, "main", None)
    after = ran(spec, tmp_path / "r.db", again, test_limit=12)
    searched = after.campaign.searched
    assert searched == before.campaign.searched
    assert after.campaign.replayed == sum(search.tests for search in searched.values())
    assert again.asked == []
    reported = [test for test in before.tests if test.ordinal == test.total]
    for test, last in zip(after.tests, reported, strict=True):
        assert (test.measurement, test.best) == (last.measurement, last.best)
        assert sum(test.outcomes.values()) == test.ordinal == test.total == last.total


def test_an_ended_search_has_its_tests_after_a_higher_limit(spec, tmp_path):
    for limit in (4, 6, 4, 4):
        searched = ran(spec, tmp_path / "r.db", test_limit=limit).campaign.searched
        assert {search.tests for search in searched.values()} == {limit}


@pytest.mark.parametrize("ended", list(EndReason)[:3])
def test_a_note_that_a_search_has_ended_is_believed_only_with_its_tests(ended, spec, tmp_path):
    ran(spec, tmp_path / "r.db", test_limit=5)
    notes = json.dumps({"ended": ended.value})  # as if tests of a longer run were lost
    tamper(tmp_path / "r.db", f"UPDATE runs SET test_limit = 9, notes = '{notes}'")
    again = FormulaMeasurer()
    searched = ran(spec, tmp_path / "r.db", again, test_limit=9).campaign.searched
    assert {search.tests for search in searched.values()} == {9}
    assert again.asked


@pytest.mark.parametrize(
    ("technique", "first", "then"),
    [("AUCBanditMetaTechniqueA", 8, 16), ("AUCBanditMetaTechniqueA", 1, 7), ("auto", 8, 12)],
)
def test_a_larger_budget_goes_on_from_the_tests_that_were_made(
    technique, first, then, spec, tmp_path
):
    more, options = FormulaMeasurer(), {"technique": [technique]}
    before = ran(spec, tmp_path / "r.db", test_limit=first, **options)
    after = ran(spec, tmp_path / "r.db", more, test_limit=then, **options)
    for problem in spec.inputs:
        assert after.tested(problem)[:first] == before.tested(problem)
        assert len(after.tested(problem)) == then
    winners_elsewhere = len(spec.inputs)
    assert len(more.asked) <= 2 * (then - first) + winners_elsewhere


def test_fresh_measures_everything_anew(spec, tmp_path):
    first, again = FormulaMeasurer(), FormulaMeasurer()
    ran(spec, tmp_path / "r.db", first, test_limit=8)
    ran(spec, tmp_path / "r.db", again, test_limit=8, fresh=True)
    assert again.asked == first.asked


def test_a_failed_configuration_never_wins_and_has_its_reason(spec, tmp_path):
    measurer = FormulaMeasurer(lambda problem, config: float("inf") if config["CACHE"] else 1e-3)
    reports = ran(spec, tmp_path / "r.db", measurer, test_limit=15).reports
    assert all(report.best and not report.best.config["CACHE"] for report in reports)
    wanted = "count(*), min(message), min(time) from measurements join result using (id)"
    failed = query(tmp_path / "r.db", f"select {wanted} where outcome <> 'ok'")
    errors = query(tmp_path / "r.db", "select count(*) from result where state = 'ERROR'")
    assert errors != [(0,)]
    assert failed == [(*errors[0], "as the formula has it", float("inf"))]


def test_a_space_in_which_everything_fails_says_so_and_ends(spec, tmp_path):
    measurer = FormulaMeasurer(lambda *_: float("inf"))
    reports = ran(spec, tmp_path / "r.db", measurer, test_limit=8).reports
    assert [report.best for report in reports] == [None, None]
    assert len(measurer.asked) == 16


def test_what_need_not_end_alike_is_tried_again(spec, tmp_path):
    """What found no memory on the device is, and what hung, with a later deadline."""

    class Hanging(FormulaMeasurer):
        def measure(self, space, problem, config, best_s):
            measured = super().measure(space, problem, config, best_s)
            if config["CACHE"]:
                return Measurement(config, problem, Outcome.TIMEOUT, message="it hung", wall_s=3.0)
            if config["BLOCK"] == 256:
                return Measurement(config, problem, Outcome.OUT_OF_MEMORY, message="no room")
            return measured

    asked = []
    for timeout_s in (3.0, 3.0, 5.0):
        measurer = Hanging()
        changed = spec.with_measure({"timeout_s": timeout_s})
        ran(changed, tmp_path / "r.db", measurer, test_limit=15)
        asked.append(measurer.asked)
    first, again, later = asked
    lacked_memory = [test for test in first if not test[1]["CACHE"] and test[1]["BLOCK"] == 256]
    assert again == lacked_memory != []
    assert later == [test for test in first if test[1]["CACHE"] or test in lacked_memory]


def test_finals_are_measured_again_for_other_repeats(spec, tmp_path):
    for repeats in (5, 5, 9):
        changed = spec.with_measure({"repeats": repeats})
        ran(changed, tmp_path / "r.db", FormulaMeasurer(interleaves=True), test_limit=8)
    turns = query(tmp_path / "r.db", "select count(distinct group_uuid) from measurements")
    assert turns == [(2 * 3 * len(spec.inputs),)]  # for 5 and for 9


def test_opentuner_reads_the_record_which_has_no_command_line(spec, tmp_path):
    from opentuner import resultsdb
    from opentuner.resultsdb.models import DesiredResult, Result, TuningRun

    ran(spec, tmp_path / "r.db", test_limit=8)
    engine, session = resultsdb.connect(f"sqlite:///{tmp_path / 'r.db'}")
    try:
        run = session().query(TuningRun).first()
        results = session().query(Result).join(DesiredResult).filter_by(tuning_run_id=run.id)
        best = results.order_by(Result.time).first()
        assert run.final_config_id == best.configuration_id
        assert Config(best.configuration.data).digest == best.configuration.hash
        assert [d.requestor for d in best.desired_results] != []
    finally:
        session.remove()
        engine.dispose()
    ((args,),) = query(tmp_path / "r.db", "select args from tuning_run limit 1")
    assert b"r.db" not in args
