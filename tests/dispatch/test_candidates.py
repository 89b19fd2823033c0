"""The candidates of a dispatcher, measured interleaved on every input."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.core.observations import UNCLAIMED
from harness.core.records import (
    Config,
    DeviceLimits,
    Input,
    Interleaved,
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
from harness.dispatch.matrix import Matrix
from harness.dispatch.study import QUICK, Study
from harness.measure.trial.occasions import ONE_OCCASION
from harness.report.findings import Findings
from harness.results import CANDIDATE
from harness.results.campaigns import Command
from harness.results.view import Results, read_results, the_one
from harness.tuning.state import State
from tests.helpers.replays import FormulaMeasurer, in_occasions, results_of, small_space
from tests.helpers.results_examples import query

LIMITED = "constraints: [BLOCK <= n * 8]\n"
SPACE = small_space(
    "BLOCK: {values: [16, 32, 64, 128, 256], default: 64}", 8, 16, 32, 64, 128, more=LIMITED
)
FREE = SPACE.replace(LIMITED, "")
WANTED = {8: 16, 16: 16, 32: 32, 64: 128, 128: 128}
SEARCHED = "Times are the search's, each taken at another moment: "


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def size_of(problem: Input) -> int:
    return int(str(problem["n"]))


def time_s(problem: Input, config: Config) -> float:
    """The further from what an input wants, the slower; 32 fails on the largest."""
    n, size = size_of(problem), int(str(config["BLOCK"]))
    if (n, size) == (128, 32):
        return math.inf
    return 1e-3 * (1 + abs(math.log2(size / WANTED[n])))


Fails = Callable[[Input, Config], bool]


class Drifting(FormulaMeasurer):
    """What it measures alone comes out by up to 40 % too slow; in turn all are slow in the same
    rounds, and some fail."""

    def __init__(
        self,
        fails: Fails = lambda problem, config: False,
        seed: int = 0,
        outcome: Outcome = Outcome.CRASHED,
        times: Callable[[Input, Config], float] = time_s,
    ) -> None:
        super().__init__(times)
        self._random = random.Random(seed)
        self.turns: list[tuple[Input, tuple[Config, ...]]] = []
        self.for_dispatch: list[tuple[Input, tuple[Config, ...]]] = []
        self._fails = fails
        self._outcome = outcome

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        found = super().measure(space, problem, config, best_s)
        if found.timing is None:
            return found
        slow = self._random.uniform(1, 1.4)
        samples_s = tuple(slow * sample for sample in found.timing.samples_s)
        return dataclasses.replace(found, timing=Timing(samples_s))

    def measure_interleaved(
        self, space: Any, problem: Input, configs: Any, rounds: int, seeds: Any = ()
    ) -> Any:
        self.turns.append((problem, tuple(configs)))
        if tuple(seeds) == ONE_OCCASION:
            self.for_dispatch.append((problem, tuple(configs)))
        drift = [self._random.uniform(1, 2) for _ in range(rounds)]
        found = super().measure_interleaved(space, problem, configs, rounds)
        return [self._in_turn(measured, drift, seeds) for measured in found]

    def _in_turn(self, measured: Measurement, drift: list[float], seeds: Any) -> Measurement:
        if measured.timing is None or self._fails(measured.input, measured.config):
            return Measurement(
                measured.config, measured.input, self._outcome, message="interleaved"
            )
        samples_s = tuple(measured.time_s * slow * self._random.uniform(1, 1.01) for slow in drift)
        return dataclasses.replace(measured, timing=in_occasions(samples_s, seeds))


def tuned(folder: Path, measurer: FormulaMeasurer, text: str = SPACE, **options: Any) -> Results:
    """What a finished campaign left in a database."""
    return results_of(folder, text, measurer, **options)


# ----------------------------------------------------------------------------- the matrix


def test_the_matrix_is_of_interleaved_times(tmp_path: Path) -> None:
    measurer = Drifting()
    results = tuned(tmp_path, measurer)
    matrix = matrix_of(results)
    assert len(measurer.for_dispatch) == 5
    assert matrix.note == ""
    assert matrix.candidates[0] == block(64)
    assert set(matrix.candidates) == set(map(block, (16, 32, 64, 128)))
    for row, (n, wanted) in enumerate(WANTED.items()):
        for column, candidate in enumerate(matrix.candidates):
            problem = Input({"n": n})
            if int(str(candidate["BLOCK"])) > 8 * n:
                assert not matrix.applies[row, column]
            elif math.isinf(time_s(problem, candidate)):
                assert math.isinf(matrix.time_s[row, column]), "the search's failure stands"
            else:
                expected = time_s(problem, candidate) / time_s(problem, block(wanted))
                assert matrix.slowdown[row, column] == pytest.approx(expected, rel=0.01)
    assert len(matrix.comparable().features) == 5


def test_a_difference_in_most_rounds_is_no_tie_however_times_drift(tmp_path: Path) -> None:
    """The drift is ten times the difference of 5 %, which only interleaved launches can show."""

    def close(problem: Input, config: Config) -> float:
        factors = {16: 1.0, 32: 1.0, 64: 1.05, 128: 1.3, 256: 2.0}
        return 1e-3 * size_of(problem) * factors[int(str(config["BLOCK"]))]

    matrix = matrix_of(tuned(tmp_path, Drifting(times=close)))
    found = {config["BLOCK"]: matrix.tied[:, p] for p, config in enumerate(matrix.candidates)}
    assert not found[64].any()
    assert found[16].sum() + found[32].sum() >= 8, "they are alike"


def test_failures_of_the_search_are_not_measured_interleaved(tmp_path: Path) -> None:
    measurer = Drifting()
    tuned(tmp_path, measurer)
    (last,) = (configs for problem, configs in measurer.for_dispatch if problem["n"] == 128)
    assert block(32) not in last
    assert any(block(32) in configs for _, configs in measurer.for_dispatch)


@pytest.mark.parametrize("slow", [16, 64])
def test_what_is_far_too_slow_on_an_input_is_measured_there_only_as_default(
    slow: int, tmp_path: Path
) -> None:
    def times(problem: Input, config: Config) -> float:
        is_slow = (problem["n"], config["BLOCK"]) == (128, slow)
        return time_s(problem, config) * (9 if is_slow else 1)

    measurer = Drifting(times=times)
    matrix = matrix_of(tuned(tmp_path, measurer))
    configs_on = {problem["n"]: configs for problem, configs in measurer.for_dispatch}
    assert block(slow) in configs_on[8]
    assert (block(slow) in configs_on[128]) == (slow == 64)
    assert matrix.note == ""
    column = matrix.candidates.index(block(slow))
    expected = 9e3 * time_s(Input({"n": 128}), block(slow))
    assert matrix.slowdown[4, column] == pytest.approx(expected, rel=0.4)


@pytest.mark.parametrize(
    "text",
    [
        FREE.replace("[BLOCK], grid: [n]", "[BLOCK, n], grid: [n, 1]"),
        FREE.replace(
            "default: 64}", "default: 64}, TILE: {values: [0, 1], default: 0, when: n > 16}"
        ),
    ],
    ids=["the device allows fewer threads", "a parameter has no meaning"],
)
def test_what_is_ruled_out_spoils_no_interleaved_times(tmp_path: Path, text: str) -> None:
    measurer = Drifting()
    measurer.limits = DeviceLimits(4096, (4096, 4096, 64), (2**31, 65535, 65535), 1, 1, 32)
    results = tuned(tmp_path, measurer, text, test_limit=60)
    assert len(results.candidates) == 5
    assert matrix_of(results).note == ""


def test_what_cannot_be_launched_on_one_input_is_a_candidate_on_the_others(tmp_path: Path) -> None:
    measurer = Drifting()
    measurer.limits = DeviceLimits(4096, (4096, 4096, 64), (2**31, 65535, 65535), 1, 1, 32)
    text = FREE.replace("grid: [n]", 'grid: [n], shared: "BLOCK * n // 8192"')
    matrix = matrix_of(tuned(tmp_path, measurer, text, test_limit=60))
    place = matrix.candidates.index(block(128))
    assert matrix.features["n"][matrix.applies[:, place]].tolist() == [8, 16, 32, 64]


# ----------------------------------------------------------------- one command after another


def test_candidates_of_fewer_rounds_are_measured_interleaved_again(tmp_path: Path) -> None:
    measurer = Drifting()
    for repeats, count in ((1, 2), (3, 3), (3, 3), (4, 4)):  # two rounds at least
        tuned(tmp_path, measurer, f"{SPACE}measure: {{repeats: {repeats}}}\n")
        counts = "SELECT json_array_length(samples_s) FROM measurements WHERE stage = 'candidate'"
        found = query(tmp_path / "r.db", counts)
        assert set(found) == {(each,) for each in (2, 3, 4) if each <= count}
    assert len(measurer.for_dispatch) == 3 * 5


def test_candidate_that_crashed_when_interleaved_is_tried_again(tmp_path: Path) -> None:
    def crashes(problem: Input, config: Config) -> bool:
        return (problem["n"], config["BLOCK"]) == (16, 16)

    matrix = matrix_of(tuned(tmp_path, Drifting(crashes)))
    column = matrix.candidates.index(block(16))
    assert math.isinf(matrix.time_s[1, column])
    matrix = matrix_of(tuned(tmp_path, Drifting()))
    assert matrix.slowdown[1, matrix.candidates.index(block(16))] == 1


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.LAUNCH_FAILED])
def test_without_interleaved_times_the_search_counts(tmp_path: Path, outcome: Outcome) -> None:
    lost = tuned(tmp_path, Drifting(lambda problem, _: problem["n"] == 16, outcome=outcome))
    assert matrix_of(lost).note.startswith(SEARCHED)
    whole = tuned(tmp_path, Drifting())
    assert matrix_of(whole).note == ""
    few = SPACE + "measure: {repeats: 10}\n"
    lost = tuned(tmp_path, Drifting(lambda problem, _: problem["n"] == 16, outcome=outcome), few)
    assert matrix_of(lost).note == "", "the earlier rounds still count"


def test_a_command_for_some_inputs_spoils_no_interleaved_times(tmp_path: Path) -> None:
    measurer = Drifting()
    whole = matrix_of(tuned(tmp_path, measurer))
    fewer = SPACE.replace("{n: 8}, ", "")
    part = tuned(tmp_path, measurer, fewer)
    assert matrix_of(part).note == ""
    assert set(matrix_of(part).candidates) == set(whole.candidates)
    count = len(measurer.for_dispatch)
    for text in (SPACE, fewer):
        tuned(tmp_path, measurer, text)
    assert len(measurer.for_dispatch) == count, "no candidates are measured anew"


def test_interleaved_times_that_the_search_has_overtaken_do_not_flatter(tmp_path: Path) -> None:
    """What the search found since was measured beside the default in the finals."""

    def late(problem: Input, config: Config) -> float:
        return time_s(problem, config) * (0.2 if config["BLOCK"] == 256 else 1)

    tuned(tmp_path, Drifting(), SPACE.replace(", 256]", "]"))
    results = tuned(tmp_path, Drifting(times=late), cross=False)
    matrix = matrix_of(results)
    assert matrix.note == ""
    column = matrix.candidates.index(block(128))
    assert matrix.slowdown[3, column] == pytest.approx(1 / 0.4, rel=0.02)


def test_inputs_with_other_candidates_are_not_mixed(tmp_path: Path) -> None:
    def only(wanted: int) -> Callable[[Input, Config], float]:
        return lambda problem, config: 1e-3 * (1 if config["BLOCK"] == wanted else 2)

    values = "{n: 8}, {n: 16}, {n: 32}, {n: 64}, {n: 128}"
    for name, wanted, inputs in (
        ("small", 16, "{n: 20}, {n: 24}, {n: 28}, {n: 32}"),
        ("large", 256, "{n: 40}, {n: 44}, {n: 48}, {n: 52}"),
    ):
        (tmp_path / name).mkdir()
        sizes = f"[{wanted}, 64]"
        text = SPACE.replace(values, inputs).replace("[16, 32, 64, 128, 256]", sizes)
        tuned(tmp_path / name, Drifting(times=only(wanted)), text)
    databases = [str(tmp_path / name / "r.db") for name in ("small", "large")]
    matrix = matrix_of(the_one(read_results(databases)))
    assert "measured interleaved with different candidates" in matrix.note


def test_an_interruption_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measurer = Drifting()
    monkeypatch.setattr(State, "is_time_up", lambda _: len(measurer.turns) == 3)
    results = tuned(tmp_path, measurer)
    (command,) = results.commands
    assert "candidates on 2 of 5 inputs skipped" in command.stages[CANDIDATE]
    matrix = matrix_of(results)
    assert matrix.note.startswith(
        f"{SEARCHED}candidates were measured interleaved on 3 of 5 inputs."
    )
    assert matrix.note in Study.of(matrix, QUICK).notes


@pytest.fixture(scope="module")
def uncrossed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return tuned(tmp_path_factory.mktemp("uncrossed"), Drifting(), cross=False)


def test_without_interleaved_times_those_of_the_search_are_used_with_a_note(
    uncrossed: Results,
) -> None:
    matrix = matrix_of(uncrossed)
    assert uncrossed.candidates == {}
    assert matrix.note.startswith(f"{SEARCHED}candidates were not measured interleaved.")
    small = matrix.candidates.index(block(16))
    assert matrix.time_s[1, small] == uncrossed.measured[Input({"n": 16})][block(16)].time_s


@pytest.mark.parametrize(
    ("ended_at", "stages", "advice"),
    [
        ("2026-01-03", {}, "`python -m harness tune` without --no-cross measures winners on the "),
        ("2026-01-03", {"cross": "cut"}, "The time was up: tune again with a longer --max-time."),
        ("2026-01-03", {"cross": ""}, "Tune again, with more tests."),
        (None, {}, "The last run was stopped: the same command goes on, and measures winners on"),
    ],
)
def test_what_the_last_command_left_out_measures_what_lacks(
    uncrossed: Results, ended_at: str | None, stages: dict[str, str], advice: str
) -> None:
    last = Command("b", (), "2026-01-02", ended_at, {}, stages)
    earlier = Command("a", (), "2026-01-01", "2026-01-02", {}, {"cross": ""})
    made = matrix_of(dataclasses.replace(uncrossed, commands=[last, earlier]))
    assert made.remedy.startswith(advice)


class Replaying(Drifting):
    """As a recording, which would answer the same again."""

    is_replay = True


def test_recordings_are_not_measured_interleaved_and_need_no_note(tmp_path: Path) -> None:
    assert tuned(tmp_path, Replaying()).candidates == {}
    (tmp_path / "recorded").mkdir()
    recorded = tuned(tmp_path / "recorded", FormulaMeasurer(time_s), cross=False)
    assert matrix_of(recorded).note == ""


def test_where_everything_failed_there_is_no_single_configuration(tmp_path: Path) -> None:
    results = tuned(tmp_path, FormulaMeasurer(lambda *_: math.inf), FREE)
    assert Findings(results).advice == "No configuration worked on any input."


def test_the_single_configuration_is_judged_in_the_finals_of_every_input(tmp_path: Path) -> None:
    """What suits all inputs best wins on no input of two."""

    def times(problem: Input, config: Config) -> float:
        of_block = {16: (1.0, 3.0), 32: (1.2, 1.2), 128: (3.0, 1.0)}
        both = of_block.get(int(str(config["BLOCK"])), (4.0, 4.0))
        return 1e-3 * both[problem["n"] == 16]

    two = FREE.replace(", {n: 32}, {n: 64}, {n: 128}", "")
    results = tuned(tmp_path, Drifting(times=times), two)
    for problem, best in ((Input({"n": 8}), 16), (Input({"n": 16}), 128)):
        assert {m.config for m in results.finals[problem]} == set(map(block, (best, 32, 64)))
    single = Findings(results).single
    assert single is not None
    assert (single.config, single.inputs) == (block(32), 2)
    assert single.speedup is not None
    assert single.speedup.value == pytest.approx(4.0 / 1.2, rel=0.01)
    assert single.loss is not None
    assert single.loss[1].value == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize("baselines", ["", "baselines: {named: {BLOCK: 16}}\n"])
def test_where_configurations_tie_all_have_the_single_one(tmp_path: Path, baselines: str) -> None:
    """On the first of two inputs 16 is as fast, has as few changes, and a smaller value."""

    def times(problem: Input, config: Config) -> float:
        both = {16: (1.0, 3.0), 32: (1.0, 1.0)}.get(int(str(config["BLOCK"])), (4.0, 4.0))
        return 1e-3 * both[problem["n"] == 16]

    two = FREE.replace(", {n: 32}, {n: 64}, {n: 128}", "") + baselines
    findings = Findings(tuned(tmp_path, Drifting(times=times), two))
    assert findings.single is not None
    best = [report.recommended.config for report in findings.reports if report.recommended]
    assert best == [findings.single.config] * 2 == [block(32)] * 2
    assert str(findings.advice).startswith("Use BLOCK=32 on every input: 4.0")
    assert str(findings.advice).endswith(
        "over the default; nothing better was found (all 5 configurations tried on each input)."
    )


def test_the_best_interleaved_candidate_is_measured_in_the_finals(tmp_path: Path) -> None:
    """The search timed what the largest input wants as the slowest of all."""

    class Unlucky(Drifting):
        def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
            found = super().measure(space, problem, config, best_s)
            if (problem["n"], config["BLOCK"]) != (128, 128):
                return found
            return dataclasses.replace(found, timing=Timing((9e-3,) * 3))

    results = tuned(tmp_path, Unlucky())
    finals = {m.config for m in results.finals[Input({"n": 128})]}
    assert block(128) in finals


# ---------- which configurations may be chosen, and which of their times count, by hand


ONE, TWO = Input({"n": 1}), Input({"n": 2})


def ok(problem: Input, value: int, *samples_s: float) -> Measurement:
    timing = Timing(samples_s or (1.0, 1.0), StopReason.INTERLEAVED)
    return Measurement(block(value), problem, Outcome.OK, timing)


def failed(problem: Input, value: int, outcome: Outcome = Outcome.WRONG_RESULT) -> Measurement:
    return Measurement(block(value), problem, outcome, message="no")


def test_constraints_hold_over_features_parameters_and_limits() -> None:
    texts = ("BLOCK * n <= max_group_size", "BLOCK > 16", "unknown > 3")
    applies = applies_where(map(Expression, texts), {"max_group_size": 64})
    assert applies(ONE, block(64))
    assert applies(TWO, block(32))
    assert not applies(TWO, block(64))
    assert not applies(ONE, block(16))


def matrix(
    sessions: Mapping[Input, list[Interleaved]],
    finals: Sequence[Interleaved] = (),
    searched: Sequence[Measurement] = (),
) -> Matrix | None:
    known = {problem: {m.config: m for m in searched if m.input == problem} for problem in sessions}
    every = {problem: [*finals, *own] for problem, own in sessions.items()}
    return interleaved_matrix(known, every, sessions, block(16), lambda problem, config: True)


def times_on_one(
    sessions: list[Interleaved], finals: list[Interleaved], *searched: Measurement
) -> dict[int, float] | None:
    """Return the times on ONE by the value of BLOCK; the default is 16."""
    made = matrix({ONE: sessions}, finals, searched)
    if made is None:
        return None
    values = [int(str(config["BLOCK"])) for config in made.candidates]
    return dict(zip(values, made.time_s[0].tolist(), strict=True))


def test_a_failure_on_one_input_is_a_measurement_there() -> None:
    one, other = [ok(ONE, 16), ok(ONE, 32)], [ok(TWO, 16, 2.0), failed(TWO, 32)]
    made = matrix({ONE: [one], TWO: [other]})
    assert made is not None
    assert (made.candidates, made.time_s[1, 1]) == ((block(16), block(32)), math.inf)
    made = matrix({ONE: [[ok(ONE, 16), failed(ONE, 32)]], TWO: [other]})
    assert made is not None
    assert made.candidates == (block(16),)


def test_where_nothing_worked_on_an_input_nothing_is_common() -> None:
    assert matrix({ONE: [[ok(ONE, 16)]], TWO: [[failed(TWO, 16)]]}) is None
    assert matrix({ONE: [[ok(ONE, 16)]], TWO: []}) is None
    worked = {ONE: [[ok(ONE, 16)]], TWO: [[ok(TWO, 16)]]}
    assert matrix(worked, searched=[failed(TWO, 16)]) is None, "the search's failure stands"


def test_a_failure_in_any_session_that_worked_is_one() -> None:
    sessions = [[ok(ONE, 16, 1.0), ok(ONE, 64), failed(ONE, 32)], [ok(ONE, 16), ok(ONE, 32, 2.0)]]
    assert times_on_one(sessions, [], failed(ONE, 64)) == {16: 1.0}
    chance = [[ok(ONE, 16), failed(ONE, 32, Outcome.CRASHED)], sessions[1]]
    assert times_on_one(chance, []) == {16: 1.0, 32: 2.0}


def test_a_gain_that_first_runs_do_not_show_is_none() -> None:
    unshown = dataclasses.replace(ok(ONE, 32, 0.2), observed={UNCLAIMED: 1.0})
    one = [[ok(ONE, 16, 9.0), unshown], [ok(ONE, 16, 4.0), ok(ONE, 32, 0.2)]]
    made = matrix({ONE: one, TWO: [[ok(TWO, 16, 4.0), ok(TWO, 32, 2.0)]]})
    assert made is not None
    assert made.time_s.tolist() == [pytest.approx([4.0, 4.0]), pytest.approx([4.0, 2.0])]


def test_the_finals_refute_candidates_and_do_not_time_them() -> None:
    sessions = [[ok(ONE, 16), ok(ONE, 32, 2.0), ok(ONE, 64, 0.5)]]
    finals = [[ok(ONE, 16, 9.0), ok(ONE, 32, 1.0), failed(ONE, 64)]]
    assert times_on_one(sessions, finals) == {16: 1.0, 32: 2.0}


def test_of_candidates_with_equal_times_everywhere_the_first_is_kept() -> None:
    one = [ok(ONE, 32, 2.0), ok(ONE, 16, 2.0), ok(ONE, 64, 2.0), ok(ONE, 128, 2.0)]
    other = [ok(TWO, 32, 3.0), ok(TWO, 16, 3.0), ok(TWO, 64, 4.0), ok(TWO, 128, 3.0)]
    made = matrix({ONE: [one], TWO: [other]})
    assert made is not None
    assert made.candidates == (block(16), block(64))


def test_a_short_list_has_at_most_eight_members_and_the_three_best_static_ones() -> None:
    """Each of 24 inputs wants its own candidate; of the others, 30, 31 and 32 are the best."""
    inputs = [Input({"n": n}) for n in range(24)]
    known = {
        problem: {
            block(v): ok(problem, v, 1.0 if v == n else {30: 2.0, 31: 2.1, 32: 2.2}.get(v, 90.0))
            for v in [*range(24), 30, 31, 32, 64]
        }
        for n, problem in enumerate(inputs)
    }
    found = shortlist(known, block(64), lambda problem, config: True)
    assert found == [block(v) for v in (64, 30, *range(7), 31, 32)]
    assert shortlist(known, block(64), lambda problem, config: False) == []
    few = {problem: known[problem] for problem in inputs[:1]}
    assert shortlist(few, block(64), lambda problem, config: True) == []
    del known[inputs[5]][block(64)]
    assert block(64) not in shortlist(known, block(64), lambda problem, config: True)


# ---------------------------------------------------------------------------- times of the search


def given(n: int) -> Input:
    return Input({"n": n})


def searched(rows: Mapping[int, Mapping[int, float]], most: int = 9) -> Matrix:
    """By input, the seconds of each block; infinity for a failure. The default is block 1."""
    known = {
        given(n): {
            block(value): failed(given(n), value)
            if math.isinf(time_s)
            else ok(given(n), value, time_s)
            for value, time_s in row.items()
        }
        for n, row in rows.items()
    }
    return searched_matrix(known, block(1), lambda problem, config: True, most)


def test_times_are_by_input_and_configuration() -> None:
    found = searched({1: {16: 2.0, 32: 1.0, 64: math.inf}, 2: {64: 3.0, 16: 9.0}})
    assert found.features["n"].tolist() == [1, 2]
    assert found.candidates == tuple(map(block, (1, 32, 64, 16)))
    assert found.best_s.tolist() == [1.0, 3.0]
    wanted = [[math.nan, 1.0, math.inf, 2.0], [math.nan, math.nan, 3.0, 9.0]]
    np.testing.assert_array_equal(found.time_s, wanted)


def test_a_tie_is_within_noise_of_the_best() -> None:
    found = searched({1: {16: 1.0, 32: 1.004, 64: 1.006}, 2: {16: 2.0, 32: math.inf, 64: 1.0}})
    assert found.candidates == tuple(map(block, (1, 16, 64, 32)))
    assert found.tied.tolist() == [[False, True, False, True], [False, False, True, False]]


@pytest.mark.parametrize(
    ("rows", "most", "wanted"),
    [
        # Slowdowns of 16: 4 and 1; of 32: 1 and 3; of 64: 2 and 1.4.
        ({1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}}, 0, (32, 16)),
        ({1: {16: 4.0, 32: 1.0, 64: 2.0}, 2: {16: 100.0, 32: 300.0, 64: 140.0}}, 1, (32, 16, 64)),
        # 8 takes the least seconds in all, 16 has the least slowdowns.
        ({1: {4: 1e-3, 16: 2e-3, 8: 4e-3}, 2: {4: 1.0, 16: 1.3, 8: 1.2}}, 2, (4, 16)),
        # What fails on an input is the last of all.
        ({1: {4: 0.5, 32: 9.0, 16: 1.0}, 2: {16: math.inf, 32: 9.0, 4: 1.0}}, 2, (4, 32)),
        ({1: {16: 2.0, 32: 1.0}}, 9, (32, 16)),
        ({}, 9, ()),
    ],
)
def test_of_many_configurations_those_of_the_least_mean_slowdown_are_taken(
    rows: Mapping[int, Mapping[int, float]], most: int, wanted: tuple[int, ...]
) -> None:
    assert searched(rows, most).candidates == tuple(map(block, (1, *wanted)))
