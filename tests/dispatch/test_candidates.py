"""The candidates of a dispatcher, measured interleaved on every input."""

import math
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.core.observations import UNCLAIMED
from harness.core.records import (
    Config,
    DeviceLimits,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.dispatch.candidates import (
    applies_where,
    interleaved_matrix,
    matrix_of,
    searched_matrix,
    shortlist,
)
from harness.dispatch.study import STATIC, Study
from harness.measure.occasions import ONE_OCCASION
from harness.report.findings import Findings
from harness.results import CANDIDATE
from harness.results.campaigns import Command
from harness.results.view import read_results, the_one
from harness.tuning.state import State
from tests.helpers.replays import FormulaMeasurer, in_occasions, results_of, small_space
from tests.helpers.results_examples import query

LIMITED = "constraints: [BLOCK <= n * 8]\n"
BLOCKS = "BLOCK: {values: [16, 32, 64, 128, 256], default: 64}"
SPACE = small_space(BLOCKS, 8, 16, 32, 64, 128, more=LIMITED)
FREE = SPACE.replace(LIMITED, "")
TWO_INPUTS = small_space(BLOCKS, 8, 16)
WANTED = {8: 16, 16: 16, 32: 32, 64: 128, 128: 128}
SEARCHED = "Times are the search's, each taken at another moment: "


def block(value):
    return Config({"BLOCK": value})


def given(n):
    return Input({"n": n})


def time_s(problem, config):
    """The further from what an input wants, the slower; 32 fails on the largest."""
    n, size = problem["n"], config["BLOCK"]
    if (n, size) == (128, 32):
        return math.inf
    return 1e-3 * (1 + abs(math.log2(size / WANTED[n])))


class Drifting(FormulaMeasurer):
    """What it measures alone comes out by up to 40 % too slow; in turn all are slow in the same
    rounds, and some fail.

    `for_dispatch` has the candidates that were measured interleaved, by input.
    """

    def __init__(
        self,
        fails=lambda problem, config: False,
        outcome=Outcome.CRASHED,
        times=time_s,
    ):
        super().__init__(times)
        self._random = random.Random(0)
        self.for_dispatch = []
        self._fails = fails
        self._outcome = outcome

    def measure(self, *asked):
        measured = super().measure(*asked)
        if measured.timing is None:
            return measured
        slow = self._random.uniform(1, 1.4)
        samples_s = tuple(slow * sample_s for sample_s in measured.timing.samples_s)
        return replace(measured, timing=Timing(samples_s))

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        if tuple(seeds) == ONE_OCCASION:
            self.for_dispatch.append((problem, tuple(configs)))
        drift = [self._random.uniform(1, 2) for _ in range(rounds)]
        turns = super().measure_interleaved(space, problem, configs, rounds)
        return [self._in_turn(measured, drift, seeds) for measured in turns]

    def _in_turn(self, measured, drift, seeds):
        config, problem = measured.config, measured.input
        if measured.timing is None or self._fails(problem, config):
            return Measurement(config, problem, self._outcome, message="interleaved")
        samples_s = [measured.time_s * slow * self._random.uniform(1, 1.01) for slow in drift]
        return replace(measured, timing=in_occasions(samples_s, seeds))


def tuned(folder, measurer, text=SPACE, **options):
    """What a finished campaign left in a database."""
    return results_of(folder, text, measurer, **options)


# ----------------------------------------------------------------------------- the matrix


@pytest.fixture(scope="module")
def drifting():
    return Drifting()


@pytest.fixture(scope="module")
def drifted(drifting, tmp_path_factory):
    """What a campaign of `drifting` left."""
    return tuned(tmp_path_factory.mktemp("drifted"), drifting)


@pytest.fixture
def continued(drifted, tmp_path):
    """A folder in which the next campaign continues `drifted`."""
    shutil.copy(drifted.databases[0], tmp_path)
    return tmp_path


def test_the_matrix_is_of_interleaved_times(drifted, drifting):
    matrix = matrix_of(drifted)
    assert len(drifting.for_dispatch) == 5
    assert matrix.note == ""
    assert matrix.candidates[0] == block(64)
    assert set(matrix.candidates) == set(map(block, (16, 32, 64, 128)))
    for n, slowdown, applies in zip(WANTED, matrix.slowdown, matrix.applies, strict=True):
        legal = [candidate["BLOCK"] <= 8 * n for candidate in matrix.candidates]
        assert applies.tolist() == legal
        expected = [1e3 * time_s(given(n), candidate) for candidate in matrix.candidates]
        np.testing.assert_allclose(slowdown[legal], np.array(expected)[legal], rtol=0.01)
    assert len(matrix.comparable().features) == 5


def test_a_difference_in_most_rounds_is_no_tie_however_times_drift(tmp_path):
    """The drift is ten times the difference of 5 %, which only interleaved launches can show."""

    def close(problem, config):
        factors = {16: 1.0, 32: 1.0, 64: 1.05, 128: 1.3, 256: 2.0}
        return 1e-3 * problem["n"] * factors[config["BLOCK"]]

    matrix = matrix_of(tuned(tmp_path, Drifting(times=close)))
    tied = {config["BLOCK"]: matrix.tied[:, p] for p, config in enumerate(matrix.candidates)}
    assert not tied[64].any()
    assert tied[16].sum() + tied[32].sum() >= 8, "they are alike"


def test_failures_of_the_search_are_not_measured_interleaved(drifted, drifting):
    tried = {problem["n"]: block(32) in configs for problem, configs in drifting.for_dispatch}
    assert not tried[128]
    assert any(tried.values())


LIMITS = DeviceLimits(4096, (4096, 4096, 64), (2**31, 65535, 65535), 1, 1, 32)


@pytest.mark.parametrize(
    "old, new",
    [
        ("[BLOCK], grid: [n]", "[BLOCK, n], grid: [n, 1]"),
        ("default: 64}", "default: 64}, TILE: {values: [0, 1], default: 0, when: n > 16}"),
    ],
)
def test_what_is_ruled_out_spoils_no_interleaved_times(tmp_path, old, new):
    measurer = Drifting()
    measurer.limits = LIMITS
    results = tuned(tmp_path, measurer, FREE.replace(old, new), test_limit=60)
    assert len(results.candidates) == 5
    assert matrix_of(results).note == ""


def test_what_cannot_be_launched_on_one_input_is_a_candidate_on_the_others(tmp_path):
    measurer = Drifting()
    measurer.limits = LIMITS
    text = FREE.replace("grid: [n]", 'grid: [n], shared: "BLOCK * n // 8192"')
    matrix = matrix_of(tuned(tmp_path, measurer, text))
    place = matrix.candidates.index(block(128))
    assert matrix.features["n"][matrix.applies[:, place]].tolist() == [8, 16, 32, 64]


# ----------------------------------------------------------------- one command after another


def test_candidates_of_fewer_rounds_are_measured_interleaved_again(tmp_path):
    measurer = Drifting()
    for repeats, counts in ((1, [2]), (3, [2, 3]), (3, [2, 3])):  # two rounds at least
        tuned(tmp_path, measurer, f"{TWO_INPUTS}measure: {{repeats: {repeats}}}\n")
        sql = "SELECT json_array_length(samples_s) AS n FROM measurements WHERE stage = 'candidate'"
        rows = query(tmp_path / "r.db", f"{sql} GROUP BY n ORDER BY n")
        assert [count for (count,) in rows] == counts
    assert len(measurer.for_dispatch) == 2 * 2


def test_candidate_that_crashed_when_interleaved_is_tried_again(tmp_path):
    def crashes(problem, config):
        return (problem["n"], config["BLOCK"]) == (16, 16)

    for measurer, slowdown in ((Drifting(crashes), math.inf), (Drifting(), 1)):
        matrix = matrix_of(tuned(tmp_path, measurer, TWO_INPUTS))
        assert matrix.slowdown[1, matrix.candidates.index(block(16))] == slowdown


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.LAUNCH_FAILED])
def test_without_interleaved_times_the_search_counts(tmp_path, outcome):
    """Rounds of an earlier command still count."""
    lost = Drifting(lambda problem, _: problem["n"] == 16, outcome)
    assert matrix_of(tuned(tmp_path, lost, TWO_INPUTS)).note.startswith(SEARCHED)
    for measurer, more in ((Drifting(), ""), (lost, "measure: {repeats: 10}\n")):
        assert matrix_of(tuned(tmp_path, measurer, TWO_INPUTS + more)).note == ""


def test_a_command_for_some_inputs_spoils_no_interleaved_times(continued, drifted):
    measurer = Drifting()
    fewer = SPACE.replace("{n: 8}, ", "")
    matrix = matrix_of(tuned(continued, measurer, fewer))
    assert matrix.note == ""
    assert set(matrix.candidates) == set(matrix_of(drifted).candidates)
    count = len(measurer.for_dispatch)
    for text in (SPACE, fewer):
        tuned(continued, measurer, text)
    assert len(measurer.for_dispatch) == count, "no candidates are measured anew"


def test_interleaved_times_that_the_search_has_overtaken_do_not_flatter(tmp_path):
    """What the search found since was measured beside the default in the finals."""

    def late(problem, config):
        factor = 0.2 if config["BLOCK"] == 256 else 1
        return factor * time_s(problem, config)

    tuned(tmp_path, Drifting(), SPACE.replace(", 256]", "]"))
    matrix = matrix_of(tuned(tmp_path, Drifting(times=late), cross=False))
    assert matrix.note == ""
    column = matrix.candidates.index(block(128))
    assert matrix.slowdown[3, column] == pytest.approx(1 / 0.4, rel=0.02)


def test_inputs_with_other_candidates_are_not_mixed(tmp_path):
    databases = []
    for wanted, inputs in ((16, (20, 24, 28)), (256, (40, 44, 48))):
        (folder := tmp_path / str(wanted)).mkdir()
        text = small_space(f"BLOCK: {{values: [{wanted}, 64], default: 64}}", *inputs)
        times = {block(wanted): 1e-3, block(64): 2e-3}
        measurer = Drifting(times=lambda _, config, times=times: times[config])
        databases += tuned(folder, measurer, text).databases
    matrix = matrix_of(the_one(read_results(databases)))
    assert "different candidates" in matrix.note


def test_an_interruption_is_reported(tmp_path, monkeypatch):
    measurer = Drifting()
    monkeypatch.setattr(State, "is_time_up", lambda _: len(measurer.for_dispatch) == 3)
    results = tuned(tmp_path, measurer)
    (command,) = results.commands
    assert "2 of 5 inputs" in command.stages[CANDIDATE]
    matrix = matrix_of(results)
    assert "3 of 5 inputs" in matrix.note
    assert matrix.note in Study.of(matrix, [STATIC]).notes


@pytest.fixture(scope="module")
def uncrossed(tmp_path_factory):
    return tuned(tmp_path_factory.mktemp("uncrossed"), Drifting(), cross=False)


def test_what_the_last_command_left_out_measures_what_lacks(uncrossed):
    for ended_at, stages, advice in (
        ("2026-01-03", {}, "--no-cross"),
        ("2026-01-03", {"cross": "cut"}, "--max-time"),
        ("2026-01-03", {"cross": ""}, "more tests"),
        (None, {}, "stopped"),
    ):
        last = Command("b", (), "2026-01-02", ended_at, {}, stages)
        earlier = Command("a", (), "2026-01-01", "2026-01-02", {}, {"cross": ""})
        matrix = matrix_of(replace(uncrossed, commands=[last, earlier]))
        assert advice in matrix.remedy


def test_recordings_are_not_measured_interleaved_and_need_no_note(tmp_path):
    replaying = Drifting()
    replaying.is_replay = True
    assert tuned(tmp_path, replaying, TWO_INPUTS).candidates == {}
    (folder := tmp_path / "recorded").mkdir()
    recorded = tuned(folder, FormulaMeasurer(time_s), TWO_INPUTS, cross=False)
    assert matrix_of(recorded).note == ""


def test_where_everything_failed_there_is_no_single_configuration(tmp_path):
    results = tuned(tmp_path, FormulaMeasurer(lambda *_: math.inf), TWO_INPUTS)
    assert Findings(results).advice == "No configuration worked on any input."


def by_input(times):
    """Takes these milliseconds on the inputs 8 and 16, by block; other blocks take four."""

    def in_ms(problem, config):
        both = times.get(config["BLOCK"], (4.0, 4.0))
        return 1e-3 * both[problem["n"] == 16]

    return Drifting(times=in_ms)


def test_the_single_configuration_is_judged_in_the_finals_of_every_input(tmp_path):
    """What suits all inputs best wins on no input of two."""
    measurer = by_input({16: (1.0, 3.0), 32: (1.2, 1.2), 128: (3.0, 1.0)})
    results = tuned(tmp_path, measurer, TWO_INPUTS)
    for n, best in ((8, 16), (16, 128)):
        assert {m.config for m in results.finals[given(n)]} == set(map(block, (best, 32, 64)))
    single = Findings(results).single
    assert (single.config, single.inputs) == (block(32), 2)
    assert single.speedup.value == pytest.approx(4.0 / 1.2, rel=0.01)
    assert single.loss[1].value == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize("baselines", ["", "baselines: {named: {BLOCK: 16}}\n"])
def test_where_configurations_tie_all_have_the_single_one(tmp_path, baselines):
    """On the first of two inputs 16 is as fast, has as few changes, and a smaller value."""
    measurer = by_input({16: (1.0, 3.0), 32: (1.0, 1.0)})
    findings = Findings(tuned(tmp_path, measurer, TWO_INPUTS + baselines))
    assert findings.single.config == block(32)
    assert [report.recommended.config for report in findings.reports] == [block(32)] * 2
    assert "BLOCK=32 on every input: 4.0" in str(findings.advice)


def test_the_best_interleaved_candidate_is_measured_in_the_finals(tmp_path):
    """The search timed what the largest input wants as the slowest of all."""

    class Unlucky(Drifting):
        def measure(self, *asked):
            measured = super().measure(*asked)
            if (measured.input["n"], measured.config["BLOCK"]) != (128, 128):
                return measured
            return replace(measured, timing=Timing((9e-3,) * 3))

    results = tuned(tmp_path, Unlucky())
    assert block(128) in {m.config for m in results.finals[given(128)]}


# ---------- which configurations may be chosen, and which of their times count, by hand


ONE, TWO = given(1), given(2)


def ok(problem, value, *samples_s):
    timing = Timing(samples_s or (1.0, 1.0), StopReason.INTERLEAVED)
    return Measurement(block(value), problem, Outcome.OK, timing)


def failed(problem, value, outcome=Outcome.WRONG_RESULT):
    return Measurement(block(value), problem, outcome, message="no")


def everywhere(problem, config):
    return True


def test_constraints_hold_over_features_parameters_and_limits():
    texts = ("BLOCK * n <= max_group_size", "BLOCK > 16", "unknown > 3")
    applies = applies_where(map(Expression, texts), {"max_group_size": 64})
    legal = [applies(problem, block(size)) for problem in (ONE, TWO) for size in (16, 32, 64)]
    assert legal == [False, True, True, False, True, False]


def matrix(
    sessions,
    finals=(),
    searched=(),
):
    """Return the matrix of all inputs; the default is 16."""
    known = {problem: {m.config: m for m in searched if m.input == problem} for problem in sessions}
    every = {problem: [*finals, *groups] for problem, groups in sessions.items()}
    return interleaved_matrix(known, every, sessions, block(16), everywhere)


def times_on_one(sessions, finals=(), *searched):
    """Return the times on ONE by the value of BLOCK."""
    made = matrix({ONE: sessions}, finals, searched)
    values = [config["BLOCK"] for config in made.candidates]
    return dict(zip(values, made.time_s[0].tolist(), strict=True))


def test_a_failure_on_one_input_is_a_measurement_there():
    other = [ok(TWO, 16, 2.0), failed(TWO, 32)]
    made = matrix({ONE: [[ok(ONE, 16), ok(ONE, 32)]], TWO: [other]})
    assert (made.candidates, made.time_s[1, 1]) == ((block(16), block(32)), math.inf)
    made = matrix({ONE: [[ok(ONE, 16), failed(ONE, 32)]], TWO: [other]})
    assert made.candidates == (block(16),)


def test_where_nothing_worked_on_an_input_nothing_is_common():
    one = [[ok(ONE, 16)]]
    assert matrix({ONE: one, TWO: [[failed(TWO, 16)]]}) is None
    assert matrix({ONE: one, TWO: []}) is None
    worked = {ONE: one, TWO: [[ok(TWO, 16)]]}
    assert matrix(worked, searched=[failed(TWO, 16)]) is None, "the search's failure stands"


def test_a_failure_in_any_session_that_worked_is_one():
    last = [ok(ONE, 16), ok(ONE, 32, 2.0)]
    sessions = [[ok(ONE, 16, 1.0), ok(ONE, 64), failed(ONE, 32)], last]
    assert times_on_one(sessions, [], failed(ONE, 64)) == {16: 1.0}
    chance = [[ok(ONE, 16), failed(ONE, 32, Outcome.CRASHED)], last]
    assert times_on_one(chance) == {16: 1.0, 32: 2.0}


def test_a_gain_that_first_runs_do_not_show_is_none():
    unshown = replace(ok(ONE, 32, 0.2), observed={UNCLAIMED: 1.0})
    one = [[ok(ONE, 16, 9.0), unshown], [ok(ONE, 16, 4.0), ok(ONE, 32, 0.2)]]
    made = matrix({ONE: one, TWO: [[ok(TWO, 16, 4.0), ok(TWO, 32, 2.0)]]})
    np.testing.assert_allclose(made.time_s, [[4.0, 4.0], [4.0, 2.0]])


def test_the_finals_refute_candidates_and_do_not_time_them():
    sessions = [[ok(ONE, 16), ok(ONE, 32, 2.0), ok(ONE, 64, 0.5)]]
    finals = [[ok(ONE, 16, 9.0), ok(ONE, 32, 1.0), failed(ONE, 64)]]
    assert times_on_one(sessions, finals) == {16: 1.0, 32: 2.0}


def test_of_candidates_with_equal_times_everywhere_the_first_stays():
    one = [ok(ONE, size, 2.0) for size in (32, 16, 64, 128)]
    other = [ok(TWO, 32, 3.0), ok(TWO, 16, 3.0), ok(TWO, 64, 4.0), ok(TWO, 128, 3.0)]
    assert matrix({ONE: [one], TWO: [other]}).candidates == (block(16), block(64))


def test_a_short_list_has_at_most_eight_members_and_the_three_best_static_ones():
    """Each of 24 inputs wants its own candidate; of the others, 30, 31 and 32 are the best."""
    known = {}
    for n in range(24):
        times_s = dict.fromkeys(range(24), 90.0) | {30: 2.0, 31: 2.1, 32: 2.2, 64: 90.0, n: 1.0}
        known[given(n)] = {block(v): ok(given(n), v, t) for v, t in times_s.items()}
    chosen = shortlist(known, block(64), everywhere)
    assert chosen == [block(v) for v in (64, 30, *range(7), 31, 32)]
    assert shortlist(known, block(64), lambda problem, config: False) == []
    assert shortlist({ONE: known[ONE]}, block(64), everywhere) == []
    del known[given(5)][block(64)]
    assert block(64) not in shortlist(known, block(64), everywhere)


# ---------------------------------------------------------------------------- times of the search


def searched(rows, most=9):
    """Make a matrix of what a search measured. The default is block 1."""
    known = {}
    for n, row in rows.items():
        worked = {block(v): ok(given(n), v, t) for v, t in row.items() if t < math.inf}
        lost = {block(v): failed(given(n), v) for v, t in row.items() if t == math.inf}
        known[given(n)] = worked | lost
    return searched_matrix(known, block(1), everywhere, most)


def test_times_are_by_input_and_configuration():
    made = searched({1: {16: 2.0, 32: 1.0, 64: math.inf}, 2: {64: 3.0, 16: 9.0}})
    assert made.features["n"].tolist() == [1, 2]
    assert made.candidates == tuple(map(block, (1, 32, 64, 16)))
    assert made.best_s.tolist() == [1.0, 3.0]
    wanted = [[math.nan, 1.0, math.inf, 2.0], [math.nan, math.nan, 3.0, 9.0]]
    np.testing.assert_array_equal(made.time_s, wanted)


def test_a_tie_is_within_noise_of_the_best():
    made = searched({1: {16: 1.0, 32: 1.004, 64: 1.006}, 2: {16: 2.0, 32: math.inf, 64: 1.0}})
    assert made.candidates == tuple(map(block, (1, 16, 64, 32)))
    assert made.tied.tolist() == [[False, True, False, True], [False, False, True, False]]


SLOWDOWNS = {1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}}
"""Of 16: 4 and 1; of 32: 1 and 3; of 64: 2 and 1.4."""


def test_of_many_configurations_those_of_the_least_mean_slowdown_are_taken():
    for rows, most, wanted in (
        (SLOWDOWNS, 0, (32, 16)),
        (SLOWDOWNS, 1, (32, 16, 64)),
        # 8 takes the least seconds in all, 16 has the least slowdowns.
        ({1: {4: 1e-3, 16: 2e-3, 8: 4e-3}, 2: {4: 1.0, 16: 1.3, 8: 1.2}}, 2, (4, 16)),
        # What fails on an input is the last of all.
        ({1: {4: 0.5, 32: 9.0, 16: 1.0}, 2: {16: math.inf, 32: 9.0, 4: 1.0}}, 2, (4, 32)),
        ({}, 9, ()),
    ):
        assert searched(rows, most).candidates == tuple(map(block, (1, *wanted)))
