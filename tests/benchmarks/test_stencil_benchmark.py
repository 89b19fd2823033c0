"""benchmarks/stencil.py: what its predictors may know, a small campaign, and what stops one."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from benchmarks import stencil, stencil_campaign, stencil_predictors
from benchmarks.stencil_predictors import (
    leave_one_program_out,
    pca_knn,
    runs_at_random,
    runs_to_good,
)
from harness.stencil import predicted
from harness.stencil.features import FEATURES, OWN, PUBLISHED
from tests.helpers.stencil_kernels import made_times

COMMAND = ["--programs", "gradient", "srad1", "--sizes", "32", "--count", "5", "--repeats", "1"]


def test_the_predicted_program_is_not_training_data():
    """Changing its times changes none of its predictions."""
    table = made_times()
    other = table.assign(
        time_s=table["time_s"].where(table["program"] != "p0", 1 / table["time_s"])
    )
    own = (table["program"] == "p0").to_numpy()
    before, after = (leave_one_program_out(pca_knn, t)["score"][own] for t in (table, other))
    assert (before == after).all()


@pytest.mark.slow
def test_the_published_predictor_sees_the_features_of_the_paper_only():
    table = made_times()
    before = leave_one_program_out(pca_knn, table)["score"]
    for name in FEATURES:
        changed = table.assign(**{name: table[name].to_numpy()[::-1]})
        after = leave_one_program_out(pca_knn, changed)["score"]
        assert (before == after).all() == (name in OWN), name


def test_runs_are_counted_until_one_is_within_a_tenth_of_the_best():
    true = np.array([0.2, 1.0, 0.91, 0.89])
    assert runs_to_good(true, np.array([4.0, 1.0, 2.0, 3.0])) == 3
    assert runs_to_good(true, true) == 1
    drawn = np.mean([runs_to_good(true, np.array(o)) for o in itertools.permutations(range(4))])
    assert runs_at_random(true) == pytest.approx(drawn)


@pytest.mark.slow
def test_campaigns_are_measured_and_judged(
    opencl, tmp_path, capsys,
    monkeypatch,
):  # fmt: skip
    monkeypatch.setattr(stencil_predictors, "_POINTS_TO_TIME", 2)
    monkeypatch.setattr(predicted, "_TREES", 10)
    command = [*COMMAND, "--threads", "3", "--campaigns", "2", "--finalists", "2"]
    command += ["--output", str(tmp_path)]
    assert stencil.main(command) == 0
    out = capsys.readouterr().out
    figures = json.loads(out.splitlines()[-1])
    assert figures["campaigns"] == 2
    for name, found in figures["predictors"].items():
        assert found["points"] == 5, name
        assert 1 <= found["runs"]["min"] <= found["runs"]["median"] <= found["runs"]["max"] <= 5
        assert 1 <= found["random_runs"]["median"] <= 3  # (5 + 1) / (1 + 1) at most
    assert figures["most_informative_feature"] in PUBLISHED
    assert all(time_s > 0 for time_s in figures["mean_seconds_a_point"].values())
    assert "forest: medians of 2 campaigns" in out
    assert "private_loads" in out
    table = pd.read_csv(tmp_path / "points.csv")
    assert table.groupby(["campaign", "program"]).size().tolist() == [5] * 4
    assert table["global_stores"].nunique() > 1
    first, second = (set(points["point"]) for _, points in table.groupby("campaign"))
    assert first != second

    def not_again(arguments):
        raise AssertionError(f"{arguments} was measured")

    monkeypatch.setattr(stencil_campaign, "tune_command", not_again)
    assert stencil.main([*command, "--count", "6"]) == 2
    assert "was explored with --count 5 --threads 3 --designs own" in capsys.readouterr().err
