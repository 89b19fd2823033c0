"""What explains the times: from a database to importance, settings and G-ADAPT's accuracy."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from harness import explanation
from harness.analyse import main
from harness.errors import UsageError
from harness.explained import pictures
from harness.explanation import explain, gadapt_judgement, pooled, samples
from harness.records import Config, Environment, Input
from harness.starchart import Accuracy, Target, cross_validate, importance
from harness.tables import Results, read_results, the_one
from tests.replays import FormulaMeasurer, make_spec, opened

SPACE = """\
name: small
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 32, 64, 256], default: 256}
  TILE: {values: [1, 2], default: 1}
launch: {group: [BLOCK], grid: [n]}
inputs: {features: [n], values: [{n: 8}, {n: 16}, {n: 32}, {n: 64}, {n: 128}, {n: 256}]}
"""


def time_s(given: Input, config: Config) -> float:
    """Time grows with n; BLOCK matters much, TILE not at all; 256 with TILE=2 does not work."""
    n, block, tile = given["n"], config["BLOCK"], config["TILE"]
    assert isinstance(n, int)
    assert isinstance(block, int)
    if block == 256 and tile == 2:
        return float("inf")
    return 1e-5 * n * (1 if block == (16 if n < 50 else 64) else 3)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("results")
    with opened(make_spec(folder, SPACE), folder / "r.db", FormulaMeasurer(time_s)) as (run, _):
        run.run()
    return str(folder / "r.db")


@pytest.fixture(scope="module")
def results(place: str) -> Results:
    return the_one(read_results([place]))


def test_samples_are_what_worked_with_slowdowns_by_input(results: Results) -> None:
    found = samples(results)
    assert len(found.table) == 6 * 7
    assert set(found.parameters) == {"n", "BLOCK", "TILE"}
    assert (found.table.groupby("n")["slowdown"].min() == 1).all()
    rows = found.table[found.table["n"] == 64].set_index(["BLOCK", "TILE"])
    assert rows.loc[(16, 1), "slowdown"] == pytest.approx(3)
    assert rows.loc[(64, 2), "slowdown"] == pytest.approx(1)


def test_what_matters_is_important_and_what_does_not_is_not(results: Results) -> None:
    told = explain(samples(results), Target("slowdown", log=True))
    shares = importance(told.tree)
    assert shares["BLOCK"] > 0.3
    assert shares["TILE"] < 0.01
    assert shares.sum() > 0.99
    assert told.accuracy.r2 > 0.7


def test_an_unknown_target_names_those_there_are(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([place, "--target", "power_w"]) == 2
    assert "no target `power_w`; there are time_s, slowdown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--per", "m"], "the table has no column `m`; there are "),
        (["--below", "watts=3"], "no target `watts`; there are time_s, slowdown"),
        (["--inside", "BLOK > 3"], "the table has no column `BLOK`; did you mean BLOCK?"),
        (["--inside", "BLOCK >"], "`BLOCK >`"),
    ],
)
def test_what_is_asked_for_wrongly_is_told_before_anything_is_printed(
    asked: list[str], told: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([place, *asked]) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert not out


def test_the_command_tells_importance_settings_and_accuracy(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def noted(learn: Any, table: Any, target: str, folds: int) -> Accuracy:
        judged.append(target)
        return cross_validate(learn, table, target, folds)

    monkeypatch.setattr(explanation, "cross_validate", noted)
    asked = ["--tree", "2", "--inside", "n <= 32", "--below", "time_s=0.0002"]
    assert main([place, *asked, "--below", "slowdown=1.5"]) == 0
    assert judged == ["slowdown", "slowdown"]  # tree and linear model; settings need trees alone
    out = capsys.readouterr().out
    assert "over 42 samples, all designed, drawn uniformly or the whole space" in out
    assert "where n <= 32: BLOCK 100% of the squared error" in out
    assert "Settings with time_s <= 0.0002 and slowdown <= 1.5" in out
    assert re.search(r"n = 16, BLOCK = 16 +0\.00016 +1 +2 +2", out)
    assert "G-ADAPT's model, one input left out at a time: the best configuration on" in out


def test_each_of_several_trees_is_drawn_into_a_file_of_its_own() -> None:
    picture = Path("out/tree.png")
    found = pictures(picture, ["1", "2", "platforms"])
    assert [str(path) for path in found] == [
        "out/tree-1.png",
        "out/tree-2.png",
        "out/tree-platforms.png",
    ]
    assert pictures(picture, ["1"]) == [picture]
    assert pictures(None, ["1", "2"]) == [None, None]


def test_gadapts_accuracy_is_of_inputs_that_were_left_out(results: Results) -> None:
    judged = gadapt_judgement(results.matrix())
    assert judged is not None
    assert judged.accuracy == pytest.approx(5 / 6)
    assert judged.worst_fraction == pytest.approx(1 / 3)
    assert 0.5 < judged.mean_fraction < 1


def test_platforms_are_told_apart_in_one_tree(results: Results) -> None:
    campaign = results.campaign
    others = Environment(**{**vars(campaign.environment), "device": "twice as slow"})
    key = type(campaign)(**{**vars(campaign), "environment": others})
    observed = {"occupancy": 0.5}
    rows = [
        dataclasses.replace(
            row, measurement=dataclasses.replace(row.measurement, observed=observed)
        )
        for row in results.rows
    ]
    both = pooled([results, Results(key, results.places, tuple(rows))])
    assert both.parameters[0] == "platform"
    assert both.targets == ["time_s", "slowdown"]  # and not what one of them alone observed
    assert len(both.table) == 2 * len(samples(results).table)
    with pytest.raises(UsageError, match="each with one campaign"):
        pooled([results, results])
