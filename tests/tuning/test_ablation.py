"""After the search: winners on the other inputs, finals, the flags that a winner needs, and what is
skipped without time."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.analysis.coverage import input_reports
from harness.core.records import Config, Measurement, Outcome, Timing
from harness.report.findings import Findings
from harness.results.schema import CROSS
from harness.results.view import read_results, the_one
from harness.tuning.state import State
from tests.helpers.replays import FormulaMeasurer, in_occasions, make_spec, ran, small_space

SPACE = small_space(
    "BLOCK: {values: [16, 64], default: 16}",
    8,
    more="flags: {opencl: {cl-mad-enable: boolean, cl-fast-relaxed-math: boolean, "
    "cl-no-signed-zeros: boolean}}\nbaselines: {fast: {cl-fast-relaxed-math: true}}\n",
)


def time_s(problem, config):
    """One flag helps, two do nothing."""
    helps = config["cl_fast_relaxed_math"]
    return 1e-3 * (0.5 if helps else 1.0) * (1 if config["BLOCK"] == 64 else 1.2)


class OpenCl(FormulaMeasurer):
    """It times the flags of OpenCL, with a little noise; interleaved, some fail, by BLOCK. In the
    search, each flag seems to help."""

    def __init__(self, failures=None, times=time_s):
        super().__init__(times)
        self.compiler = "opencl"
        self.turns: list[tuple[Config, ...]] = []
        self.seeds: list[tuple[int, ...]] = []
        self._failures = failures or {}

    def measure(self, space, problem, config, best_s):
        measured = super().measure(space, problem, config, best_s)
        flags = sum(value is True for value in config.values())
        samples_s = tuple(s * 0.9**flags for s in measured.timing.samples_s)
        return dataclasses.replace(measured, timing=Timing(samples_s))

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        self.turns.append(tuple(configs))
        self.seeds.append(tuple(seeds))
        together = super().measure_interleaved(space, problem, configs, rounds)
        return [self._in_turn(measured, rounds, seeds) for measured in together]

    def _in_turn(self, measured, rounds, seeds):
        outcome = self._failures.get(measured.config["BLOCK"])
        if outcome is not None:
            return Measurement(measured.config, measured.input, outcome, message="interleaved")
        samples = (measured.timing or Timing((1.0,))).samples_s
        of_turn = tuple(samples[k % len(samples)] for k in range(rounds))
        return dataclasses.replace(measured, timing=in_occasions(of_turn, seeds))


def test_flags_that_do_nothing_are_removed_and_the_answer_is_stored(tmp_path):
    spec, measurer = make_spec(tmp_path, SPACE), OpenCl()
    first = ran(spec, tmp_path / "r.db", measurer)
    (report,), (ablation,) = first.reports, first.results.ablations.values()
    assert ablation.winner["cl_mad_enable"] or ablation.winner["cl_no_signed_zeros"]
    assert report.best.config == ablation.config, "flags without effect are not recommended"
    assert report.finalist == ablation.winner
    assert report.speedup.is_faster
    assert ablation.needed == ("cl_fast_relaxed_math",)
    assert ablation.config["BLOCK"] == 64
    results = the_one(read_results([str(tmp_path / "r.db")]))
    assert list(results.ablations.values()) == [ablation]
    assert results.baselines["fast"]["cl_fast_relaxed_math"] is True
    assert report.baseline_speedups["fast"].value > 1.1
    (problem,) = results.finals
    other = dataclasses.replace(results)
    of_others = [m for m in results.finals[problem] if m.config != ablation.winner]
    other.__dict__["finals"] = {problem: of_others}
    assert not other.ablations, "an ablation of another winner is not shown"
    (analysed,) = input_reports(results)
    assert analysed.best == report.best, "analyse, JSON and the report say the same"
    turns = len(measurer.turns)
    assert turns > 2, "the finals, and the steps of the ablation"
    assert [len(seeds) for seeds in dict.fromkeys(measurer.seeds)] == [1, 6], "judged like a winner"
    again = ran(spec, tmp_path / "r.db", measurer)
    assert again.reports[0].best == report.best
    assert list(again.results.ablations.values()) == [ablation]
    assert len(measurer.turns) == turns, "nothing is measured interleaved again"


def test_the_single_configuration_and_the_table_have_the_same_name(tmp_path):
    """On each input all but one flag have no effect: no dispatcher names them either."""
    space = SPACE.replace("[{n: 8}]", "[{n: 8}, {n: 16}]")
    done = ran(make_spec(tmp_path, space), tmp_path / "r.db", OpenCl())
    results = the_one(read_results([str(tmp_path / "r.db")]))
    assert results.ablations.keys() == results.measured.keys()
    assert all(len(ablation.needed) < 3 for ablation in results.ablations.values())
    findings = Findings(results)
    printed, stored = (
        [report.best and report.best.config for report in reports]
        for reports in (done.reports, findings.reports)
    )
    assert printed == stored
    (part,) = set(stored)
    assert part
    flags = [name for name, value in part.items() if value is True]
    assert flags == ["cl_fast_relaxed_math"]
    single = findings.single
    assert (single.config, single.inputs) == (part, 2)
    assert single.speedup.is_faster
    winners = {ablation.winner for ablation in results.ablations.values()}
    assert winners - {part}, "other names were measured"


UNTRIED = SPACE.replace("fast: {cl-fast-relaxed-math: true}", "wide: {BLOCK: 64}")


@pytest.mark.parametrize(
    ("space", "tests", "outcome", "first", "again"),
    [
        (UNTRIED, 1, Outcome.TIMEOUT, 1, 0),  # the search did not come by it: it never worked
        (UNTRIED, 1, Outcome.BUILD_FAILED, 1, 0),
        # The rounds that choose the winner, and those that judge it.
        (SPACE, 40, Outcome.WRONG_RESULT, 2, 0),
        (SPACE, 40, Outcome.CRASHED, 2, 1),  # it worked in the search: this may be chance
    ],
)
def test_final_that_failed_stands_unless_it_may_be_chance(
    tmp_path, space, tests, outcome, first, again
):
    spec, measurer = make_spec(tmp_path, space), OpenCl({64: outcome})
    finals = []
    for _ in range(2):
        before = len(measurer.turns)
        ran(spec, tmp_path / "r.db", measurer, test_limit=tests)
        finals.append(len(measurer.turns) - before)
    assert any(config["BLOCK"] == 64 for config in measurer.turns[0])
    assert finals == [first, again]


def test_a_stage_warns_of_what_it_skips(tmp_path, monkeypatch):
    spec = make_spec(tmp_path, SPACE.replace("{n: 8}", "{n: 8}, {n: 9}"))
    measurer = OpenCl(times=lambda i, c: time_s(i, c) * (0.8 if c["cl_mad_enable"] else 1))
    monkeypatch.setattr(State, "is_time_up", lambda _: True)
    found = ran(spec, tmp_path / "r.db", measurer, test_limit=6)
    assert found.results.ablations == {}
    crossed, candidates, ablated = found.tests.warnings
    assert "on other inputs skipped" in crossed
    assert "candidates on 2 of 2 inputs skipped" in candidates
    assert "winners need skipped" in ablated


# ----------------------------------------------------------------------------------- other inputs


def crossed(state):
    """What was measured on inputs whose search did not ask for it."""
    rows = state.ledger.rows.of_stages([CROSS])
    return {(m.input, m.config) for m in rows.measurements()}


def test_winners_and_the_default_are_measured_on_the_other_inputs(tmp_path):
    spec = make_spec(tmp_path)
    state = ran(spec, tmp_path / "r.db", test_limit=3).campaign
    winners = {best.config for best in map(state.best, spec.inputs) if best}
    assert crossed(state)
    for problem in spec.inputs:
        assert winners | {state.space(spec.inputs[0]).default} <= set(
            state.ledger.searched(problem)
        )


def test_an_input_that_was_not_searched_is_not_measured_for_others(tmp_path):
    spec = make_spec(tmp_path)
    _, lacking = spec.inputs
    measurer = FormulaMeasurer(broken={lacking: 0})
    state = ran(spec, tmp_path / "r.db", measurer, test_limit=3).campaign
    assert set(state.left_out) == {lacking}
    assert lacking not in state.runs
    assert [problem for problem, _ in measurer.asked].count(lacking) == 1, "by its search"


@pytest.mark.parametrize("name", ["UniformRandom", "HillClimb"])
def test_the_default_is_beside_each_winner_without_crossing(name, tmp_path):
    """These techniques do not start from the default."""
    spec = make_spec(tmp_path)
    options: dict[str, Any] = {"technique": [name], "cross": False, "test_limit": 4}
    found = ran(spec, tmp_path / "r.db", **options)
    default = found.campaign.space(spec.inputs[0]).default
    assert crossed(found.campaign) == {(problem, default) for problem in spec.inputs}
    assert all(report.speedup is not None for report in found.reports)
