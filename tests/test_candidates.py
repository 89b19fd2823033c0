"""What a dispatcher may choose from: few candidates, measured in turn on every input."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import repeatability
from harness.campaign import Stages
from harness.campaign.state import State
from harness.candidates import shortlist
from harness.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.results import CANDIDATE
from harness.tables import Results, read_results, the_one
from tests.replays import FormulaMeasurer, make_spec, opened

SPACE = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 32, 64, 128, 256], default: 64}
constraints: [BLOCK <= n * 16]
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}, {n: 16}, {n: 32}, {n: 64}, {n: 128}]}
"""
WANTED = {8: 16, 16: 16, 32: 32, 64: 128, 128: 128}


def block(value: int) -> Config:
    return Config({"BLOCK": value})


def time_s(given: Input, config: Config) -> float:
    """The further from what an input wants, the slower; 32 fails on the largest."""
    n, size = int(str(given["n"])), int(str(config["BLOCK"]))
    if (n, size) == (128, 32):
        return math.inf
    return 1e-3 * (1 + abs(math.log2(size / WANTED[n])))


class Drifting(FormulaMeasurer):
    """What it measures alone comes out by up to 40 % too slow, in turn as it is; in turn some
    configurations fail, and samples of a configuration differ by 1 %."""

    def __init__(
        self, fails: Callable[[Input, Config], bool] = lambda given, config: False, seed: int = 0
    ) -> None:
        super().__init__(time_s)
        self._random = random.Random(seed)
        self.turns: list[tuple[Input, tuple[Config, ...]]] = []
        self._fails = fails

    def measure(self, space: Any, given: Input, config: Config, best_s: float | None) -> Any:
        found = super().measure(space, given, config, best_s)
        if found.timing is None:
            return found
        slow = self._random.uniform(1, 1.4)
        samples_s = tuple(slow * sample for sample in found.timing.samples_s)
        return dataclasses.replace(found, timing=Timing(samples_s))

    def measure_interleaved(self, space: Any, given: Input, configs: Any, rounds: int) -> Any:
        self.turns.append((given, tuple(configs)))
        found = super().measure_interleaved(space, given, configs, rounds)
        return [self._in_turn(measured, rounds) for measured in found]

    def _in_turn(self, measured: Measurement, rounds: int) -> Measurement:
        if measured.timing is None or self._fails(measured.input, measured.config):
            return Measurement(measured.config, measured.input, Outcome.CRASHED, message="in turn")
        samples_s = tuple(measured.time_s * (1 + k % 2 / 100) for k in range(rounds))
        return dataclasses.replace(measured, timing=Timing(samples_s, StopReason.INTERLEAVED))


def tuned(folder: Path, measurer: Drifting, text: str = SPACE, **options: Any) -> Results:
    """What a finished campaign left in a database."""
    spec = make_spec(folder, text)
    with opened(spec, folder / "r.db", measurer, **options) as (campaign, _):
        campaign.run()
    return the_one(read_results([str(folder / "r.db")]))


def in_turn(measurer: Drifting) -> list[tuple[Input, tuple[Config, ...]]]:
    """What was measured for the dispatcher; after it the finals, an input each."""
    inputs = [given for given, _ in measurer.turns]
    return measurer.turns[: len(inputs) - len(set(inputs))]


def test_the_matrix_is_of_times_in_turn(tmp_path: Path) -> None:
    measurer = Drifting()
    results = tuned(tmp_path, measurer)
    matrix = results.matrix()
    assert len(in_turn(measurer)) == 5
    assert matrix.note == ""
    assert matrix.candidates[0] == block(64)
    for place, candidate in enumerate(matrix.candidates):
        for row, n in enumerate(WANTED):
            given = Input({"n": n})
            expected = time_s(given, candidate)
            if int(str(candidate["BLOCK"])) > 16 * n:
                assert not matrix.applies[row, place]
            elif math.isinf(expected):
                assert math.isinf(matrix.time_s[row, place]), "the search's failure stands"
            else:
                assert matrix.time_s[row, place] == pytest.approx(expected, rel=0.01)
    assert matrix.best_s == pytest.approx([1e-3] * 5, rel=0.01)
    assert len(matrix.judgeable().features) == 5


def test_what_failed_in_the_search_is_not_tried_in_turn(tmp_path: Path) -> None:
    measurer = Drifting()
    tuned(tmp_path, measurer)
    (last,) = (configs for given, configs in in_turn(measurer) if given["n"] == 128)
    assert block(32) not in last
    assert any(block(32) in configs for _, configs in in_turn(measurer))


def test_candidates_are_not_measured_in_turn_again(tmp_path: Path) -> None:
    measurer = Drifting()
    first = tuned(tmp_path, measurer)
    count = len(measurer.turns)
    again = tuned(tmp_path, measurer)
    assert len(measurer.turns) == count
    assert again.candidates == first.candidates


def test_candidate_that_crashed_in_turn_is_tried_again(tmp_path: Path) -> None:
    def crashes(given: Input, config: Config) -> bool:
        return (given["n"], config["BLOCK"]) == (16, 16)

    matrix = tuned(tmp_path, Drifting(crashes)).matrix()
    place = matrix.candidates.index(block(16))
    assert math.isinf(matrix.time_s[1, place])
    matrix = tuned(tmp_path, Drifting()).matrix()
    assert matrix.time_s[1, matrix.candidates.index(block(16))] == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("stages", [Stages(cross=False), Stages()])
def test_without_times_in_turn_those_of_the_search_are_told_as_such(
    tmp_path: Path, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = dict[str, str]()
    if stages.cross:
        monkeypatch.setattr(State, "is_time_up", lambda _: True)
        monkeypatch.setattr(State, "leave_out", lambda _, *words: told.update([words]))
    results = tuned(tmp_path, Drifting(), stages=stages)
    assert (CANDIDATE in told) == stages.cross
    matrix = results.matrix()
    assert results.candidates == {}
    assert matrix.note.startswith("Times are those of the search")
    small = matrix.candidates.index(block(16))
    assert matrix.time_s[1, small] == results.measured[Input({"n": 16})][block(16)].time_s


def test_inputs_with_other_candidates_are_not_mixed(tmp_path: Path) -> None:
    """As after a second command for a part of the inputs, once the search had gone on."""
    results = tuned(tmp_path, Drifting())
    given = Input({"n": 128})
    others = [row.measurement for row in results.rows if row.measurement.input == given][:1]
    mixed = dataclasses.replace(results)
    mixed.__dict__["candidates"] = {**results.candidates, given: others}
    assert results.matrix().note == ""
    assert mixed.matrix().note.startswith("Times are those of the search")


def test_few_inputs_need_no_candidates(tmp_path: Path) -> None:
    measurer = Drifting()
    results = tuned(tmp_path, measurer, SPACE.replace(", {n: 64}, {n: 128}", ""))
    assert len(measurer.turns) == 3, "the finals alone"
    assert results.candidates == {}


def ok(given: Input, size: int, seconds: float) -> Measurement:
    return Measurement(block(size), given, Outcome.OK, Timing((seconds,)))


def test_the_short_list_has_the_default_a_portfolio_and_the_best_single_ones() -> None:
    """Each odd input wants 1, each even one 2; 3 is nearly as good everywhere; 5 never is."""
    seconds = {
        1: [1.0, 2.0] * 4,
        2: [2.0, 1.0] * 4,
        3: [1.2] * 8,
        4: [1.3] * 8,
        5: [1.9] * 8,
        64: [4.0] * 8,
    }
    known = {
        (given := Input({"n": n})): {
            block(size): ok(given, size, times[n]) for size, times in seconds.items()
        }
        for n in range(8)
    }
    found = shortlist(known, block(64), lambda given, config: True)
    assert found == [block(size) for size in (64, 3, 1, 2, 4)]
    few = {given: known[given] for given in list(known)[:3]}
    assert shortlist(few, block(64), lambda given, config: True) == []


def test_how_alike_times_come_out_again_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2, 3):
        (tmp_path / str(seed)).mkdir()
        tuned(tmp_path / str(seed), Drifting(seed=seed))
    places = [str(tmp_path / str(seed) / "r.db") for seed in (1, 2, 3)]
    assert repeatability.main(places) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["in turn"] == {"scatter": [0.0] * 3, "regret": [0.0] * 3}
    assert all(0.03 < scatter < 0.2 for scatter in found["one after another"]["scatter"])
    assert repeatability.main(places[:1]) == 2
    assert "two runs or more" in capsys.readouterr().err
