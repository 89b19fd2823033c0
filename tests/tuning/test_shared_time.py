"""Under a time limit each input has an equal share of the time; what is told of the time and of
stages. A clock is simulated."""

from __future__ import annotations

import time

import pytest

from harness.results.schema import CROSS
from harness.search import EndReason
from tests.helpers.replays import SPACE, FormulaMeasurer, formula_s, make_spec, ran

INPUTS = 4
TEST_S = 1.0


class Clock(FormulaMeasurer):
    """A measurer for which each measurement takes a second of a simulated clock."""

    now_s = 0.0

    def __init__(self, monkeypatch, times=formula_s):
        super().__init__(times)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def measure(self, space, problem, config, best_s):
        """Let the time pass, and return the formula's time."""
        self.now_s += TEST_S
        return super().measure(space, problem, config, best_s)


def spec_of(folder):
    values = ", ".join(f"{{m: {2**i}, n: {64 + i}}}" for i in range(INPUTS))
    return make_spec(folder, SPACE.replace("{m: 64, n: 4096}, {m: 4096, n: 64}", values))


def searched(folder, measurer, allowed_s, **options):
    """Tune for a time, and return the campaign."""
    stop_at = measurer.now_s + allowed_s
    return ran(spec_of(folder), folder / "r.db", measurer, stop_at=stop_at, **options).campaign


def test_inputs_have_equal_shares_of_time(tmp_path, monkeypatch):
    """A tenth is for the winners on other inputs."""
    measurer = Clock(monkeypatch)
    campaign = searched(tmp_path, measurer, allowed_s=INPUTS * 12 * TEST_S / 0.9)
    tests = [search.tests for search in campaign.searched.values()]
    assert len(tests) == INPUTS
    assert 11 <= min(tests) <= max(tests) <= 16, "one batch may begin before the share ends"
    assert {search.ended for search in campaign.searched.values()} == {EndReason.TIME}
    assert campaign.ledger.rows.of_stages([CROSS])


def test_time_that_is_left_is_shared_later(tmp_path, monkeypatch):
    measurer = Clock(monkeypatch)
    campaign = searched(tmp_path, measurer, allowed_s=10_000 * TEST_S, test_limit=6)
    assert {(s.tests, s.ended) for s in campaign.searched.values()} == {(6, EndReason.LIMIT)}
    assert campaign.replayed == 0


def test_the_same_command_continues_later(tmp_path, monkeypatch):
    measurer = Clock(monkeypatch)
    searched(tmp_path, measurer, allowed_s=INPUTS * 4 * TEST_S, test_limit=8)
    first = len(measurer.asked)
    again = searched(tmp_path, measurer, allowed_s=10_000 * TEST_S, test_limit=8)
    assert len(set(measurer.asked)) == len(measurer.asked), "nothing is measured twice"
    assert len(measurer.asked) > first
    assert {search.tests for search in again.searched.values()} == {8}


def test_an_interrupted_stage_knows_what_the_database_answers(tmp_path):
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    with pytest.raises(KeyboardInterrupt):
        ran(spec, database, FormulaMeasurer(stop_after=4), test_limit=9)
    stages = ran(spec, database, test_limit=9).tests.stages
    assert [(steps, stored) for _, steps, stored in stages[:2]] == [(9, 4), (9, 0)]
