"""The finals: some rounds choose an input's winner, others judge it, on several occasions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.analysis.coverage import input_reports
from harness.analysis.inputs import InputReport
from harness.core.records import Config, Input, Measurement, Outcome
from harness.dispatch.candidates import matrix_of
from harness.measure.occasions import ONE_OCCASION
from harness.results import FINAL
from harness.results.view import Results, read_results, the_one
from harness.tuning import Stages
from harness.tuning.finals import CHOICE_SEEDS, FINAL_SEEDS
from tests.replays import FormulaMeasurer, in_occasions, make_spec, opened

SPACE = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 32, 64], default: 16}
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}]}
"""

SEARCH_S = {16: 3.0, 32: 1.0, 64: 1.001}
FOUR_INPUTS = SPACE.replace("[{n: 8}]", "[{n: 8}, {n: 16}, {n: 32}, {n: 64}]")


class Staged(FormulaMeasurer):
    """Measures other seconds, by BLOCK, in each stage; blocks that are `wrong` fail in the finals.

    `turns` are the blocks that were measured interleaved, with the seeds of their occasions.
    """

    def __init__(
        self,
        choice_s: Mapping[int, float] = SEARCH_S,
        final_s: Mapping[int, float] = SEARCH_S,
        wrong: tuple[int, ...] = (),
    ) -> None:
        super().__init__(lambda _, config: SEARCH_S[block(config)])
        self._staged = {ONE_OCCASION: SEARCH_S, CHOICE_SEEDS: choice_s, FINAL_SEEDS: final_s}
        self._wrong = wrong
        self.turns: list[tuple[set[int], tuple[int, ...]]] = []

    def measure_interleaved(
        self, space: Any, problem: Input, configs: Any, rounds: int, seeds: Any = ONE_OCCASION
    ) -> list[Measurement]:
        self.turns.append((set(map(block, configs)), seeds))
        return [self._one(problem, config, rounds, seeds) for config in configs]

    def _one(self, problem: Input, config: Config, rounds: int, seeds: Any) -> Measurement:
        if seeds == FINAL_SEEDS and block(config) in self._wrong:
            message = "wrong result at the first launch"
            return Measurement(config, problem, Outcome.WRONG_RESULT, message=message)
        time_s = self._staged[seeds][block(config)]
        samples_s = [time_s * (1 + 0.001 * (n % 3)) for n in range(rounds)]
        return Measurement(config, problem, Outcome.OK, in_occasions(samples_s, seeds))


def block(config: Config) -> int:
    value = config["BLOCK"]
    assert isinstance(value, int)
    return value


def tuned(folder: Path, measurer: Staged, text: str = SPACE) -> tuple[InputReport, Results]:
    """The report of the first input, and what is stored."""
    spec, database = make_spec(folder, text), folder / "r.db"
    stages = Stages(cross=text != SPACE)
    with opened(spec, database, measurer, stages=stages) as (campaign, _):
        (report, *_) = campaign.run()
    return report, the_one(read_results([str(database)]))


def best_block(report: InputReport) -> int:
    assert report.best is not None
    return block(report.best.config)


def test_finalists_are_measured_once_to_choose_and_the_winner_again_to_be_judged(
    tmp_path: Path,
) -> None:
    measurer = Staged(choice_s={16: 3.0, 32: 1.2, 64: 1.1}, final_s={16: 3.0, 64: 1.5})
    report, _ = tuned(tmp_path, measurer)
    assert measurer.turns == [({32, 64}, CHOICE_SEEDS), ({16, 64}, FINAL_SEEDS)]
    assert best_block(report) == 64
    assert report.speedup is not None
    assert round(report.speedup.value, 6) == 2
    assert report.speedup.is_faster


def test_winner_that_is_not_faster_when_it_is_judged_gives_way_to_the_default(
    tmp_path: Path,
) -> None:
    report, _ = tuned(tmp_path, Staged(final_s={16: 3.0, 32: 3.3}))
    assert best_block(report) == 16


def test_stored_results_give_the_same_report(tmp_path: Path) -> None:
    report, results = tuned(tmp_path, Staged(choice_s={16: 3.0, 32: 1.2, 64: 1.1}))
    (stored,) = input_reports(results)
    assert (stored.best, stored.speedup) == (report.best, report.speedup)
    occasions = [len(m.timing.by_occasion) for m in results.finals[report.problem] if m.timing]
    assert occasions == [len(FINAL_SEEDS)] * 2


def test_judged_winner_is_not_measured_again(tmp_path: Path) -> None:
    measurer = Staged()
    tuned(tmp_path, measurer)
    count = len(measurer.turns)
    tuned(tmp_path, measurer)
    assert len(measurer.turns) == count


def test_finals_of_one_occasion_are_measured_again_on_several(tmp_path: Path) -> None:
    """Finals of an older version."""
    measurer = Staged()
    _, results = tuned(tmp_path, measurer)
    (finals,) = results.finals.values()
    older = [
        dataclasses.replace(m, timing=dataclasses.replace(m.timing, occasions=()))
        for m in finals
        if m.timing
    ]
    spec = make_spec(tmp_path, SPACE)
    with opened(spec, tmp_path / "r.db", measurer) as (campaign, _):
        state, problem = campaign.state, spec.inputs[0]
        begun = state.store.begin_run(state.run_plan(problem), {})
        state.store.add_interleaved(begun.id, state.run_plan(problem), FINAL, older)
        state.store.commit()
    count = len(measurer.turns)
    tuned(tmp_path, measurer)
    assert [seeds for _, seeds in measurer.turns[count:]] == [FINAL_SEEDS]


def test_winner_that_is_wrong_on_other_data_gives_way_to_the_next(tmp_path: Path) -> None:
    measurer = Staged(wrong=(32,))
    report, _ = tuned(tmp_path, measurer)
    assert measurer.turns[1:] == [({16, 32}, FINAL_SEEDS), ({16, 64}, FINAL_SEEDS)]
    assert best_block(report) == 64
    again, _ = tuned(tmp_path, measurer)
    assert len(measurer.turns) == 3, "it is not tried again"
    assert best_block(again) == 64


def test_default_is_best_where_all_finalists_are_wrong_on_other_data(tmp_path: Path) -> None:
    report, _ = tuned(tmp_path, Staged(wrong=(32, 64)))
    assert best_block(report) == 16


def test_what_is_wrong_on_other_data_is_not_chosen_by_input_either(tmp_path: Path) -> None:
    _, results = tuned(tmp_path, Staged(wrong=(32,)), FOUR_INPUTS)
    matrix = matrix_of(results)
    assert matrix.note == ""
    columns = [block(config) for config in matrix.candidates]
    assert not (matrix.time_s[:, columns.index(64)] == float("inf")).any()
    assert 32 not in columns or (matrix.time_s[:, columns.index(32)] == float("inf")).all()
