"""Inputs that a campaign chooses itself where it is unsure; the database keeps their order."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.api.workload import WorkloadChoice, with_inputs_of
from harness.core.errors import SpecError
from harness.core.records import Config, Environment, Input
from harness.dispatch.enough_inputs import learning_curve
from harness.dispatch.matrix import Matrix, make_matrix
from harness.dispatch.next_inputs import (
    ExpectedLoss,
    distances,
    draw_by_weight,
    draw_without_replacement,
)
from harness.recordings.replay import ReplayMeasurer
from harness.results.view import read_results
from harness.space import ConstrainedSpace
from harness.space_file.inputs import select_inputs
from harness.tuning import Stages
from tests.helpers.replays import FormulaMeasurer, formula_s, make_spec, opened, recorded
from tests.tuning.test_several_devices import Scripted, equal

SPACE = """\
name: adaptive
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256, 1024], role: launch, default: 64}
  TILE: {values: [1, 2], default: 1}
launch: {group: [BLOCK], grid: [n]}
inputs:
  features: [m, n]
  ranges: {m: {log: [16, 65536]}, n: {log: [16, 65536]}}
  where: m * n <= 2**28
  count: 6
  adaptive: {most: 9}
search: {technique: UniformRandom, test_limit: 4}
"""


def by_ratio(problem: Input, config: Config) -> float:
    """Wide inputs want small blocks, by a boundary that is not parallel to a feature."""
    m, n, block = int(str(problem["m"])), int(str(problem["n"])), int(str(config["BLOCK"]))
    best = 16 if n > m**1.3 else 1024 if n * 4 < m else 256
    return 1e-3 * (1 + abs(np.log2(block / best))) * (1 + 0.1 * int(str(config["TILE"])))


def always_the_same(problem: Input, config: Config) -> float:
    """One configuration is the fastest everywhere."""
    return 1e-3 * int(str(config["BLOCK"])) * int(str(config["TILE"])) / int(str(problem["m"]))


def tuned(folder: Path, times: Any = by_ratio, text: str = SPACE, **options: Any) -> Any:
    """Run a campaign, perhaps until it is stopped; return its inputs and what it says of them."""
    stop_after = options.pop("stop_after", None)
    spec, measurer = make_spec(folder, text), FormulaMeasurer(times, stop_after)
    options = {"technique": ["UniformRandom"], "test_limit": 4} | options
    with opened(spec, folder / "results.db", measurer, **options) as (campaign, _):
        with suppress(KeyboardInterrupt):
            campaign.run()
        return campaign.spec.inputs, " ".join(campaign.describe_added_inputs())


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """A campaign that was not stopped: its database, its inputs, and what it says of them."""
    folder = tmp_path_factory.mktemp("once")
    return folder / "results.db", *tuned(folder)


def test_inputs_are_chosen_up_to_the_most(tmp_path: Path, once: tuple[Path, Any, str]) -> None:
    database, inputs, said = once
    assert len(set(inputs)) == 9
    assert inputs[:6] == make_spec(tmp_path, SPACE).inputs
    assert all(int(p["m"]) * int(p["n"]) <= 2**28 for p in inputs)
    assert "chose 3 inputs after the first 6" in said
    assert "since 9 inputs are the most (inputs.adaptive.most)" in said
    (results,) = read_results(str(database))
    assert results.commands[0].inputs == inputs
    assert set(results.measured) == set(inputs)


@pytest.mark.parametrize("share", [0.3, 0.75, 0.9])
def test_a_stopped_campaign_goes_on_with_the_same_inputs(
    tmp_path: Path, once: tuple[Path, Any, str], share: float
) -> None:
    (results,) = read_results(str(once[0]))
    stop_after = int(share * sum(map(len, results.measured.values())))
    part, said = tuned(tmp_path, stop_after=stop_after)
    assert part == once[1][: len(part)]
    assert "harness chose no inputs" in said
    assert tuned(tmp_path)[0] == once[1]


def test_another_seed_chooses_others(tmp_path: Path, once: tuple[Path, Any, str]) -> None:
    assert tuned(tmp_path, seed=1)[0] != once[1]


def test_inputs_of_a_workload_are_chosen_by_their_calls(tmp_path: Path) -> None:
    """Wide ones are frequent; those that nobody calls are as many."""
    wide = [Input({"m": 16 << step, "n": 65536 >> step}) for step in range(12)]
    rare = [Input({"m": 1000 + step, "n": 7}) for step in range(200)]
    lines = [f"{p['m']},{p['n']},{10_000 if p in wide else 1}" for p in [*wide, *rare]]
    calls = tmp_path / "calls.csv"
    calls.write_text("\n".join(["m,n,calls", *lines]) + "\n")
    choice = WorkloadChoice(calls, most=9)

    def again(stop_after: int | None = None) -> Any:
        database, space = str(tmp_path / "results.db"), make_spec(tmp_path, SPACE)
        spec, _ = with_inputs_of(space, choice, database, fresh=False)
        measurer = FormulaMeasurer(by_ratio, stop_after)
        options: dict[str, Any] = {"technique": ["UniformRandom"], "test_limit": 4}
        with opened(spec, Path(database), measurer, **options) as (campaign, _):
            with suppress(KeyboardInterrupt):
                campaign.run()
            return campaign.spec.inputs, " ".join(campaign.describe_added_inputs())

    part, _ = again(stop_after=30)
    assert 4 < len(part) < 9
    whole, said = again()
    assert whole[: len(part)] == part
    assert len(set(whole)) == 9
    assert set(whole) <= set(wide)
    assert "since 9 inputs are the most (--most-inputs)" in said


def test_few_inputs_of_a_workload_are_all_tuned(tmp_path: Path) -> None:
    calls = tmp_path / "calls.csv"
    calls.write_text("m,n,calls\n16,16,1\n16,32,1\n32,16,1\n")
    space, database = make_spec(tmp_path, SPACE), str(tmp_path / "results.db")
    spec, _ = with_inputs_of(space, WorkloadChoice(calls, 1.0, 4), database, fresh=False)
    assert len(spec.inputs) == 3
    assert spec.adaptive is None


def test_no_input_is_added_where_one_configuration_is_the_best(tmp_path: Path) -> None:
    text = SPACE.replace("count: 6", "count: 16").replace("most: 9", "most: 20")
    inputs, said = tuned(tmp_path, always_the_same, text)
    assert len(inputs) == 16
    assert "twice the inputs would gain at most 2 %" in said
    assert "1.000x [1.000, 1.000] the time of the best known" in said


def test_an_input_is_chosen_for_each_device(tmp_path: Path, once: tuple[Path, Any, str]) -> None:
    spec = make_spec(tmp_path, SPACE)
    devices = equal(Scripted("GPU-0"), Scripted("GPU-1"))
    options: dict[str, Any] = {"technique": ["UniformRandom"], "test_limit": 4}
    with opened(spec, tmp_path / "results.db", devices, **options) as (campaign, _):
        campaign.run()
    inputs = campaign.spec.inputs
    assert len(set(inputs)) == 9
    assert inputs[:6] == once[1][:6]
    alone = tuned(tmp_path, formula_s)[0]
    assert set(alone) == set(inputs)  # one device goes on with them


def test_of_a_recording_only_its_inputs_are_chosen(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, SPACE)
    more = make_spec(tmp_path, SPACE.replace("count: 6", "count: 8")).inputs
    measured = {
        (problem, config): recorded(by_ratio, problem, config)
        for problem in more
        for config in ConstrainedSpace.of(spec, problem, None)
    }
    environment = Environment("replay", "formula", "none", "recorded", "recorded")
    measurer = ReplayMeasurer(measured, environment)
    options: dict[str, Any] = {"technique": ["UniformRandom"], "test_limit": 4}
    with opened(spec, tmp_path / "results.db", measurer, **options) as (campaign, _):
        campaign.run()
        assert set(campaign.spec.inputs) == set(more)
        assert "no more inputs to choose from" in " ".join(campaign.describe_added_inputs())


def test_without_the_winners_times_everywhere_none_is_chosen(tmp_path: Path) -> None:
    inputs, said = tuned(tmp_path, stages=Stages(cross=False))
    assert len(inputs) == 6
    assert "--no-cross" in said


def test_a_condition_holds_for_the_chosen_ones_too(tmp_path: Path) -> None:
    spec = select_inputs(make_spec(tmp_path, SPACE), "m <= 4096")
    assert spec.adaptive is not None
    assert max(int(str(p["m"])) for p in spec.adaptive.pool.weights()) <= 4096
    assert all(int(str(p["m"])) * int(str(p["n"])) <= 2**28 for p in spec.adaptive.pool.weights())


@pytest.mark.parametrize(("condition", "more"), [("m > 0", 3), ("m <= 20 and n <= 24", 2)])
def test_no_more_inputs_are_announced_than_there_are(
    tmp_path: Path, condition: str, more: int
) -> None:
    spec = make_spec(tmp_path, SPACE.replace("m * n <= 2**28", condition))
    assert spec.adaptive is not None
    assert spec.adaptive.most_more(spec.inputs) == more


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("most: 9", "most: 6", r"must be above `count` \(6\), but is 6"),
        ("most: 9", "most: 2000", "1000"),
        ("most: 9", "error: 0.1", "most"),
        ("most: 9", "most: 9, error: 2", "less than 1"),
        ("most: 9", "most: 9, eror: 0.1", "error"),
    ],
)
def test_faults_name_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_spec(tmp_path, SPACE.replace(old, new))
    assert re.search(message, str(caught.value))
    assert "adaptive" in str(caught.value)


def test_a_list_of_inputs_has_nothing_to_choose_from(tmp_path: Path) -> None:
    listed = re.sub(r"  ranges:.*\n  where:.*\n  count: 6", "  values: [{m: 1, n: 2}]", SPACE)
    with pytest.raises(SpecError, match="`adaptive` goes with `ranges`, not with `values`"):
        make_spec(tmp_path, listed)


# ----------------------------------------------------------------------- the choice itself


def line(points: list[float], boundary: float = 100.0) -> Matrix:
    """Two candidates, of which one is twice as fast up to a boundary, the other one beyond."""
    n = np.array(points)
    time_s = np.where((n <= boundary)[:, None], [[1.0, 2.0]], [[2.0, 1.0]])
    candidates = [Config({"BLOCK": 16}), Config({"BLOCK": 64})]
    return make_matrix(pd.DataFrame({"n": n}), candidates, time_s, default=0)


def test_a_loss_is_expected_near_the_boundary() -> None:
    others = pd.DataFrame({"n": [10.0, 90.0, 110.0, 900.0]})
    matrix = line([5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0])
    loss = ExpectedLoss.learn(matrix, 0).of(others, np.ones((4, 2), dtype=bool))
    assert loss[[1, 2]].min() > 2 * loss[[0, 3]].max()
    assert (loss <= np.log(2)).all()


def test_no_loss_is_expected_where_one_candidate_applies() -> None:
    matrix = line([10.0, 20.0, 200.0, 400.0])
    others = pd.DataFrame({"n": [90.0, 110.0, 90.0]})
    applies = np.array([[True, False], [False, True], [False, False]])
    assert ExpectedLoss.learn(matrix, 0).of(others, applies).tolist() == [0.0, 0.0, 0.0]


def test_no_loss_is_expected_between_equals() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0])
    candidates = [Config({"BLOCK": 16}), Config({"BLOCK": 64})]
    matrix = make_matrix(pd.DataFrame({"n": n}), candidates, np.ones((4, 2)), default=0)
    others = pd.DataFrame({"n": [3.0]})
    loss = ExpectedLoss.learn(matrix, 0).of(others, np.ones((1, 2), dtype=bool))
    assert loss.tolist() == [0.0]


def test_distances_are_to_the_nearest_tuned_input() -> None:
    tuned_ones = pd.DataFrame({"n": [1, 1024], "layout": ["a", "a"]})
    others = pd.DataFrame({"n": [1, 2, 512, 512], "layout": ["a", "a", "a", "b"]})
    found = distances(tuned_ones, others)
    assert found[0] == 0
    assert found[1] == pytest.approx(found[2])
    assert found[3] > found[2]


def test_draws_follow_the_shares_and_repeat_none() -> None:
    shares, others = np.array([0.0, 3.0, 1.0, 0.0]), np.ones(4)
    draws = [draw_without_replacement(shares, others, 1, seed)[0] for seed in range(400)]
    assert set(draws) == {1, 2}
    assert 0.68 < draws.count(1) / 400 < 0.82  # 3 of 4, within three deviations
    assert sorted(draw_without_replacement(shares, others, 9, 0)) == [0, 1, 2, 3]
    assert set(draw_without_replacement(shares, others, 2, 0)) == {1, 2}


def test_weights_are_chances() -> None:
    indices, counts = draw_by_weight([1.0, 0.0, 3.0], 0)
    assert indices.tolist() == [0, 2]
    assert counts[1] / counts.sum() == pytest.approx(0.75, abs=0.06)


def test_the_gain_of_more_inputs_falls() -> None:
    few = learning_curve(line(np.geomspace(10, 1000, 32).tolist()), 0)
    many = learning_curve(line(np.geomspace(10, 1000, 96).tolist()), 0)
    assert few is not None
    assert many is not None
    assert few.gain is not None
    assert many.gain is not None
    assert many.gain.high < few.gain.high
    assert many.slowdown.value < few.slowdown.value
    assert many.is_enough(0.1)
    assert not few.is_enough(0.001)


def test_few_inputs_say_little() -> None:
    assert learning_curve(line(np.geomspace(10, 1000, 15).tolist()), 0) is None
    some = learning_curve(line(np.geomspace(10, 1000, 31).tolist()), 0)
    assert some is not None
    assert some.gain is None
