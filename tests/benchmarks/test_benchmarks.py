"""The comparison of searches: its tests, its figures, and each tuner on a small space."""

import itertools
import json
import math
from dataclasses import astuple

import numpy as np
import pytest

from benchmarks import search
from benchmarks.peers import contest, entrants
from benchmarks.peers.landscape import Course, landscapes
from benchmarks.peers.ours import transfer_sources
from benchmarks.recordings import RecordingFile
from benchmarks.search_figures import Searches, as_json, bootstrap, overall, padded
from harness.core.errors import UsageError
from harness.recordings.replay import ListedSpace, read_recording


def searches(*courses, budget=4, optimum_s=1.0):
    return Searches(padded(courses, budget), optimum_s)


def test_interval_contains_the_mean_and_widens_with_different_spaces():
    alike, apart = np.full((4, 5), 0.7), np.array([[0.5] * 5, [0.5] * 5, [0.9] * 5, [0.9] * 5])
    assert astuple(bootstrap(alike)) == pytest.approx((0.7, 0.7, 0.7))
    found = bootstrap(apart)
    assert 0.5 <= found.low < 0.6 < 0.8 < found.high <= 0.9
    assert bootstrap(apart) == found


def test_overall_is_over_spaces_and_seeds_with_the_best_first():
    slow = searches([4.0] * 25, [2.0] * 25, budget=25)
    fast = searches([1.0] * 25, [1.0] * 25, budget=25)
    found = overall({"slow": {"x": slow, "y": fast}, "fast": {"x": fast, "y": fast}}, 25)
    assert list(found) == ["fast", "slow"]
    assert found["slow"].at[25].value == pytest.approx((0.25 + 0.5 + 1 + 1) / 4)
    assert as_json(found["slow"]) == {
        "at_25": 0.6875, "tests_to_5pct": None, "spaces": 2,
    }  # fmt: skip
    assert as_json(found["fast"])["tests_to_5pct"] == 1.0


@pytest.fixture
def recording(tmp_path):
    """Write a cache of 22 points, 8 of them failed; only the optimum (16, 1) is near itself."""
    cache = {}
    for bx, tile in itertools.product([128, 64, 32, 16], range(1, 9)):
        if bx * tile <= 256:
            time = "InvalidConfig" if (bx + tile) % 3 == 0 else 1 + bx * tile / 100
            cache[f"{bx},{tile},5"] = {"BX": bx, "TILE": tile, "FIXED": 5, "time": time}
    listed = {"BX": [16, 32, 64, 128], "TILE": list(range(1, 9)), "FIXED": [5]}
    recorded = {
        "device_name": "a GPU",
        "kernel_name": "small",
        "problem_size": [64],
        "tune_params": listed,
        "tune_params_keys": list(listed),
        "cache": cache,
    }
    path = tmp_path / "small.json"
    path.write_text(json.dumps(recorded))
    return path


@pytest.fixture
def landscape(recording):
    (found,) = landscapes(read_recording(recording))
    return found


def peer(tuner, landscape, scratch):
    if tuner and entrants.why_lacking(tuner):
        pytest.skip(f"{tuner} is not installed: pip install -e '.[bench]'")
    return entrants.prepared(tuner, landscape, scratch, ())


ENTRANTS = [
    *itertools.product([""], ("auto", "opentuner", "UniformRandom", "HillClimb")),
    *itertools.product(["kernel_tuner"], ("adaptive_tabu_greywolf", "pso", "random_sample")),
    *itertools.product(["pyatf"], ("AUCBandit", "Random")),
]


@pytest.mark.parametrize("tuner, technique", ENTRANTS)
def test_tuner_tests_recorded_configurations_within_its_budget(
    landscape,
    tmp_path,
    monkeypatch,
    tuner,
    technique,
):
    found = peer(tuner, landscape, tmp_path)
    one, again = Course(12), Course(12)
    found.search(technique, 3, one)
    found.search(technique, 3, again)
    assert list(one.tested) == list(again.tested)
    assert len(one.best_s) == len(one.tested) == 12 or technique == "HillClimb"
    times_s = [landscape.times_s[point] for point in one.tested]
    assert one.best_s == list(itertools.accumulate(times_s, min))
    assert any(math.isinf(time_s) for time_s in times_s), "failures cost a test"
    assert one.own_s == sorted(one.own_s)
    assert one.own_s[-1] > 0


def test_our_searches_do_not_start_from_the_first_row_of_the_file(landscape, tmp_path):
    found = peer("", landscape, tmp_path)
    courses = [Course(1) for _ in range(8)]
    for seed, course in enumerate(courses):
        found.search("auto", seed, course)
    assert len({course.best_s[0] for course in courses}) > 1


def test_warm_start_learns_only_from_the_same_kernel_on_other_devices(
    recording, landscape, tmp_path
):
    space = ListedSpace(landscape.recorded, landscape.problem)
    other = tmp_path / "other.json"
    other.write_text(recording.read_text().replace("a GPU", "another GPU"))
    found = transfer_sources(landscape, [RecordingFile(recording), RecordingFile(other)])
    learnt = found.data_for(space, landscape.problem, {})
    assert learnt is not None
    assert [len(source.times_s) for source in learnt.sources] == [22]
    with pytest.raises(UsageError, match="has no recording of small on another device"):
        transfer_sources(landscape, [RecordingFile(recording)])


def test_command_ends_with_one_json_object_and_resumes_from_its_files(
    recording,
    tmp_path,
    capsys,
    monkeypatch,
):
    """A killed run leaves a journal of the finished searches."""
    titles = []

    def here(run, jobs, *_):
        for job in jobs:
            titles.append(f"{job.entrant} {job.seeds}")
            yield run(job)

    monkeypatch.setattr(contest, "in_processes", here)
    output = tmp_path / "out"
    command = [str(recording), "--only", "UniformRandom", "--seeds", "2", "--budget", "25"]
    command += ["--output", str(output)]
    assert search.main(command) == 0
    first = capsys.readouterr()
    (figures,) = json.loads(first.out.splitlines()[-1]).values()
    assert 1 <= figures.pop("tests_to_5pct") <= 22
    assert figures == {"at_25": 1.0, "spaces": 1}
    assert titles == ["UniformRandom (0, 1)"]
    lines = (output / "figures.csv").read_text().splitlines()
    assert lines[0] == "space,technique,median_at_25,tests_to_5pct,score"
    assert lines[-1].startswith("small,UniformRandom,1.0000,")
    assert search.main(command) == 0
    assert capsys.readouterr().out == first.out
    assert len(titles) == 1, "nothing is searched again"
    journal = output / "searches.jsonl"
    journal.write_text(journal.read_text()[:-40])
    assert search.main(command) == 0
    rest = capsys.readouterr()
    assert rest.out == first.out
    assert "1 of 2 searches were in " in rest.err
    assert titles[1:] == ["UniformRandom (1,)"]
    assert (output / "figures.csv").read_text().splitlines() == lines
