"""Predictors of throughput: their training data and their evaluation."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import stencil, stencil_campaign, stencil_costs
from benchmarks.stencil_campaign import Campaign, only_environment
from benchmarks.stencil_predictors import (
    PREDICTORS,
    information,
    judged,
    leave_one_program_out,
    pca_knn,
    proven_throughput,
    published_model,
    runs_at_random,
    runs_to_good,
    time_saved,
)
from benchmarks.stencil_tables import COLUMNS, best_points, campaign_medians, figures_of, spread
from harness.commands.run import EXIT_INTERRUPTED
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.measure.devices import Backend
from harness.results import Store, writing
from harness.stencil import predicted
from harness.stencil.features import FEATURES, OWN, PUBLISHED
from harness.stencil.predicted import predicted_order, read_predictor, table_of, throughput


def made(programs: int = 4, points: int = 120, seed: int = 0) -> pd.DataFrame:
    """Programs whose times grow with their loads and cache lines, each on a scale of its own."""
    rng = np.random.default_rng(seed)
    tables = []
    for number in range(programs):
        columns = {name: rng.integers(1, 1000, points).astype(float) for name in FEATURES}
        cost = columns["global_loads"] * columns["cache_lines"] * rng.uniform(0.95, 1.05, points)
        design, time_s = np.arange(points) + number * points, 10.0**-number * cost
        own = {"program": f"p{number}", "size": 4096, "design": design, "time_s": time_s}
        tables.append(pd.DataFrame(columns).assign(**own))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(final_s=table["time_s"])


def test_throughput_is_relative_to_the_best_of_a_program_and_a_size() -> None:
    rows = [("a", 512, 2.0), ("a", 512, 4.0), ("a", 1024, 8.0), ("b", 512, 5.0)]
    table = pd.DataFrame(rows, columns=["program", "size", "time_s"])
    assert throughput(table).tolist() == [1.0, 0.5, 1.0, 1.0]


def test_only_points_with_a_final_time_are_good() -> None:
    """A lucky point of the search is not, and neither is one without a second measurement."""
    table = made(programs=2, points=40)
    lucky = table.index[table["program"] == "p0"][7]
    table.loc[lucky, "time_s"] = table["time_s"].min() / 10
    table.loc[table.index[::2], "final_s"] = np.nan
    proven = proven_throughput(table)
    assert proven.max() == 1
    assert proven[lucky] < 1
    assert (proven[::2] == 0).all()
    assert (
        best_points(table)["final_s"].tolist() == table.groupby("program")["final_s"].min().tolist()
    )
    with pytest.raises(ValueError, match="p0 at size 4096: no point was measured a second time"):
        judged(pca_knn, table.assign(final_s=np.nan))


@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_generalise_to_other_programs(name: str) -> None:
    found = judged(PREDICTORS[name], made(programs=3))
    assert (found["spearman"] > 0.3).all()
    assert (found["pearson"] > 0).all()
    assert found["runs"].sum() < found["random_runs"].sum()


def test_the_predicted_program_is_not_training_data() -> None:
    """Changing its times changes none of its predictions."""
    table = made()
    other = table.assign(
        time_s=table["time_s"].where(table["program"] != "p0", 1 / table["time_s"])
    )
    own = (table["program"] == "p0").to_numpy()
    before, after = (leave_one_program_out(pca_knn, t)["score"][own] for t in (table, other))
    assert (before == after).all()


def test_the_published_predictor_keeps_the_components_with_95_percent_of_the_variance() -> None:
    table = made()
    model = published_model().fit(table[list(PUBLISHED)], throughput(table))
    assert model["pca"].explained_variance_ratio_.sum() >= 0.95
    assert model["pca"].explained_variance_ratio_[:-1].sum() < 0.95
    assert model["kneighborsregressor"].n_neighbors == 5


def test_the_published_predictor_sees_the_features_of_the_paper_only() -> None:
    table = made()
    before = leave_one_program_out(pca_knn, table)["score"]
    for name in FEATURES:
        changed = table.assign(**{name: table[name].to_numpy()[::-1]})
        after = leave_one_program_out(pca_knn, changed)["score"]
        assert (before == after).all() == (name in OWN), name


def test_spearman_is_of_ranks_and_pearson_of_values() -> None:
    table = made(programs=2, points=40)
    found = judged(lambda known, points: throughput(points).to_numpy() ** 9, table)
    assert found["spearman"].tolist() == pytest.approx([1, 1])
    true = throughput(table)[table["program"] == "p0"].to_numpy()
    assert found["pearson"].iloc[0] == pytest.approx(np.corrcoef(true, true**9)[0, 1])
    assert found["pearson"].iloc[0] < 0.99
    constant = judged(lambda known, points: np.ones(len(points)), table)
    assert constant[["spearman", "pearson"]].to_numpy().tolist() == [[0, 0], [0, 0]]


def test_figures_are_medians_of_campaigns_with_their_extremes() -> None:
    """A median over programs first: one bad program in one campaign is not a bad campaign."""
    figures = dict.fromkeys(COLUMNS, 0.5)
    rows = pd.DataFrame(
        [
            {"campaign": campaign, "program": program, "size": 64, "points": 40}
            | figures
            | {"runs": float(runs)}
            for campaign, all_runs in enumerate(((1, 2, 30), (4, 4, 4), (9, 9, 1)))
            for program, runs in zip("abc", all_runs, strict=True)
        ]
    )
    assert campaign_medians(rows)["runs"].tolist() == [2, 4, 9]
    assert figures_of(rows)["runs"] == {"median": 4, "min": 2, "max": 9}
    assert spread(rows["runs"][rows["program"] == "c"]).text(".4g") == "4 [1, 30]"


def test_runs_are_counted_until_one_is_within_a_tenth_of_the_best() -> None:
    true = np.array([0.2, 1.0, 0.91, 0.89])
    assert runs_to_good(true, np.array([4.0, 1.0, 2.0, 3.0])) == 3
    assert runs_to_good(true, true) == 1
    drawn = np.mean([runs_to_good(true, np.array(o)) for o in itertools.permutations(range(4))])
    assert runs_at_random(true) == pytest.approx(drawn)


def test_the_share_of_common_designs_is_reported() -> None:
    table = made(programs=2, points=40)
    assert judged(pca_knn, table)["shared"].tolist() == [0.0, 0.0]
    table.loc[40:49, "design"] = table.loc[0:9, "design"].to_numpy()
    assert judged(pca_knn, table)["shared"].tolist() == [0.25, 0.25]


def test_time_saved_includes_the_model_and_making_every_predicted_point() -> None:
    known = {"runs": 5, "random_runs": 100, "points": 1000, "run_s": 1.0}
    assert time_saved(**known, make_s=0.0, model_s=0.0) == 20
    assert time_saved(**known, make_s=0.01, model_s=0.0) == 101 / 15
    assert time_saved(**known, make_s=0.01, model_s=5.0) == 101 / 20


def test_the_most_informative_feature_comes_first() -> None:
    table = made(points=400)
    table["barriers"] = 3.0
    ranking = information(table)
    assert set(ranking.index[:2]) == {"global_loads", "cache_lines"}
    assert ranking["barriers"] == 0.0
    assert ((ranking >= 0) & (ranking <= 0.5)).all()
    same = table.assign(barriers=throughput(table))
    assert information(same)["barriers"] == pytest.approx(0.5)


def test_a_table_has_the_successful_points_with_features() -> None:
    observed = dict.fromkeys((*FEATURES, "design"), 1.0)
    problem, config = Input({"size": 64}), Config({"VARIANT": 1})
    ran = Measurement(config, problem, Outcome.OK, Timing((0.5,)), observed=observed)
    bare = Measurement(config, problem, Outcome.OK, Timing((0.5,)))
    failed = Measurement(config, problem, Outcome.TIMEOUT, message="late", observed=observed)
    table = table_of("p", 64, [ran, bare, failed])
    assert table[["program", "size", "time_s", "design"]].to_numpy().tolist() == [["p", 64, 0.5, 1]]
    assert table_of("p", 64, []).empty


# ------------------------------------------------------------------------------- orders


def test_points_are_ordered_by_a_predictor_trained_on_other_stencils(tmp_path: Path) -> None:
    table = made(programs=3, points=60)
    own, known = table[table["program"] == "p0"], table[table["program"] != "p0"]
    shared = own.assign(design=[*known["design"][:15], *own["design"][15:]])
    columns = [*FEATURES, "design"]
    shared[columns].astype(int).to_csv(tmp_path / "p.features.csv", index_label="VARIANT")
    order = predicted_order(known, tmp_path / "p.features.csv")
    assert order is not None
    assert sorted(c["VARIANT"] for c in order[0]) == list(range(60))
    ranks = [int(config["VARIANT"]) for config in order[0]]  # type: ignore[arg-type]
    times = own["time_s"].to_numpy()[ranks]
    assert np.median(times[:20]) < np.median(times[20:])
    assert order[1] == (
        "ordered by a forest trained on 120 points of p1, p2; "
        "25% of this space's designs are among theirs"
    )


def test_only_a_stencils_space_can_be_ordered(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"is not a stencil's space: mvmul\.features\.csv is not in its folder"
    ):
        read_predictor("none.db", tmp_path / "mvmul.yaml")


def test_an_empty_database_gives_no_order(tmp_path: Path) -> None:
    url = str(tmp_path / "empty.db")
    with writing(url) as engine:
        Store(engine).commit()
    (tmp_path / "p.features.csv").touch()
    somewhere = Environment("opencl", "device", "platform", "driver", "compiler")
    assert read_predictor(url, tmp_path / "p.yaml").order(somewhere) is None


# ---------------------------- benchmarks/stencil.py: a small campaign, and the errors that stop one

COMMAND = ["--programs", "gradient", "srad1", "--sizes", "32", "--count", "5", "--repeats", "1"]


def test_campaigns_are_measured_and_judged(
    opencl: Backend, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(stencil_costs, "_POINTS_TO_TIME", 2)
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

    def not_again(arguments: list[str]) -> int:
        raise AssertionError(f"{arguments} was measured")

    monkeypatch.setattr(stencil_campaign, "tune_command", not_again)
    assert stencil.main([*command, "--count", "6"]) == 2
    assert "was explored with --count 5 --threads 3 --designs own" in capsys.readouterr().err
    assert stencil.main([*command, "--backend", "cuda"]) == 2
    assert "has times of --backend opencl; name another folder" in capsys.readouterr().err


def test_ctrl_c_ends_the_campaign_not_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def interrupted(arguments: list[str]) -> int:
        begun.append(arguments[0])
        return EXIT_INTERRUPTED

    monkeypatch.setattr(stencil_campaign, "tune_command", interrupted)
    assert stencil.main([*COMMAND, "--output", str(tmp_path)]) == EXIT_INTERRUPTED
    assert len(begun) == 1
    assert "the same command continues from there" in capsys.readouterr().err


def test_times_of_two_devices_are_not_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [Environment(backend, "device", "p", "1", "c") for backend in ("opencl", "cuda")]
    found: list[Any] = [SimpleNamespace(campaign=SimpleNamespace(environment=d)) for d in devices]
    campaigns = [Campaign(Path(name), n) for n, name in enumerate("ab")]
    of_folder = {Path("a"): found[:1], Path("b"): found[1:]}
    monkeypatch.setattr(Campaign, "read", lambda campaign: of_folder[campaign.folder])
    assert only_environment(campaigns[:1]) == devices[0]
    with pytest.raises(
        UsageError, match=r"b.stencil\.db has times of .*, and a.stencil\.db of .*; measure each"
    ):
        only_environment(campaigns)
