"""The time left is that of the stage; a clock is simulated."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from harness.core.records import Outcome, Timing
from harness.display.time_left import TimeLeft
from tests.helpers.replays import FormulaMeasurer, Tests, make_spec, opened, ran


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def work(self, left: TimeLeft, steps: int, each_s: float = 1.0) -> None:
        for _ in range(steps):
            self.now_s += each_s
            left.worked()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_nothing_is_said_of_a_stage_that_has_only_begun(clock: Clock) -> None:
    left = TimeLeft()
    clock.work(left, 2)
    assert left.text(10) == ""


@pytest.mark.parametrize(
    ("each_s", "text"),
    [(0.1, "about 10 s left"), (6.0, "about 10 min left"), (60, "about 1.7 h left")],
)
def test_the_time_has_a_unit_that_fits(clock: Clock, each_s: float, text: str) -> None:
    left = TimeLeft()
    clock.work(left, 4, each_s)
    assert left.text(100) == text


Stage = tuple[str, int, int]


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[Stage]:
    """The stages that begin, in order."""
    found: list[Stage] = []
    monkeypatch.setattr(Tests, "begin_stage", lambda _, *stage: found.append(stage))
    return found


def test_a_stage_that_was_interrupted_knows_what_the_database_answers(
    tmp_path: Path, stages: list[Stage]
) -> None:
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    with pytest.raises(KeyboardInterrupt):
        ran(spec, database, FormulaMeasurer(stop_after=4), test_limit=9)
    stages.clear()
    ran(spec, database, test_limit=9)
    assert [(steps, stored) for _, steps, stored in stages[:2]] == [(9, 4), (9, 0)]


def test_the_time_of_a_campaign_is_estimated_from_its_first_tests(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first input has 20 tests of 30 s; what is built, takes twice the samples and 30 ms."""

    class Slow(FormulaMeasurer):
        def measure(self, *words: Any) -> Any:
            clock.now_s += 30.0
            found = super().measure(*words)
            timing = Timing((4.0, 4.0, 4.0))
            return dataclasses.replace(found, outcome=Outcome.OK, timing=timing)

    notes: list[str] = []
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", Slow(), test_limit=20) as (campaign, tests):
        monkeypatch.setattr(tests, "note", notes.append)
        campaign.run()
    inputs = len(spec.inputs)
    minutes = (20 * 30 + 24.03 * (inputs * 22.5 - 20)) / 60
    assert notes == [f"about {minutes:.0f} min with 20 tests on each of {inputs} inputs"]
