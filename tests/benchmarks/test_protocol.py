"""The score of searches by the field's protocol, beside figures of its own package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import protocol
from benchmarks.peers.contest import Job, LandscapeRef, run
from benchmarks.peers.entrants import Entrant
from benchmarks.peers.landscape import BudgetSpent, Course
from benchmarks.protocol import LimitedCourse, ProtocolTime, scored_space
from benchmarks.protocol_score import RecordedCosts, TimedCourse, score
from benchmarks.recordings import RecordingFile
from harness.core.errors import UsageError


def planted() -> RecordedCosts:
    """400 configurations, of which a tenth fail."""
    rng = np.random.default_rng(7)
    objective = np.exp(np.abs(rng.normal(0, 0.8, 400)))
    cost_s = 0.4 + 0.05 * objective + rng.random(400) * 0.2
    objective[rng.random(400) < 0.1] = np.nan
    return RecordedCosts(objective, cost_s)


def searches(space: RecordedCosts, greed: float) -> list[TimedCourse]:
    """25 searches that prefer good configurations by this much; each test costs them 10 ms."""
    rng = np.random.default_rng(3)
    known = np.log(np.where(np.isnan(space.objective), 9.0, space.objective))
    found = []
    for _ in range(25):
        order = np.argsort(greed * known + rng.random(len(known)))
        count = int((space.cost_s[order].cumsum() <= space.budget.last_s * 1.1).sum()) + 1
        found.append(TimedCourse(order[:count].tolist(), (0.01 * np.arange(1, count + 1)).tolist()))
    return found


def test_budget_is_that_of_the_package() -> None:
    budget = planted().budget
    assert (budget.first, budget.last) == (1, 16)
    assert (budget.first_s, budget.last_s) == pytest.approx((0.5928905619862821, 9.486248991780514))


def test_random_search_is_that_of_the_package() -> None:
    space = planted()
    assert space.mean_s == pytest.approx(0.6734375776775228)
    assert space.random_search().mean() == pytest.approx(1.1129918120399982)


@pytest.mark.parametrize(("greed", "expected"), [(0.0, -0.0773), (0.15, 0.7606), (0.5, 0.8997)])
def test_score_is_that_of_the_package(greed: float, expected: float) -> None:
    """The package's is the mean of 30 draws of autotuning_methodology 1.1.0."""
    space = planted()
    assert score(space, searches(space, greed)) == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_own_time_of_a_tuner_lowers_its_score() -> None:
    space = planted()
    quick = searches(space, 0.15)
    slow = [TimedCourse(c.tested, [100 * own_s for own_s in c.own_s]) for c in quick]
    assert score(space, slow) < score(space, quick) - 0.1


# ------------------------------------------------------------------------------------ recordings


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache file of Kernel Tuner with 96 configurations; a test costs 10 s of compilation."""
    entries = {}
    for block in (16, 32, 64, 128, 256, 512):
        for tile in range(1, 17):
            time = 1 + abs(np.log2(block) - 6) + abs(tile - 5) / 3
            entry: dict[str, object] = {"BLOCK": block, "TILE": tile, "time": time}
            entry |= {"times": [time] * 4, "compile_time": 1e4, "verification_time": 0}
            if block * tile > 4096:
                entry |= {"time": "RuntimeFailedConfig", "times": []}
            entries[f"{block},{tile}"] = entry | {"strategy_time": 0, "framework_time": 5}
    tuned = {"BLOCK": [16, 32, 64, 128, 256, 512], "TILE": list(range(1, 17))}
    document = {
        "device_name": "a device",
        "kernel_name": "planted",
        "problem_size": [1],
        "tune_params_keys": list(tuned),
        "tune_params": tuned,
        "objective": "time",
        "cache": entries,
    }
    path = tmp_path / "planted.json"
    path.write_text(json.dumps(document))
    return path


def ref_of(cache: Path) -> LandscapeRef:
    return LandscapeRef(RecordingFile(cache), 0)


def test_search_ends_when_its_time_is_spent(cache: Path, tmp_path: Path) -> None:
    space = scored_space(ref_of(cache))
    assert space.costs.cost_s[0] == pytest.approx(10.005 + 4e-3 * space.costs.objective[0])
    path = tmp_path / "searches.jsonl"
    run(Job(ref_of(cache), Entrant("", "UniformRandom"), (0,), ProtocolTime(), (), path))
    (row,) = map(json.loads, path.read_text().splitlines())
    limit = int(1.1 * space.costs.budget.last) + 1
    assert len(row["tested"]) == len(set(row["tested"])) == len(row["own_s"]) == limit
    assert all(0 <= index < 96 for index in row["tested"])


def test_own_time_counts_towards_the_budget(cache: Path) -> None:
    space = scored_space(ref_of(cache))
    course: Course = LimitedCourse(96, space=space)
    course.note(space.points[0], 1.0, own_s=1.0)
    with pytest.raises(BudgetSpent):
        course.note(space.points[1], 1.0, own_s=1.1 * space.costs.budget.last_s)
    assert len(course.tested) == 2


def test_recording_without_the_times_of_each_step_is_refused(cache: Path) -> None:
    document = json.loads(cache.read_text())
    for entry in document["cache"].values():
        del entry["compile_time"]
    cache.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"planted\.json: is no cache file of Kernel Tuner with"):
        scored_space(ref_of(cache))


@pytest.mark.slow
def test_searches_are_scored(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [str(cache), "--only", "UniformRandom", "--repeats", "2", "--jobs", "1", "--output"]
    assert protocol.main([*command, str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["UniformRandom"]
    assert found["mean"] == next(iter(found.values()))
    assert -3 < found["mean"] < 1, "two searches scatter widely"
