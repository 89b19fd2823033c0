"""Under a time limit the inputs share the time breadth first; a clock is simulated."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.core.records import Config, Input
from harness.search import EndReason
from harness.space_file import Spec
from harness.tuning import Campaign
from tests.helpers.replays import SPACE, FormulaMeasurer, Times, formula_s, make_spec, opened

INPUTS = 6
TEST_S = 1.0


class Clock(FormulaMeasurer):
    """A measurer for which each measurement takes a second of a simulated clock."""

    now_s = 0.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: Times = formula_s) -> None:
        super().__init__(times)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        """Let the time pass, and return the formula's time."""
        self.now_s += TEST_S
        return super().measure(space, problem, config, best_s)


def spec_of(folder: Path) -> Spec:
    values = ", ".join(f"{{m: {2 ** (i % 4)}, n: {64 + i}}}" for i in range(INPUTS))
    return make_spec(folder, SPACE.replace("{m: 64, n: 4096}, {m: 4096, n: 64}", values))


def searched(
    folder: Path, measurer: Clock, allowed_s: float, **options: Any
) -> tuple[Campaign, list[Config]]:
    """Tune for a time; return the campaign, and the default of each input."""
    spec = spec_of(folder)
    stop_at = measurer.now_s + allowed_s
    with opened(spec, folder / "r.db", measurer, stop_at=stop_at, **options) as (campaign, _):
        campaign.run()
        return campaign, [campaign.space(problem).default for problem in spec.inputs]


def counts(measurer: Clock, tests: int | None = None) -> list[int]:
    """The number of the first `tests` measurements on each input, most first."""
    found = Counter(problem for problem, _ in measurer.asked[:tests])
    return [found[problem] for problem, _ in measurer.asked[:INPUTS]]


def test_every_input_gets_its_default_before_any_gets_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurer = Clock(monkeypatch)
    campaign, defaults = searched(tmp_path, measurer, allowed_s=INPUTS * TEST_S)
    assert [config for _, config in measurer.asked] == defaults
    assert counts(measurer) == [1] * INPUTS
    assert {found.ended for found in campaign.searched.values()} == {EndReason.TIME}


def test_every_input_gets_the_best_few_of_the_others_before_any_gets_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(problem: Input, config: Config) -> float:
        """The default is the slowest on the last input, and the fastest on the others."""
        is_last, is_default = problem["n"] == 64 + INPUTS - 1, config["DEPTH"] == 8
        return 1.0 if is_last is not is_default else 2.0

    measurer = Clock(monkeypatch, times)
    campaign, _ = searched(tmp_path, measurer, allowed_s=8 * INPUTS * TEST_S)
    first, last = campaign.spec.inputs[0], campaign.spec.inputs[-1]
    asked = [config for problem, config in measurer.asked if problem == first]
    winner = next(c for p, c in measurer.asked if p == last and times(p, c) == 1.0)
    assert asked.index(winner) < 4 + 3, "a first round, and the best few of the others"


def test_no_input_is_left_unmeasured_where_there_is_time_for_two_tests_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurer = Clock(monkeypatch)
    campaign, _ = searched(tmp_path, measurer, allowed_s=2.5 * INPUTS * TEST_S)
    assert min(counts(measurer)) >= 1
    assert all(campaign.state.best(problem) for problem in campaign.spec.inputs)


def test_a_search_in_rounds_ends_with_as_many_tests_as_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurer = Clock(monkeypatch)
    campaign, _ = searched(tmp_path, measurer, allowed_s=10_000 * TEST_S, test_limit=12)
    assert {(f.tests, f.ended) for f in campaign.searched.values()} == {(12, EndReason.LIMIT)}
    assert campaign.state.replayed == 0, "what an earlier round measured was not stored before"


def test_the_same_command_continues_a_search_in_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurer = Clock(monkeypatch)
    searched(tmp_path, measurer, allowed_s=3 * INPUTS * TEST_S, test_limit=12)
    first = len(measurer.asked)
    again, _ = searched(tmp_path, measurer, allowed_s=10_000 * TEST_S, test_limit=12)
    assert len(set(measurer.asked)) == len(measurer.asked), "nothing is measured twice"
    assert len(measurer.asked) > first
    assert {found.tests for found in again.searched.values()} == {12}
