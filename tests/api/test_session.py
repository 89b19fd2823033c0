"""`harness.session`: the caller decides what is measured; it is verified, stored and judged."""

import random

import numpy as np
import pytest

import harness
from harness.core.records import Input, Outcome
from tests.helpers.replays import RECORDED, FormulaMeasurer, formula_s, write_recording, write_space

FIRST, SECOND = Input({"m": 64, "n": 4096}), Input({"m": 4096, "n": 64})
FAILS = {"BLOCK": 16, "TILE": 2}
"""A configuration that the formula lets fail."""


def fails(problem, config):
    """The formula, but for one configuration."""
    is_failure = all(config[name] == value for name, value in FAILS.items())
    return float("inf") if is_failure else formula_s(problem, config)


@pytest.fixture
def opening(tmp_path, monkeypatch):
    """Open a session on a measurer by formula, in the same database each time."""
    space = write_space(tmp_path)

    def open_session(measurer, **arguments):
        devices = {"": measurer}, "a test"
        monkeypatch.setattr("harness.api.running.open_measurers", lambda *_: devices)
        chosen = {"database": "r.db", "test_limit": 8, "progress": False} | arguments
        return harness.session(space, **chosen | {"database": tmp_path / chosen["database"]})

    return open_session


def test_it_asks_as_a_search_does_and_ends_as_tune_does(opening):
    measurer = FormulaMeasurer(interleaves=True)
    with opening(measurer) as s:
        asked = []
        while (config := s.ask()) is not None:
            assert s.ask() == config, "the same until it is measured"
            asked.append((s.input, s.measure(config)))
    assert [problem for problem, _ in asked] == [FIRST] * 8 + [SECOND] * 8
    assert asked[0][1].config["BLOCK"] == 256, "the default comes first"
    assert measurer.asked[:16] == [(m.input, m.config) for _, m in asked]
    assert {r.problem for r in s.results.inputs if r.measured} == {FIRST, SECOND}
    finals = s.results.inputs[0].best
    assert finals.timing.occasions, "the best were measured again, on several occasions"


def test_what_a_caller_makes_up_is_measured_and_learnt_from(opening):
    measurer = FormulaMeasurer(fails)
    with opening(measurer) as s:
        first = s.ask()
        failed = s.measure(FAILS, SECOND)
        assert (failed.input, failed.outcome) == (SECOND, Outcome.BUILD_FAILED)
        assert failed.message == "as the formula has it"
        assert s.best is None
        own = s.measure({"BLOCK": np.int64(512)}, {"m": 64, "n": 4096})
        assert own.config["BLOCK"] == 512
        assert own.config["DEPTH"] == 8, "the default of what is left out"
        assert s.measure({"BLOCK": 512}) == own, "it is not measured twice"
        assert s.ask() == first, "it waits"
        assert s.best == own
    assert len(set(measurer.asked)) == len(measurer.asked)
    rows = s.results.measurements()
    assert (rows["outcome"] == "build_failed").sum() == 1


def test_the_same_code_continues_after_it_was_interrupted(opening):
    def drive(measurer, name):
        """Ask and make up configurations in turn, on two inputs in turn; return what was asked."""
        asked = []
        with opening(measurer, database=name) as s:
            for tile in (1, 2, 3):
                for problem in s.inputs:
                    s.measure({"BLOCK": 64, "TILE": tile, "DEPTH": tile}, problem)
                    asked.append((problem, s.ask()))
                    s.measure(asked[-1][1])
        return asked

    proposed = drive(FormulaMeasurer(), "whole.db")
    killed, rest = FormulaMeasurer(stop_after=7), FormulaMeasurer()
    with pytest.raises(KeyboardInterrupt):
        drive(killed, "cut.db")
    again = drive(rest, "cut.db")
    stored = set(killed.asked)
    assert not stored & set(rest.asked), "nothing is measured twice"
    left = [asked for asked in proposed if asked[0] == FIRST and asked not in stored]
    assert again[0] == left[0], "the search goes on where it was"


def test_what_cannot_be_measured_is_refused_with_the_reason(opening):
    illegal = {"TILE": 2, "UNROLL": 8}
    with opening(FormulaMeasurer()) as s:
        for config, reason in (
            (illegal, "UNROLL <= TILE"),
            ({"BLOCKS": 16}, "`BLOCKS`"),
            ({"BLOCK": 17}, "BLOCK=17"),
            ({"BLOCK": [16]}, "must be a bool"),
            (None, "got None"),
        ):
            with pytest.raises(harness.HarnessError, match=reason):
                s.measure(config)
        with pytest.raises(harness.HarnessError, match=r"m=1, n=1"):
            s.ask({"m": 1, "n": 1})
        with pytest.raises(harness.HarnessError, match="BLOCK=17"):
            s.nearest({"BLOCK": 17})
        near = s.nearest(illegal)
        assert near["UNROLL"] <= near["TILE"]
        assert s.nearest(near) == near
        s.measure(near)
    with pytest.raises(harness.HarnessError, match="has ended"):
        s.ask()
    with (
        pytest.raises(harness.HarnessError, match="`validate`, `parallelism`"),
        opening(FormulaMeasurer(), parallelism=4),
    ):
        pass


def test_the_caller_keeps_its_own_random_numbers(opening):
    def drawn(*, asks):
        random.seed(3)
        np.random.seed(3)
        numbers = []
        with opening(FormulaMeasurer(), database="random.db") as s:
            for _ in range(3):
                if asks:
                    s.measure(s.ask())
                numbers += [random.random(), np.random.random()]
        return numbers

    assert drawn(asks=True) == drawn(asks=False)


def test_a_session_without_a_measurement_has_no_results(opening):
    with opening(FormulaMeasurer()) as s:
        assert list(s.parameters["TILE"]) == [1, 2, 3, 4, 6, 8]
    assert s.results is None


def test_a_recording_takes_the_place_of_a_device(tmp_path):
    space, recording = write_recording(tmp_path, RECORDED)
    with harness.session(
        space, recording=recording, database=tmp_path / "r.db", test_limit=3, progress=False
    ) as s:
        while (config := s.ask()) is not None:
            assert s.measure(config).outcome is not Outcome.LAUNCH_FAILED
    assert "replay" in s.results.stored.campaign.environment.backend
