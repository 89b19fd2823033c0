"""What a database says of inputs that were not measured, and of searches that did not end."""

import dataclasses

import pytest

from harness.analysis.coverage import input_reports, not_measured, reservations
from harness.core.records import DeviceLimits
from harness.report import write_report
from harness.report.findings import Findings
from harness.report.page import facts_of, warnings_of
from harness.results import Run
from harness.results.view import Results, read_results, the_one
from harness.search.driver import Driver
from harness.tuning.state import State
from tests.helpers.replays import BROKEN, SPACE, FormulaMeasurer, make_spec, ran

THREE = SPACE.replace("{m: 4096, n: 64}]", "{m: 4096, n: 64}, {m: 512, n: 512}]")
ILLEGAL = "no configuration is legal on this device; the default: it is too large"


def read(folder):
    return the_one(read_results([str(folder / "r.db")]))


def three(folder):
    spec = make_spec(folder, THREE)
    return spec, spec.inputs


def tune(spec, folder, *inputs, **options):
    """A command on some of the inputs."""
    chosen = dataclasses.replace(spec, inputs=inputs)
    ran(chosen, folder / "r.db", FormulaMeasurer(**options), test_limit=4)


def test_what_lacked_time_is_reported(tmp_path, monkeypatch):
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    first, second = spec.inputs
    with monkeypatch.context() as patched:
        for judge in (State, Driver):
            patched.setattr(judge, "is_time_up", lambda _: len(measurer.asked) >= 8)
        begun = ran(spec, tmp_path / "r.db", measurer).tests.stages
    stages = {name: steps for name, steps, _ in begun}
    results = read(tmp_path)
    assert not_measured(results) == {second: "not measured: the time was up"}
    assert [report.problem for report in input_reports(results)] == [first, second]
    stopped, cut = reservations(results)
    assert f"is not complete on ({first})" in stopped
    assert cut.startswith("The time is up: 2 of 2 measurements of the default and winners")
    assert stages["finalists and the default"] == 1  # of two inputs
    assert stages[f"[2/2] {second}"] == 0
    missing, *others = warnings_of(Findings(results))
    assert missing == f"1 of 2 inputs were not measured: ({second}): the time was up."
    assert others[:2] == [stopped, cut]
    assert ("inputs", "1 of 2 requested") in facts_of(results)

    ran(spec, tmp_path / "r.db")
    assert not not_measured(read(tmp_path))
    assert not list(reservations(read(tmp_path)))


def test_after_ctrl_c_the_inputs_that_were_still_to_come_are_named(tmp_path):
    spec = make_spec(tmp_path)
    first, second = spec.inputs
    with pytest.raises(KeyboardInterrupt):
        tune(spec, tmp_path, first, second, stop_after=3)
    results = read(tmp_path)
    assert not_measured(results) == {second: "not measured: the search ended before it"}
    (stopped,) = reservations(results)
    assert f"({first})" in stopped


@pytest.mark.parametrize(
    "state, why",
    [
        ("running", "its search was killed, or is still running"),
        ("interrupted", "its search was stopped"),
    ],
)
def test_a_run_that_measured_nothing_has_a_reason(tmp_path, state, why):
    spec = make_spec(tmp_path)
    tune(spec, tmp_path, spec.inputs[0])
    results = read(tmp_path)
    problem = results.runs[0].problem
    run = Run("u", problem, "t", 0, 1, "2026-01-01", "2026-01-01", state)
    empty = Results(results.campaign, ("r.db",), (), runs=(run,))
    assert not_measured(empty) == {problem: f"not measured: {why}"}


def test_a_notice_stands_until_a_command_on_the_same_inputs_has_come_through(tmp_path, monkeypatch):
    spec, (first, second, third) = three(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(State, "is_time_up", lambda state: len(state.runs) == 2)
        tune(spec, tmp_path, second, third)
    notices = list(reservations(read(tmp_path)))
    assert len(notices) == 2
    for inputs in ((third,), (first, second)):
        tune(spec, tmp_path, *inputs)
        assert list(reservations(read(tmp_path))) == notices
    tune(spec, tmp_path, first, second, third)
    assert not list(reservations(read(tmp_path)))


@pytest.mark.parametrize("position", [0, 2])  # before what was measured, and behind it
def test_an_input_with_nothing_legal_is_reported_wherever_it_stands_and_not_forgotten(
    tmp_path, monkeypatch, position
):
    spec, inputs = three(tmp_path)
    empty, measured = inputs[position], inputs[1]

    def is_empty(state, problem):
        if problem == empty:
            state.left_out[problem] = ILLEGAL
        return problem == empty

    with monkeypatch.context() as patched:
        patched.setattr(State, "is_empty", is_empty)
        tune(spec, tmp_path, *inputs)
    assert not_measured(read(tmp_path)) == {empty: ILLEGAL}
    tune(spec, tmp_path, measured)
    assert not_measured(read(tmp_path)) == {empty: ILLEGAL}
    tune(spec, tmp_path, empty)
    assert not not_measured(read(tmp_path))


def test_a_space_with_nothing_legal_at_all_is_known_and_has_a_page(undrawn, tmp_path):
    spec, inputs = three(tmp_path)
    measurer = FormulaMeasurer()
    measurer.limits = DeviceLimits(1, (1, 1, 1), (1, 1, 1), 1, 1, 1)
    reports = ran(spec, tmp_path / "r.db", measurer).reports
    assert measurer.asked == []
    assert not any(report.is_exhausted for report in reports)
    results = read(tmp_path)
    assert set(not_measured(results)) == set(inputs)
    assert all("BLOCK" in why for why in not_measured(results).values())
    write_report(tmp_path / "r.html", [results])
    assert "no configuration is legal on this device" in (tmp_path / "r.html").read_text()


def test_a_broken_host_module_is_the_reported_reason(tmp_path):
    spec = make_spec(tmp_path)
    first, second = spec.inputs
    why = f"left out: {BROKEN}"
    for tests, missing in ((0, {first: why, second: why}), (3, {first: why})):
        tune(spec, tmp_path, first, second, broken={first: 0, second: tests})
        assert not_measured(read(tmp_path)) == missing
    (notice,) = reservations(read(tmp_path))
    assert f"({second}): {why}" in notice
    tune(spec, tmp_path, first, second)
    assert not list(reservations(read(tmp_path)))


def test_of_two_copies_of_a_database_the_later_one_counts_in_any_order(tmp_path):
    spec, (first, second, _) = three(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tune(spec, tmp_path, first, second, stop_after=3)
    early, late = tmp_path / "early.db", tmp_path / "r.db"
    early.write_bytes(late.read_bytes())
    assert list(reservations(read(tmp_path)))
    tune(spec, tmp_path, first, second)
    for databases in ([early, late], [late, early]):
        results = the_one(read_results(list(map(str, databases))))
        assert not list(reservations(results))
        assert results.notes == read(tmp_path).notes
        assert len(results.commands) == 2
