"""What explains the times: from a database to importance, settings and G-ADAPT's accuracy."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.analysis import explain as explanation
from harness.analysis.explain import Samples, explain, pooled, samples
from harness.commands import analyse as tree
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.models.starchart import TreeTarget, importance
from harness.results.view import Results
from harness.space_file import Parameter
from tests.helpers.commands import analyse as main

SLOWDOWN = TreeTarget("slowdown", log=True)


@pytest.fixture
def results(sized):
    return sized


@pytest.fixture
def database(sized):
    return sized.databases[0]


def changed(row, **changes):
    """A row with another measurement."""
    return replace(row, measurement=replace(row.measurement, **changes))


def test_samples_are_what_worked_with_slowdowns_by_input(results):
    taken = samples(results)
    assert len(taken.table) == 6 * 7
    assert set(taken.parameters) == {"n", "BLOCK", "TILE"}
    slowdowns = taken.table.set_index(["n", "BLOCK", "TILE"])["slowdown"]
    assert (slowdowns.groupby("n").min() == 1).all()
    assert slowdowns[64, 16, 1] == pytest.approx(3)
    assert slowdowns[64, 64, 2] == pytest.approx(1)


def test_what_matters_is_important_and_a_tree_that_explains_nothing_is_not_printed(
    few_folds, results, monkeypatch, capsys
):
    explained = explain(samples(results), SLOWDOWN)
    shares = importance(explained.tree)
    assert shares["BLOCK"] > 0.3
    assert shares["TILE"] < 0.01
    assert shares.sum() > 0.99
    assert explained.accuracy.r2 > 0.7
    assert explained.nothing is None
    poor = replace(explained.accuracy, r2=-0.05)
    unexplained = replace(explained, accuracy=poor)
    monkeypatch.setattr(tree, "explain", lambda *_: unexplained)
    assert main([*results.databases]) == 0
    text = capsys.readouterr().out
    assert "is -0.050." in text
    assert "Importance" not in text


def test_samples_that_share_a_measurement_are_held_out_together():
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
    explained = explain(Samples(table, names, ()), SLOWDOWN)
    assert explained.measurements == explained.accuracy.error.count == 60
    assert explained.accuracy.r2 < 0.1
    assert len(list(explained.tree.root.leaves())) < 8
    with pytest.raises(UsageError, match=r"^15 measurements .* \(120 samples"):
        explain(Samples(table[:120], names, ()), SLOWDOWN)


def test_what_shares_machine_code_has_the_number_of_what_was_measured(results):
    rows = []
    for row in results.rows:
        config = row.measurement.config
        if config["TILE"] == 2 and row.measurement.timing:
            row = changed(row, shared_with=Config({**config, "TILE": 1}).digest)
        rows.append(row)
    table = samples(Results(results.campaign, results.databases, tuple(rows))).table
    shared = table.groupby("measurement")
    assert len(shared) == 6 * 4
    assert (shared[["n", "BLOCK"]].nunique() == 1).all(axis=None)


def test_wrong_options_are_reported_before_anything_is_printed(database, capsys):
    for options, message in (
        (["--per", "BLOCK"], "`BLOCK` is none"),
        (["--inside", "BLOCK > 999"], "0 of 42 samples"),
        (["--target", "power_w"], "`power_w`"),
        (["--below", "watts=3"], "`watts`"),
        (["--inside", "BLOK > 3"], "`BLOCK`"),
        (["--inside", "BLOCK >"], "`BLOCK >`"),
    ):
        assert main([database, *options]) == 2
        out, err = capsys.readouterr()
        assert message in err
        assert not out


def test_all_that_is_asked_of_a_tree_is_printed_and_too_few_samples_take_nothing_else_away(
    database, capsys, monkeypatch
):
    assert main([database, "--below", "slowdown=1.5", "--tree"]) == 0
    out = capsys.readouterr().out
    for text in ("all: ", "Settings with", "G-ADAPT's model", "oracle"):
        assert text in out
    monkeypatch.setattr(explanation, "FEWEST_SAMPLES", 43)
    assert main([database, "--tree"]) == 2
    out = capsys.readouterr().out
    assert "No tree: 42 measurements" in out
    assert "oracle" in out


def test_a_tree_for_limits_on_small_times_is_grown_on_their_logarithm(
    database, capsys, results, monkeypatch
):
    wide = samples(results)
    table = pd.concat([wide.table] * 20, ignore_index=True)
    noise = np.random.default_rng(0).normal(0, 0.3, len(table))
    table["time_s"] = table["BLOCK"].replace({16: 1e-4, 32: 1e-3, 64: 1, 256: 1}) * np.exp(noise)
    table["measurement"] = range(len(table))
    monkeypatch.setattr(tree, "samples", lambda _: replace(wide, table=table))
    assert main([database, "--below", "time_s=2e-4"]) == 0
    assert re.search(r"^ +BLOCK = 16 ", capsys.readouterr().out, re.M)
    assert main([database, "--below", "time_s=5e-5"]) == 0
    assert re.search(r":\s+0\s+regions.*\d+ of 840 samples", capsys.readouterr().out, re.S)


def test_integers_beside_an_absent_flag_stay_integers(results):
    rows = tuple(
        changed(row, config=Config({**row.measurement.config, "level": level}))
        for row in results.rows
        for level in (None, 0, 1)
    )
    level = Parameter("level", "enum", (None, 0, 1), "source", None)
    parameters = {**results.campaign.parameters, "level": level}
    campaign = replace(results.campaign, parameters=parameters)
    levels = samples(Results(campaign, results.databases, rows)).table["level"]
    assert set(map(repr, levels)) == {"None", "0", "1"}


def of_device(results, device, **campaign):
    """The same results of another device; `campaign` changes further fields."""
    environment = replace(results.campaign.environment, device=device)
    other = replace(results.campaign, environment=environment, **campaign)
    rows = [changed(row, observed={"occupancy": 0.5}) for row in results.rows]
    return Results(other, results.databases, tuple(rows))


def test_platforms_are_separate_in_one_tree_whatever_their_spaces_names(results):
    both = pooled([results, of_device(results, "twice as slow", space_name="small_2")])
    assert both.parameters[0] == "platform"
    assert both.targets == ["time_s", "slowdown"]  # and not what one of them alone observed
    assert len(both.table) == 2 * len(samples(results).table)
    with pytest.raises(UsageError, match="platform"):
        pooled([results, results])


def test_platforms_with_other_parameters_are_no_platforms_of_one_kernel(results):
    width = {"WIDTH": results.campaign.parameters["BLOCK"]}
    other = of_device(results, "another", parameters=width, constraints=())
    rows = [
        changed(row, config=Config({"WIDTH": row.measurement.config["BLOCK"]}))
        for row in other.rows
    ]
    with pytest.raises(UsageError, match="no parameter"):
        pooled([results, Results(other.campaign, other.databases, tuple(rows))])


def test_the_published_rule_can_be_asked_for(database, capsys):
    for threshold, leaves in (("0", 6), ("0.5", 1)):
        assert main([database, "--tree", "--threshold", threshold]) == 0
        out = capsys.readouterr().out
        assert f"leaves by the published rule ({leaves})" in out
        assert f"no split removes less than {threshold}" in out
