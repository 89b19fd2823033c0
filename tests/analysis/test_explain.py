"""What explains the times: from a database to importance, settings and G-ADAPT's accuracy."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.analysis import explain as explanation
from harness.analysis.explain import Samples, explain, pooled, samples
from harness.commands import analyse as tree
from harness.core.errors import UsageError
from harness.core.records import Config, Environment
from harness.dispatch.candidates import matrix_of
from harness.dispatch.learners import gadapt_judgement
from harness.models.starchart import TreeTarget, importance
from harness.results import MeasurementRow
from harness.results.view import Results
from harness.space_file import Parameter
from tests.helpers.commands import analyse as main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def results(sized: Results) -> Results:
    return sized


@pytest.fixture
def database(sized: Results) -> str:
    return sized.databases[0]


def changed(row: MeasurementRow, **changes: Any) -> MeasurementRow:
    """A row with another measurement."""
    return dataclasses.replace(row, measurement=dataclasses.replace(row.measurement, **changes))


def test_samples_are_what_worked_with_slowdowns_by_input(results: Results) -> None:
    found = samples(results)
    assert len(found.table) == 6 * 7
    assert set(found.parameters) == {"n", "BLOCK", "TILE"}
    assert (found.table.groupby("n")["slowdown"].min() == 1).all()
    rows = found.table[found.table["n"] == 64].set_index(["BLOCK", "TILE"])
    assert rows.loc[(16, 1), "slowdown"] == pytest.approx(3)
    assert rows.loc[(64, 2), "slowdown"] == pytest.approx(1)


def test_what_matters_is_important_and_what_does_not_is_not(results: Results) -> None:
    found = explain(samples(results), TreeTarget("slowdown", log=True))
    shares = importance(found.tree)
    assert shares["BLOCK"] > 0.3
    assert shares["TILE"] < 0.01
    assert shares.sum() > 0.99
    assert found.accuracy.r2 > 0.7


def test_no_tree_that_explains_nothing(
    results: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    explained = explain(samples(results), TreeTarget("slowdown", log=True))
    assert explained.nothing is None
    poor = dataclasses.replace(explained.accuracy, r2=-0.05)
    known = dataclasses.replace(explained, accuracy=poor)
    monkeypatch.setattr(tree, "explain", lambda found, target, *_: known)
    assert main([*results.databases]) == 0
    text = capsys.readouterr().out
    assert "Nothing explains the slowdown: a tree's R2 on held-out samples is -0.050." in text
    assert "Importance" not in text


def test_samples_that_share_a_measurement_are_held_out_together() -> None:
    """Times of pure noise, each of eight configurations: a tree that has seen seven knows the
    eighth, and one that has seen none knows nothing."""
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(60), 8)
    table = pd.DataFrame({f"f{bit}": code >> bit & 1 for bit in range(6)}).assign(
        none=np.tile(np.arange(8), 60),
        slowdown=np.exp(rng.normal(0, 0.1, 60))[code],
        unbiased=True,
        measurement=code,
    )
    names = tuple(name for name in table.columns if name[0] in "fn")
    found = explain(Samples(table, names, ()), TreeTarget("slowdown", log=True))
    assert found.measurements == found.accuracy.error.count == 60
    assert found.accuracy.r2 < 0.1
    assert len(list(found.tree.root.leaves())) < 8
    with pytest.raises(
        UsageError, match=r"^15 measurements .* \(120 samples share .*; 20 and 1 are"
    ):
        explain(Samples(table[:120], names, ()), TreeTarget("slowdown", log=True))


def test_what_shares_machine_code_has_the_number_of_what_was_measured(results: Results) -> None:
    rows = [
        changed(row, shared_with=Config({**row.measurement.config, "TILE": 1}).digest)
        if row.measurement.config["TILE"] == 2 and row.measurement.timing
        else row
        for row in results.rows
    ]
    found = samples(Results(results.campaign, results.databases, tuple(rows))).table
    made = found.groupby("measurement")
    assert len(made) == 6 * 4
    assert (made[["n", "BLOCK"]].nunique() == 1).all(axis=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--per", "BLOCK"],
         "--per needs a feature of the input, and `BLOCK` is none; there are n"),
        (["--inside", "BLOCK > 999"], "`BLOCK > 999` holds for 0 of 42 samples"),
        (["--target", "power_w"], "no target `power_w`; there are time_s, slowdown"),
        (["--below", "watts=3"], "no target `watts`; there are time_s, slowdown"),
        (["--inside", "BLOK > 3"], "the table has no column `BLOK`; did you mean `BLOCK`?"),
        (["--inside", "BLOCK >"], "`BLOCK >`"),
    ],
)  # fmt: skip
def test_wrong_options_are_reported_before_anything_is_printed(
    options: list[str], message: str, database: str, capsys: Capture
) -> None:
    assert main([database, *options]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert not out


def test_all_that_is_asked_of_a_tree_is_printed_and_too_few_samples_take_nothing_else_away(
    database: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([database, "--below", "slowdown=1.5", "--tree"]) == 0
    out = capsys.readouterr().out
    expected = ["all: ", "Settings with", "G-ADAPT's model", "oracle"]
    assert [text for text in expected if text in out] == expected
    monkeypatch.setattr(explanation, "FEWEST_SAMPLES", 43)
    assert main([database, "--tree"]) == 2
    out = capsys.readouterr().out
    assert "No tree: 42 measurements" in out
    assert "oracle" in out
    assert main([database]) == 0


def test_a_tree_for_limits_on_small_times_is_grown_on_their_logarithm(
    database: str, capsys: Capture, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = samples(results)
    table = pd.concat([wide.table] * 20, ignore_index=True)
    rng = np.random.default_rng(0)
    scale = np.where(table["BLOCK"] == 16, 1e-4, np.where(table["BLOCK"] == 32, 1e-3, 1.0))
    table["time_s"] = scale * np.exp(rng.normal(0, 0.3, len(table)))
    table["measurement"] = range(len(table))
    monkeypatch.setattr(tree, "samples", lambda _: dataclasses.replace(wide, table=table))
    assert main([database, "--below", "time_s=2e-4"]) == 0
    assert re.search(r"^ +BLOCK = 16 ", capsys.readouterr().out, re.M)
    assert main([database, "--below", "time_s=5e-5"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\d+ of 840 samples are within all limits, but the mean of no region is", out)
    assert re.search(r":\s+0\s+regions", out)


def test_integers_beside_an_absent_flag_stay_integers(results: Results) -> None:
    rows = tuple(
        changed(row, config=Config({**row.measurement.config, "level": level}))
        for row in results.rows
        for level in (None, 0, 1)
    )
    level = Parameter("level", "enum", (None, 0, 1), "source", None)
    parameters = {**results.campaign.parameters, "level": level}
    campaign = dataclasses.replace(results.campaign, parameters=parameters)
    found = samples(Results(campaign, results.databases, rows))
    assert set(map(repr, found.table["level"])) == {"None", "0", "1"}


def test_gadapts_accuracy_is_of_inputs_that_were_left_out(results: Results) -> None:
    judged = gadapt_judgement(matrix_of(results))
    assert judged.accuracy == pytest.approx(5 / 6)
    assert judged.worst_fraction == pytest.approx(1 / 3)
    assert 0.5 < judged.mean_fraction < 1


def of_device(results: Results, device: str, **campaign: Any) -> Results:
    """The same results of another device; `campaign` changes further fields."""
    others = Environment(**{**vars(results.campaign.environment), "device": device})
    key = type(results.campaign)(**{**vars(results.campaign), "environment": others, **campaign})
    rows = [changed(row, observed={"occupancy": 0.5}) for row in results.rows]
    return Results(key, results.databases, tuple(rows))


def test_platforms_are_separate_in_one_tree_whatever_their_spaces_names(results: Results) -> None:
    both = pooled([results, of_device(results, "twice as slow", space_name="small_2")])
    assert both.parameters[0] == "platform"
    assert both.targets == ["time_s", "slowdown"]  # and not what one of them alone observed
    assert len(both.table) == 2 * len(samples(results).table)
    with pytest.raises(UsageError, match="each platform with one campaign"):
        pooled([results, results])


def test_platforms_with_other_parameters_are_no_platforms_of_one_kernel(results: Results) -> None:
    rows = [
        changed(row, config=Config({"WIDTH": row.measurement.config["BLOCK"]}))
        for row in results.rows
    ]
    width = {"WIDTH": results.campaign.parameters["BLOCK"]}
    campaign = of_device(results, "another", parameters=width, constraints=()).campaign
    other = Results(campaign, results.databases, tuple(rows))
    with pytest.raises(UsageError, match=r"small on .* has no parameter WIDTH, which varies on"):
        pooled([results, other])


@pytest.mark.parametrize(("threshold", "leaves"), [("0", 6), ("0.5", 1)])
def test_the_published_rule_can_be_asked_for(
    threshold: str, leaves: int, database: str, capsys: Capture
) -> None:
    assert main([database, "--tree", "--threshold", threshold]) == 0
    out = capsys.readouterr().out
    assert f"leaves by the published rule ({leaves})" in out
    assert f"no split removes less than {threshold}" in out
