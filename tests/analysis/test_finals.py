"""The finals: some rounds choose an input's winner, others judge it, on several occasions."""

import dataclasses
import math

import pytest

from harness.analysis.coverage import input_reports
from harness.core.observations import UNCLAIMED
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing
from harness.display.inputs import claims_lines
from harness.measure.occasions import DATA_SETS, ONE_OCCASION
from harness.results.view import read_results, the_one
from harness.tuning.finals import FINAL_OCCASIONS, is_complete
from tests.helpers.replays import FormulaMeasurer, in_occasions, make_spec, ran, small_space
from tests.helpers.results_examples import query, tamper

SPACE = small_space("BLOCK: {values: [16, 32, 64], default: 16}", 8)

SEARCH_S = {16: 3.0, 32: 1.0, 64: 1.001, 128: 1.9, 256: 2.1}
WITH_BASELINES = SPACE.replace("64]", "64, 128, 256]") + (
    "baselines: {near: {BLOCK: 128}, slow: {BLOCK: 256}}\n"
)
NAMED = "baselines: {named: {BLOCK: 64}}\n"


class Staged(FormulaMeasurer):
    """Measures other seconds, by BLOCK, in each stage; blocks that are `wrong` fail in the finals.

    `turns` are the blocks that were measured interleaved, and in which stage; `seeds` are those of
    the finals. First runs do not show the gains of blocks that are `slow_first`.
    """

    def __init__(
        self,
        choice_s=SEARCH_S,
        final_s=SEARCH_S,
        wrong=(),
        search_s=SEARCH_S,
        slow_first=(),
    ):
        super().__init__(lambda _, config: search_s[block(config)])
        self._staged = {"search": SEARCH_S, "choice": choice_s, "finals": final_s}
        self._wrong = wrong
        self._slow_first = slow_first
        self.turns = []
        self.seeds = []
        self.rounds = []

    def measure_interleaved(self, space, problem, configs, rounds, seeds=ONE_OCCASION):
        stage = _stage(seeds)
        self.turns.append((set(map(block, configs)), stage))
        self.rounds.append(rounds)
        if stage == "finals":
            self.seeds.append(seeds)
        return [self._one(problem, config, rounds, seeds, stage) for config in configs]

    def _one(self, problem, config, rounds, seeds, stage):
        size = block(config)
        if stage == "finals" and size in self._wrong:
            return Measurement(config, problem, Outcome.WRONG_RESULT, message="wrong")
        samples_s = [self._staged[stage][size] * (1 + 0.001 * (n % 3)) for n in range(rounds)]
        measured = Measurement(config, problem, Outcome.OK, in_occasions(samples_s, seeds))
        if stage == "finals" and size in self._slow_first:
            message = "its first runs are slow"
            return dataclasses.replace(measured, observed={UNCLAIMED: 1.0}, message=message)
        return measured


def _stage(seeds):
    if seeds == ONE_OCCASION:
        return "search"
    return "choice" if len(seeds) == 1 else "finals"


def block(config):
    return config["BLOCK"]


def tuned(folder, measurer, text=SPACE, test_limit=40):
    """The report of the first input, and what is stored."""
    spec, database = make_spec(folder, text), folder / "r.db"
    chosen = {"cross": text != SPACE, "test_limit": test_limit}
    (report, *_) = ran(spec, database, measurer, **chosen).reports
    return report, the_one(read_results([str(database)]))


def best_block(report):
    return block(report.best.config)


def test_finalists_are_measured_to_choose_and_the_winner_again_to_be_judged(tmp_path):
    measurer = Staged(choice_s={16: 3.0, 32: 1.2, 64: 1.1}, final_s={16: 3.0, 64: 1.5})
    report, _ = tuned(tmp_path, measurer)
    assert measurer.turns == [({32, 64}, "choice"), ({16, 64}, "finals")]
    assert best_block(report) == 64
    assert report.speedup.value == pytest.approx(2)
    assert report.speedup.is_faster


def test_finals_have_data_of_a_seed_that_is_drawn_once_for_a_campaign(tmp_path):
    measurer, database = Staged(wrong=(32,)), tmp_path / "r.db"
    tuned(tmp_path, measurer)
    tamper(database, "UPDATE measurements SET stage = 'candidate' WHERE stage = 'final'")
    tuned(tmp_path, measurer)
    (seeds,) = set(measurer.seeds)
    seed, other_seed = dict.fromkeys(seeds)
    assert len(seeds) == FINAL_OCCASIONS
    assert other_seed == seed + DATA_SETS
    assert query(database, "SELECT json_extract(notes, '$.data_seed') FROM runs") == [(seed,)]
    database.unlink()
    tuned(tmp_path, measurer)
    assert seeds != measurer.seeds[-1], "of another campaign"


@pytest.mark.parametrize(
    "measure, rounds",
    [
        ("", [20, 20]),
        ("measure: {repeats: 1}\n", [2, 6]),
        (f"measure: {{repeats: 1}}\n{NAMED}", [20, 20]),
    ],
)
def test_the_choice_and_the_finals_have_as_many_rounds_as_repeats(tmp_path, measure, rounds):
    """At least two, and one for each occasion; twenty beside named baselines."""
    measurer = Staged()
    tuned(tmp_path, measurer, SPACE + measure)
    assert measurer.rounds == rounds


@pytest.mark.parametrize("measurer", [Staged(final_s={16: 3.0, 32: 3.3}), Staged(wrong=(32, 64))])
def test_default_is_best_where_no_finalist_is_faster_or_right_when_it_is_judged(tmp_path, measurer):
    report, _ = tuned(tmp_path, measurer)
    assert (best_block(report), report.speedup.value) == (16, 1)


def test_baseline_that_the_search_would_give_up_is_judged_but_no_rival(tmp_path):
    measurer = Staged()
    report, _ = tuned(tmp_path, measurer, WITH_BASELINES)
    turns = [({32, 64, 128}, "choice"), ({16, 32, 128, 256}, "finals")]
    assert measurer.turns[-2:] == turns
    assert set(report.baseline_speedups) == {"near", "slow"}


def test_stored_results_give_the_same_report(tmp_path):
    measurer = Staged(choice_s={16: 3.0, 32: 1.2, 64: 1.1})
    report, results = tuned(tmp_path, measurer)
    (stored,) = input_reports(results)
    assert (stored.best, stored.speedup) == (report.best, report.speedup)
    count = len(measurer.turns)
    tuned(tmp_path, measurer)
    assert len(measurer.turns) == count, "nothing is measured again"
    occasions = [len(m.timing.by_occasion) for m in results.finals[report.problem]]
    assert occasions == [FINAL_OCCASIONS] * 2


@pytest.mark.parametrize("measurer", [Staged(wrong=(32,)), Staged(slow_first=(32,))])
def test_winner_that_is_wrong_or_slow_at_first_gives_way(tmp_path, measurer):
    report, _ = tuned(tmp_path, measurer)
    assert measurer.turns[1:] == [({16, 32}, "finals"), ({16, 64}, "finals")]
    assert best_block(report) == 64
    assert report.speedup.is_faster
    again, _ = tuned(tmp_path, measurer)
    assert len(measurer.turns) == 3, "it is not tried again"
    assert best_block(again) == 64


def test_gain_that_first_runs_do_not_show_is_no_claim_and_nobody_is_accused(tmp_path):
    report, results = tuned(tmp_path, Staged(slow_first=(32, 64)))
    assert report.speedup.value > 2
    assert not report.speedup.is_faster
    assert block(report.recommended.config) == 16
    (finals,) = results.finals.values()
    assert {m.outcome for m in finals} == {Outcome.OK}
    _, unclaimed = claims_lines([report])
    assert "1 of 1 input, (n=8): its first runs are slow" in unclaimed


def test_a_named_baseline_is_in_the_finals_unless_it_failed_in_the_search(tmp_path):
    for search_s, test_limit, finals in (
        (SEARCH_S, 1, {16, 64}),  # it was not tried
        (SEARCH_S, 40, {16, 32, 64}),
        (SEARCH_S | {64: math.inf}, 40, {16, 32}),
    ):
        (tmp_path / "r.db").unlink(missing_ok=True)
        measurer = Staged(search_s=search_s)
        tuned(tmp_path, measurer, SPACE + NAMED, test_limit)
        assert measurer.turns[-1] == (finals, "finals")


def test_a_named_baseline_that_the_search_did_not_try_may_win(tmp_path):
    measurer = Staged(choice_s={32: 1.1, 64: 1.2}, final_s={16: 3.0, 32: 1.5})
    report, _ = tuned(tmp_path, measurer, SPACE + NAMED.replace("64", "32"), test_limit=2)
    assert {block(config) for _, config in measurer.asked} == {16, 64}
    assert measurer.turns == [({32, 64}, "choice"), ({16, 32}, "finals")]
    assert best_block(report) == 32


def test_results_say_whether_all_legal_configurations_were_tried(tmp_path):
    for test_limit, is_exhausted in ((2, False), (40, True)):
        report, results = tuned(tmp_path, Staged(), test_limit=test_limit)
        assert results.is_exhausted is report.is_exhausted is is_exhausted


# ------------------------------------------------------------------------- stored results


C16, C32, C64 = (Config({"BLOCK": value}) for value in (16, 32, 64))


def timed(config, rounds=20, stopped=StopReason.INTERLEAVED):
    return Measurement(config, Input({"n": 8}), Outcome.OK, Timing((1.0,) * rounds, stopped))


def failed(config, outcome):
    return Measurement(config, Input({"n": 8}), outcome, message="gone")


def test_stored_results_are_complete_with_just_these_configurations_in_all_their_rounds():
    for stored, searched, expected in (
        ([timed(C16), timed(C32)], [], True),
        ([timed(C16)], [], False),
        ([timed(C16), timed(C32), timed(C64)], [], False),
        ([timed(C16), timed(C32, rounds=19)], [], False),
        ([timed(config, 3, StopReason.RECORDED) for config in (C16, C32)], [], True),
        # Only a crash of what worked in the search is measured again.
        ([timed(C16), failed(C32, Outcome.WRONG_RESULT)], [C16, C32], True),
        ([timed(C16), failed(C32, Outcome.IMPLAUSIBLE)], [C16, C32], True),
        ([timed(C16), failed(C32, Outcome.CRASHED)], [C16, C32], False),
        ([timed(C16), failed(C32, Outcome.CRASHED)], [], True),
        ([failed(config, Outcome.WRONG_RESULT) for config in (C16, C32)], [], False),
    ):
        worked = dict.fromkeys(searched)
        assert is_complete(stored, [C16, C32], rounds=20, searched=worked) is expected
