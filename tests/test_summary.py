"""What a database says of inputs that were not measured, and of searches that did not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.campaign.state import State
from harness.report.findings import Findings
from harness.report.page import facts_of, warnings_of
from harness.results import Run
from harness.search.interface import TuningInterface
from harness.summary import input_reports, not_measured, unfinished
from harness.tables import Results, read_results, the_one
from tests.replays import FormulaMeasurer, make_spec, opened


def read(folder: Path) -> Results:
    return the_one(read_results([str(folder / "r.db")]))


def test_what_the_time_did_not_suffice_for_is_told_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, measurer = make_spec(tmp_path), FormulaMeasurer()
    first, second = spec.inputs
    stages: dict[str, int] = {}
    with monkeypatch.context() as patched:
        for judge in (State, TuningInterface):
            patched.setattr(judge, "is_time_up", lambda _: len(measurer.asked) >= 8)
        with opened(spec, tmp_path / "r.db", measurer) as (campaign, tests):
            patched.setattr(tests, "begin_stage", stages.__setitem__)
            campaign.run()
    results = read(tmp_path)
    assert not_measured(results) == {second: "not measured: the time was up"}
    assert [report.given for report in input_reports(results)] == [first, second]
    stopped, cut = unfinished(results)
    assert f"has not come to its end on ({first})" in stopped
    assert cut.startswith("The time is up: 2 of 2 measurements of the default and winners")
    assert stages["finalists beside the baseline"] == 1  # of two inputs
    assert stages[f"[2/2] {second}"] == 0
    missing, *others = warnings_of(Findings(results))
    assert missing == f"Not measured, 1 of 2 inputs: ({second}): the time was up."
    assert others[:2] == [stopped, cut]
    assert ("inputs", "1 of 2 that were asked for") in facts_of(results)

    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        campaign.run()
    assert not not_measured(read(tmp_path))
    assert not list(unfinished(read(tmp_path)))


def test_after_ctrl_c_the_inputs_that_were_still_to_come_are_named(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    first, second = spec.inputs
    measurer = FormulaMeasurer(stop_after=5)
    with (
        pytest.raises(KeyboardInterrupt),
        opened(spec, tmp_path / "r.db", measurer) as (campaign, _),
    ):
        campaign.run()
    results = read(tmp_path)
    assert not_measured(results) == {second: "not measured: the search ended before its turn"}
    (stopped,) = unfinished(results)
    assert f"({first})" in stopped


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("running", "its search was killed, or is going on"),
        ("interrupted", "its search was stopped"),
    ],
)
def test_a_run_that_measured_nothing_tells_why(tmp_path: Path, state: str, why: str) -> None:
    with opened(make_spec(tmp_path), tmp_path / "r.db", FormulaMeasurer()) as (campaign, _):
        campaign.run()
    results = read(tmp_path)
    given = results.runs[0].given
    run = Run("u", given, "t", 0, 1, "2026-01-01", "2026-01-01", state)
    empty = Results(results.campaign, ("r.db",), (), runs=(run,))
    assert not_measured(empty) == {given: f"not measured: {why}"}
