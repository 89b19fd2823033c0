"""The search over a formula: what is proposed, counted, kept and continued."""

from __future__ import annotations

import collections
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from opentuner.search.manipulator import (
    BooleanParameter,
    EnumParameter,
    IntegerParameter,
    LogIntegerParameter,
)

from harness.core.errors import HostModuleError, UsageError
from harness.core.records import Config, DeviceLimits, Input, Measurement, Outcome, Value
from harness.search import EndReason, drivers, resolve_techniques
from harness.search.drivers import InMemorySearchDriver
from harness.search.manipulator import OrderedParameter, SpaceManipulator, opentuner_parameter
from harness.space import ConstrainedSpace
from harness.space_file import Parameter
from tests.helpers.replays import FormulaMeasurer, make_spec, opened

SMALL = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256], default: 64}
  A: {type: integer, min: 1, max: 4, default: 1}
constraints: [A * 16 <= BLOCK]
launch: {group: [BLOCK], grid: [1]}
inputs: {features: [n], values: [{n: 1}]}
"""


def test_a_numeric_flag_is_an_integer_of_opentuner_and_absent_a_value_of_its_own() -> None:
    flag = Parameter("maxrregcount", "enum", (None, *range(16, 257, 16)), "flag", None, "nvcc")
    parameter = opentuner_parameter(flag)
    assert isinstance(parameter, IntegerParameter)
    assert (parameter.min_value, parameter.max_value) == (0, 16)
    random.seed(0)
    moved = collections.Counter[Value]()
    for _ in range(500):
        config: dict[str, Value] = {"maxrregcount": 128}
        parameter.op1_normal_mutation(config, sigma=0.05)
        moved[config["maxrregcount"]] += 1
    near = sum(moved[value] for value in (96, 112, 128, 144, 160))
    assert near > 400  # by steps
    assert 0 < moved[None] < 20  # by chance
    absent: dict[str, Value] = {"maxrregcount": None}
    found = set()
    for _ in range(200):
        config = dict(absent)
        parameter.op1_normal_mutation(config, sigma=0.05)
        found.add(config["maxrregcount"])
    assert found == set(flag.values)


@pytest.mark.parametrize("values", [(None, "ca", "cg"), (None, 3, 1), (None, 16)])
def test_a_flag_without_an_order_is_an_enumeration(values: tuple[Value, ...]) -> None:
    made = opentuner_parameter(Parameter("F", "enum", values, "flag", None, "nvcc"))
    assert isinstance(made, EnumParameter)


def test_each_kind_of_parameter_becomes_the_opentuner_parameter_that_searches_it(
    tmp_path: Path,
) -> None:
    spec = make_spec(tmp_path)
    manipulator = SpaceManipulator(
        ConstrainedSpace.of(spec, spec.inputs[0], None), random.Random(0)
    )
    kinds = {parameter.name: type(parameter) for parameter in manipulator.params}
    assert kinds == {
        "BLOCK": OrderedParameter,
        "TILE": OrderedParameter,
        "UNROLL": IntegerParameter,
        "DEPTH": LogIntegerParameter,
        "LAYOUT": EnumParameter,
        "CACHE": BooleanParameter,
    }


def test_an_ordered_list_is_searched_by_position_and_stored_by_value(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    manipulator = SpaceManipulator(
        ConstrainedSpace.of(spec, spec.inputs[0], None), random.Random(0)
    )
    tile = manipulator.parameters_dict(manipulator.seed_config())["TILE"]
    config = manipulator.seed_config()
    tile.set_value(config, 4)
    assert (config["TILE"], tile.get_value(config)) == (6, 4)


def test_every_power_of_two_is_searched_by_its_exponent() -> None:
    powers = tuple(2**exponent for exponent in range(32))
    parameter = opentuner_parameter(Parameter("BLOCK", "power_of_two", powers, "launch", 1))
    config: dict[str, Value] = {"BLOCK": 1}
    parameter.set_value(config, 29)
    assert (config["BLOCK"], parameter.get_value(config)) == (2**29, 29)
    assert parameter.legal_range(config) == (0, 31)


def test_an_illegal_proposal_becomes_a_legal_neighbour(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    proposed = {**space.default, "UNROLL": 3}
    assert space.why_illegal(proposed) == "`UNROLL <= TILE` is false with UNROLL=3, TILE=1"
    SpaceManipulator(space, random.Random(0)).normalize(proposed)
    assert space.is_legal(proposed)
    assert sum(proposed[name] != value for name, value in space.default.items()) <= 2


def test_values_of_another_type_are_another_configuration(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    manipulator = SpaceManipulator(
        ConstrainedSpace.of(spec, spec.inputs[0], None), random.Random(0)
    )
    config = manipulator.seed_config()
    found = {manipulator.hash_config({**config, "TILE": value}) for value in (1, 1.0, True, "1")}
    assert len(found) == 4
    backwards = dict(reversed(config.items()))
    assert manipulator.hash_config(backwards) == manipulator.hash_config(config)


def test_a_configuration_does_not_change_with_the_proposal_it_was_made_from(
    tmp_path: Path,
) -> None:
    spec = make_spec(tmp_path)
    driver: Any = InMemorySearchDriver.__new__(InMemorySearchDriver)
    driver._configurations = {}
    driver.manipulator = SpaceManipulator(
        ConstrainedSpace.of(spec, spec.inputs[0], None), random.Random(0)
    )
    proposal = driver.manipulator.seed_config()
    configuration = driver.get_configuration(proposal)
    proposal["DEPTH"] = 64
    assert configuration.data == driver.manipulator.seed_config()


def test_the_same_seed_proposes_the_same_configurations_and_another_seed_others(
    tmp_path: Path,
) -> None:
    spec = make_spec(tmp_path)
    asked = []
    for number, seed in enumerate((7, 7, 8)):
        measurer = FormulaMeasurer()
        with opened(spec, tmp_path / f"{number}.db", measurer, seed=seed) as (campaign, _):
            campaign.run()
        asked.append(measurer.asked)
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


def test_a_space_smaller_than_the_budget_ends_when_it_is_exhausted(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path, SMALL), FormulaMeasurer(lambda *_: 1e-3)
    with opened(spec, tmp_path / "r.db", measurer, test_limit=1000) as (campaign, _):
        (report,) = campaign.run()
    assert report.is_exhausted
    assert report.measured == len(measurer.asked) == 1 + 4 + 4
    assert {config for _, config in measurer.asked} == set(
        ConstrainedSpace.of(spec, spec.inputs[0], None)
    )


def test_each_input_is_a_run_of_its_own_and_starts_from_earlier_winners(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, tests):
        campaign.run()
    first = [t for t in tests if t.plan.problem == spec.inputs[0]]
    second = [t for t in tests if t.plan.problem == spec.inputs[1]]
    winner = first[-1].best
    assert winner is not None
    assert winner.config in [t.measurement.config for t in second[:2]]
    with sqlite3.connect(tmp_path / "r.db") as database:
        rows = database.execute("select tuning_run_id, count(*) from result group by 1").fetchall()
        paths = database.execute("select distinct path from input").fetchall()
    assert [count for _, count in rows] == [40, 40]
    assert sorted(paths) == sorted((problem.json,) for problem in spec.inputs)


def test_every_winner_is_measured_on_every_input(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", measurer, test_limit=10) as (campaign, _):
        reports = campaign.run()
        times = campaign.times()
    winners = [report.best.config for report in reports if report.best]
    assert all(winner in times[problem] for winner in winners for problem in spec.inputs)


def test_an_interrupted_run_goes_on_without_measuring_anything_twice(tmp_path: Path) -> None:
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    whole = FormulaMeasurer()
    with opened(spec, tmp_path / "whole.db", whole) as (campaign, _):
        expected = campaign.run()
    cut = FormulaMeasurer(stop_after=25)
    with opened(spec, database, cut) as (campaign, _), pytest.raises(KeyboardInterrupt):
        campaign.run()
    rest = FormulaMeasurer()
    with opened(spec, database, rest) as (campaign, tests):
        found = campaign.run()
    assert cut.asked + rest.asked == whole.asked
    assert [t.replayed for t in tests[:25]] == [True] * 25
    assert [r.best and r.best.config for r in found] == [r.best and r.best.config for r in expected]
    with sqlite3.connect(database) as connection:
        assert connection.execute("select count(*) from tuning_run").fetchone() == (2,)
        assert connection.execute("select count(*) from result").fetchone() == (80,)
        states = connection.execute("select state from runs").fetchall()
    assert states == [("complete",), ("complete",)]


def test_a_replay_that_is_written_in_one_go_keeps_what_a_search_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, kept = make_spec(tmp_path), []
    monkeypatch.setattr(drivers, "_WRITE_EVERY_S", float("inf"))
    for is_replay in (False, True):
        place = tmp_path / f"{is_replay}.db"
        monkeypatch.setattr(FormulaMeasurer, "is_replay", is_replay)
        with opened(spec, place, FormulaMeasurer()) as (campaign, _):
            campaign.run()
        with sqlite3.connect(place) as database:
            kept.append([database.execute(query).fetchall() for query in _KEPT])
            assert database.execute("pragma foreign_key_check").fetchall() == []
    assert kept[0] == kept[1]
    assert [len(rows) for rows in kept[0][:2]] == [80, 80]


_KEPT = (
    "select t.run_id, t.ordinal, t.requestor, m.input_id, m.outcome, m.median_s, c.digest, r.state,"
    " r.time, r.was_new_best from tests t join measurements m on m.id = t.measurement_id"
    " join configurations c on c.id = m.configuration_id join result r on r.id = t.result_id",
    "select d.tuning_run_id, d.generation, d.requestor, r.time, c.hash from desired_result d"
    " join result r on r.id = d.result_id join configuration c on c.id = d.configuration_id"
    " and c.id = r.configuration_id order by d.id",
    "select s.measurement_id, s.ordinal, s.time_s from samples s"
    " join measurements m on m.id = s.measurement_id where m.stage = 'search'",
    "select t.state, c.hash from tuning_run t join configuration c on c.id = t.final_config_id",
)


@pytest.mark.parametrize("is_replay", [True, False])
def test_a_technique_that_fails_ends_the_run_with_its_own_error(
    is_replay: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentuner.search.technique import PureRandom  # patched, since harness.search is here

    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    propose = PureRandom.desired_configuration

    def propose_twenty(self: Any) -> Any:
        if len(measurer.asked) >= 20:
            raise ZeroDivisionError("of the technique")
        return propose(self)

    monkeypatch.setattr(PureRandom, "desired_configuration", propose_twenty)
    monkeypatch.setattr(FormulaMeasurer, "is_replay", is_replay)
    monkeypatch.setattr(drivers, "_WRITE_EVERY_S", float("inf"))  # replayed tests are not kept
    with (
        opened(spec, tmp_path / "r.db", measurer, technique=["PureRandom"]) as (campaign, _),
        pytest.raises(ZeroDivisionError, match="of the technique") as raised,
    ):
        campaign.run()
    assert raised.value.__context__ is None
    with sqlite3.connect(tmp_path / "r.db") as database:
        states = database.execute("select t.state, r.state from tuning_run t, runs r").fetchall()
        kept = database.execute("select count(*) from tests").fetchone()
        assert database.execute("pragma foreign_key_check").fetchall() == []
    assert states == [("ABORTED", "interrupted")]
    assert kept == (0 if is_replay else 20,)


def test_a_finished_command_run_again_measures_nothing(tmp_path: Path) -> None:
    spec, again = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
    with opened(spec, tmp_path / "r.db", again) as (campaign, _):
        campaign.run()
    assert again.asked == []


def test_a_search_that_has_ended_is_reported_again_without_its_techniques(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, before):
        campaign.run()
        searched = campaign.searched
    asked = []
    monkeypatch.setattr(InMemorySearchDriver, "main", lambda self: asked.append(self))
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, after):
        campaign.run()
        assert campaign.searched == searched
        assert campaign.state.replayed == sum(found.tests for found in searched.values())
    assert asked == []
    assert [(t.measurement, t.ordinal, t.best, t.replayed) for t in after] == [
        (t.measurement, t.ordinal, t.best, True) for t in before
    ]


def test_a_search_that_has_ended_has_the_tests_of_its_limit_after_a_higher_one(
    tmp_path: Path,
) -> None:
    spec, found = make_spec(tmp_path), []
    for limit in (4, 6, 4, 4):
        measurer = FormulaMeasurer()
        with opened(spec, tmp_path / "r.db", measurer, test_limit=limit) as (campaign, _):
            campaign.run()
            found.append({searched.tests for searched in campaign.searched.values()})
    assert found == [{4}, {6}, {4}, {4}]


@pytest.mark.parametrize("ended", list(EndReason)[:3])
def test_a_note_that_a_search_has_ended_is_believed_only_with_its_tests(
    ended: EndReason, tmp_path: Path
) -> None:
    spec, again = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", FormulaMeasurer(), test_limit=5) as (campaign, _):
        campaign.run()
        store = campaign.state.store
        for run_id in campaign.state.runs.values():  # as if tests of a longer run were lost
            store._update_run(run_id, test_limit=9, notes={"ended": ended.value})
        store.commit()
    with opened(spec, tmp_path / "r.db", again, test_limit=9) as (campaign, _):
        campaign.run()
        assert {found.tests for found in campaign.searched.values()} == {9}
    assert again.asked


@pytest.mark.parametrize(("first", "then"), [(15, 25), (40, 100), (1, 7)])
def test_a_larger_budget_goes_on_from_the_tests_that_were_made(
    first: int, then: int, tmp_path: Path
) -> None:
    spec, more = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", FormulaMeasurer(), test_limit=first) as (campaign, before):
        campaign.run()
    with opened(spec, tmp_path / "r.db", more, test_limit=then) as (campaign, after):
        campaign.run()
    for problem in spec.inputs:
        tested = [t.measurement.config for t in before if t.plan.problem == problem]
        again = [t.measurement.config for t in after if t.plan.problem == problem]
        assert again[:first] == tested
        assert len(again) == then
    winners_elsewhere = len(spec.inputs)
    assert len(more.asked) <= 2 * (then - first) + winners_elsewhere


def test_another_technique_uses_what_was_measured_already(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        campaign.run()
    other = FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", other, technique=["PureRandom"]) as (campaign, _):
        campaign.run()
    assert not set(other.asked) & set(measurer.asked)


def test_fresh_measures_everything_anew(tmp_path: Path) -> None:
    spec, again = make_spec(tmp_path), FormulaMeasurer()
    first = FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", first) as (campaign, _):
        campaign.run()
    with opened(spec, tmp_path / "r.db", again, fresh=True) as (campaign, _):
        campaign.run()
    assert again.asked == first.asked


def test_a_failed_configuration_never_wins_and_is_kept_with_its_reason(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    measurer = FormulaMeasurer(lambda problem, config: float("inf") if config["CACHE"] else 1e-3)
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        reports = campaign.run()
    assert all(report.best and not report.best.config["CACHE"] for report in reports)
    with sqlite3.connect(tmp_path / "r.db") as database:
        failed = database.execute(
            "select count(*), min(message), max(median_s) from measurements where outcome <> 'ok'"
        ).fetchone()
        errors = database.execute("select count(*) from result where state = 'ERROR'").fetchone()
    assert failed[0] == errors[0] > 0
    assert failed[1:] == ("as the formula has it", None)


def test_a_space_in_which_everything_fails_says_so_and_ends(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer(lambda *_: float("inf"))
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        reports = campaign.run()
    assert [report.best for report in reports] == [None, None]
    assert len(measurer.asked) == 80


def test_stop_after_ends_the_search_and_keeps_what_there_is(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", measurer, stop_at=0.0) as (campaign, _):
        campaign.run()
    with sqlite3.connect(tmp_path / "r.db") as database:
        states = database.execute("select state from runs").fetchall()
    assert states == [("interrupted",), ("interrupted",)]


def test_an_input_whose_data_cannot_be_made_is_left_out_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    spec = make_spec(tmp_path)

    class Broken(FormulaMeasurer):
        def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
            if problem == spec.inputs[0]:
                raise HostModuleError("kernel.py: arguments() raised MemoryError")
            return super().measure(space, problem, config, best_s)

    with opened(spec, tmp_path / "r.db", Broken()) as (campaign, _):
        first, second = campaign.run()
    assert first.best is None
    assert "MemoryError" in first.note
    assert second.best is not None
    assert list(campaign.state.left_out) == [spec.inputs[0]]


def test_time_that_is_up_ends_the_tests_within_a_generation(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    with opened(spec, tmp_path / "r.db", measurer, stop_at=0.0) as (campaign, tests):
        reports = campaign.run()
    assert list(tests) == measurer.asked == []
    assert [report.note for report in reports] == ["not measured: the time was up"] * 2


def test_a_space_without_a_legal_configuration_on_the_device_says_why(tmp_path: Path) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    tiny = DeviceLimits(8, (8, 8, 8), (1, 1, 1), 1024, 1, 1)
    measurer.limits = tiny
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        reports = campaign.run()
    assert measurer.asked == []
    assert not any(report.is_exhausted for report in reports)
    assert all("no configuration is legal" in report.note for report in reports)
    assert all("BLOCK" in report.note for report in reports)


def test_another_parallelism_is_another_run(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    for parallelism in (4, 1):
        measurer = FormulaMeasurer()
        with opened(spec, tmp_path / "r.db", measurer, parallelism=parallelism) as (campaign, _):
            campaign.run()
    with sqlite3.connect(tmp_path / "r.db") as database:
        counts = database.execute("select count(*) from tests group by run_id").fetchall()
    assert counts == [(40,)] * 4


def test_what_need_not_end_alike_is_tried_again(tmp_path: Path) -> None:
    """What found no memory on the device is, and what hung, with a later deadline."""
    spec, database = make_spec(tmp_path), tmp_path / "r.db"

    class Hanging(FormulaMeasurer):
        def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
            found = super().measure(space, problem, config, best_s)
            if config["CACHE"]:
                return Measurement(config, problem, Outcome.TIMEOUT, message="it hung", wall_s=3.0)
            if config["BLOCK"] == 256:
                return Measurement(config, problem, Outcome.OUT_OF_MEMORY, message="no room")
            return found

    asked = []
    for timeout_s in (3.0, 3.0, 5.0):
        measurer = Hanging()
        changed = spec.with_measure({"timeout_s": timeout_s})
        with opened(changed, database, measurer) as (campaign, _):
            campaign.run()
        asked.append(measurer.asked)
    assert asked[1] == [one for one in asked[0] if not one[1]["CACHE"] and one[1]["BLOCK"] == 256]
    assert asked[2] == [one for one in asked[0] if one[1]["CACHE"] or one in asked[1]]
    assert asked[1]


def test_finals_are_measured_again_for_other_repeats(tmp_path: Path) -> None:
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    for repeats in (5, 5, 9):
        changed = spec.with_measure({"repeats": repeats})
        with opened(changed, database, FormulaMeasurer(interleaves=True)) as (campaign, _):
            campaign.run()
    with sqlite3.connect(database) as connection:
        turns = connection.execute("select count(distinct turn) from measurements").fetchone()
    assert turns == (2 * 3 * len(spec.inputs),)  # for 5 and for 9


def test_the_database_keeps_no_command_line_of_ours(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
    with sqlite3.connect(tmp_path / "r.db") as database:
        (args,) = database.execute("select args from tuning_run limit 1").fetchone()
    assert b"r.db" not in args


def test_opentuner_can_read_what_was_written(tmp_path: Path) -> None:
    from opentuner import resultsdb
    from opentuner.resultsdb.models import Result, TuningRun

    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
    engine, session = resultsdb.connect(f"sqlite:///{tmp_path / 'r.db'}")
    try:
        run = session().query(TuningRun).first()
        best = session().query(Result).filter_by(tuning_run_id=run.id).order_by(Result.time).first()
        assert run.final_config_id == best.configuration_id
        assert Config(best.configuration.data).digest == best.configuration.hash
        assert [d.requestor for d in best.desired_results] != []
    finally:
        session.remove()
        engine.dispose()


def test_an_unknown_technique_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean `PureRandom`\?"):
        resolve_techniques(["PurRandom"])
