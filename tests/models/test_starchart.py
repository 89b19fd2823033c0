"""Starchart's trees: the partition, its size, its regions as text, judged and intersected."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

from harness.core.errors import UsageError
from harness.models.folds import cross_validate, relative_errors
from harness.models.regression import Regression
from harness.models.starchart import (
    Axis,
    Growth,
    Region,
    TreeNode,
    TreeTarget,
    describe,
    draw,
    grow,
    importance,
    settings_below,
)
from harness.models.starchart.regions import AxisPart
from harness.stats import Estimate

KMEANS = pd.read_csv(Path(__file__).parents[1] / "data/starchart/kmeans.csv", comment="#")
KMEANS_PARAMETERS = ["ppb", "tpp", "consec"]


def kmeans(target, **growth):
    return grow(KMEANS, target, KMEANS_PARAMETERS, Growth(**growth))


def learning(target, *grown):
    return lambda rows: grow(rows, target, *grown).predict


def boxes(tree):
    return [str(leaf.box) for leaf in tree.root.leaves()]


def samples(rows=120, seed=0):
    """Two numbers, one far beyond what float32 tells apart, a choice and noise."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"TILE": rng.choice([1, 2, 4, 8, 16], rows)})
    table = table.assign(n=2**30 + rng.integers(0, 9, rows), CACHE=rng.choice([False, True], rows))
    offset = 1e6 + table["TILE"] * 3 + (table["n"] - 2**30) ** 2 + table["CACHE"] * 5
    return table.assign(time_s=offset + rng.normal(0, 1, rows))


# -------------------------------------------------------------------- the published tree


def partition(table, target, least_gain):
    """The authors' procedure by the letter: of all parameters and all their values the split that
    lowers the sum of squared errors most, until none lowers it by so much."""

    def sse(rows):
        return float(((rows[target] - rows[target].mean()) ** 2).sum())

    def parts(rows):
        best, least = None, sse(rows) - least_gain
        for name in table.columns.drop(target):
            for value in sorted(set(rows[name]))[:-1]:
                split = rows[rows[name] <= value], rows[rows[name] > value]
                if (left := sum(map(sse, split))) < least:
                    best, least = split, left
        if best is None:
            return {frozenset(rows.index)}
        return parts(best[0]) | parts(best[1])

    return parts(table)


def test_partition_is_the_published_one():
    for seed in range(3):
        table = samples(60, seed)
        sse = float(((table["time_s"] - table["time_s"].mean()) ** 2).sum())
        tree = grow(table, "time_s", ["TILE", "n", "CACHE"], Growth(threshold=1e-3))
        expected = partition(table, "time_s", 1e-3 * sse)
        assert len(expected) > 5
        found = {frozenset(table.index[leaf.box.holds(table)]) for leaf in tree.root.leaves()}
        assert found == expected


def test_nodes_are_their_samples_with_a_large_offset():
    table = samples().assign(time_s=lambda rows: rows["time_s"] + 1e9)
    tree = grow(table, "time_s", ["TILE", "n", "CACHE"], Growth(threshold=1e-2))
    nodes = list(tree.root.nodes())
    assert len(nodes) > 5
    for node in nodes:
        inside = node.box.holds(table)
        times_s = table["time_s"][inside]
        assert (node.count, node.maximum) == (inside.sum(), pytest.approx(times_s.max()))
        assert node.mean == pytest.approx(times_s.mean(), rel=1e-12)
        assert node.sse == pytest.approx(((times_s - times_s.mean()) ** 2).sum(), rel=1e-3)
    for leaf in tree.root.leaves():
        assert np.allclose(tree.predict(table[leaf.box.holds(table)]), leaf.mean, rtol=1e-12)


def test_one_full_tree_predicts_as_all_its_pruned_ones():
    """scikit-learn prunes the expected trees one by one."""
    rng = np.random.default_rng(5)
    columns, values = rng.normal(size=(300, 4)), rng.normal(size=300)
    unseen = rng.normal(size=(100, 4))
    alphas = np.array([1.0, 0.05, 0.01, 3e-3, 1e-3, 1e-5])
    full = Regression.fit(columns, values)
    predicted = full.pruned_means(alphas)[full.leaves(unseen)]
    sizes = []
    for own, alpha in zip(predicted.T, alphas, strict=True):
        tree = DecisionTreeRegressor(ccp_alpha=alpha, random_state=0)
        tree.fit(columns, (values - values.mean()) / values.std())
        assert np.allclose(own, tree.predict(unseen) * values.std() + values.mean())
        sizes.append(tree.get_n_leaves())
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 3


def test_predicted_as_published():
    for target, least_r2, most_error in (("runtime", 0.995, 0.08), ("wattage", 0.91, 0.04)):
        learn = learning(target, KMEANS_PARAMETERS, Growth(folds=5))
        accuracy = cross_validate(learn, KMEANS, target, 5)
        assert accuracy.r2 >= least_r2
        assert accuracy.error.median.value <= most_error
        assert kmeans(target, threshold=1e-2).root.parameter == "tpp"


def test_size_is_chosen_by_validation():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"A": rng.integers(0, 100, 200), "time_s": rng.normal(5, 1, 200)})
    step = table.assign(time_s=table["time_s"] + 10 * (table["A"] > 40))
    assert len(boxes(grow(table, "time_s", ["A"]))) <= 2
    assert boxes(grow(step, "time_s", ["A"]))[0].startswith("A <= 4")


def test_a_target_that_is_the_same_everywhere_cannot_be_judged():
    for actual in (0.0, 1.0):
        table = pd.DataFrame({"A": range(9), "occupancy": actual})
        with pytest.raises(UsageError, match=f"column occupancy is {actual:g} in every row"):
            cross_validate(lambda part: grow(part, "occupancy", ["A"]).predict, table, "occupancy")


# ---------------------------------------------------------------------------- targets


def test_leaves_of_a_logarithm_hold_the_geometric_mean():
    table = pd.DataFrame({"A": [1, 1, 2, 2], "time_s": [1.0, 100.0, 1e6, 1e6]})
    tree = grow(table, TreeTarget("time_s", log=True), ["A"], Growth(threshold=0.1))
    assert [leaf.mean for leaf in tree.root.leaves()] == pytest.approx([10, 1e6])


def test_failures_are_left_out_and_counted():
    table = samples(50)
    table.loc[[3, 7], "time_s"] = [np.inf, np.nan]
    tree = grow(table, "time_s", ["TILE"], Growth(threshold=0.01))
    assert (tree.root.count, tree.left_out) == (48, 2)
    assert "(2 samples without time_s are left out)" in describe(tree)
    assert not grow(table.assign(time_s=3.0), "time_s", ["TILE"], Growth(0.0)).root.sides


# -------------------------------------------------------------------------- boxes, text


def test_shares_have_three_digits_and_no_exponent():
    for share, text in ((0.93, "93%"), (1.0, "100%"), (1.234e-10, "0.0000000123%"), (0.0, "0%")):
        assert TreeNode(Region(), 1, 0.0, 0.0, 0.0, "T", share).split == f"T: {text}"


def test_ranges_are_told_by_the_values_they_hold():
    for values, text in (
        ((1, 2), "T <= 2"),
        ((4, 8, 16, 32), "T >= 4"),
        ((2,), "T = 2"),
        ((1,), "T = 1"),
        ((2, 4, 8), "T in {2, 4, 8}"),
        ((2, 4, 8, 16), "T in {2..16}"),
    ):
        axis = Axis("T", (1, 2, 4, 8, 16, 32), is_number=True)
        assert str(AxisPart(axis, np.isin(axis.values, values))) == text


def test_a_value_between_two_known_ones_falls_where_its_box_says():
    table = pd.DataFrame({"n": [2**40, 2**40 + 4] * 2, "time_s": [1.0, 3.0] * 2})
    tree = grow(table, "time_s", ["n"], Growth(threshold=0.1))
    unseen = pd.DataFrame({"n": [2**40 + 1, 2**40 + 3, 0, 2**50]})
    assert tree.predict(unseen).tolist() == [1, 3, 1, 3]
    with pytest.raises(UsageError, match="column n has no number in 1 of 2 rows"):
        tree.predict(pd.DataFrame({"n": [1, np.nan]}))
    low, _ = tree.root.leaves()
    assert low.box.holds(unseen).tolist() == [True, False, True, False]


def test_picture_has_the_nodes_of_the_text_and_the_conditions():
    tree = kmeans("wattage", threshold=1e-3)
    texts = [text.get_text() for text in draw(tree, depth=2).axes[0].texts]
    assert len(texts) == 7 + 6  # nodes, and conditions on the lines between them
    assert {"tpp <= 5", "tpp >= 6"} <= set(texts)
    assert "(500)\ntpp: 76.7%" in " ".join(texts)


# -------------------------------------------------------------------------- importance


def test_importance_is_what_the_splits_explain_of_all_samples_or_of_a_part():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"A": rng.integers(0, 4, 200), "B": rng.integers(0, 4, 200)})
    table["time_s"] = np.where(table["A"] > 2, 100.0, table["B"]) + rng.normal(0, 0.1, 200)
    tree = grow(table, "time_s", ["A", "B"], Growth(threshold=1e-4))
    shares, left = importance(tree), sum(leaf.sse for leaf in tree.root.leaves())
    assert shares.index[0] == "A"
    assert shares.sum() == pytest.approx(1 - left / tree.root.sse)
    part = importance(tree, "A <= 2 and B >= 1").to_dict()
    assert part == pytest.approx({"B": 1.0, "A": 0.0}, abs=0.02)


def test_part_of_the_space_that_cannot_be_is_told():
    for inside, message in (
        ("tpp > 1000", r"holds for 0 of 500 samples"),
        ("tppp > 1", r"no column `tppp`; did you mean `tpp`\?"),
        ("tpp >", r"tpp >"),
    ):
        with pytest.raises(UsageError, match=message):
            importance(kmeans("runtime", threshold=0.1), inside)


# ------------------------------------------------------------------- several trees at once


def test_settings_below_are_the_samples_that_both_trees_allow():
    time, power = (kmeans(name, threshold=1e-3) for name in ("runtime", "wattage"))
    settings = settings_below([(time, 0.15), (power, 205.0)])
    allowed = (time.predict(KMEANS) <= 0.15) & (power.predict(KMEANS) <= 205)
    met = (KMEANS["runtime"] <= 0.15) & (KMEANS["wattage"] <= 205)
    inside = np.array([box.holds(KMEANS) for box in settings["box"]])
    assert 50 < settings["count"].sum() == allowed.sum()
    assert (inside.sum(axis=0) == allowed).all()
    for row, mask in zip(settings.itertuples(), inside, strict=True):
        if row.count:
            assert np.allclose(time.predict(KMEANS[mask]), row.runtime)
            assert np.allclose(power.predict(KMEANS[mask]), row.wattage)
        assert row.met == met[mask].sum()
    assert settings["runtime"].is_monotonic_increasing


def test_nothing_is_found_below_what_no_leaf_predicts():
    tree = kmeans("runtime", threshold=1e-2)
    assert settings_below([(tree, 0.0)]).empty
    with pytest.raises(UsageError, match="a target of its own"):
        settings_below([(tree, 1.0), (tree, 2.0)])


# -------------------------------------------------------------------------------- words


def platforms():
    """On D alone small tiles are good; A and C are alike, and so are B and D but for that."""
    tiles = [1, 2, 4, 8] * 3
    upwards, downwards = np.array(tiles), 9 - np.array(tiles)
    times_s = {"A": upwards, "B": 9 + upwards, "C": upwards, "D": 9 + downwards}
    parts = [
        pd.DataFrame({"TILE": tiles, "platform": name, "time_s": time_s})
        for name, time_s in times_s.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_platforms_are_parted_into_the_best_two_sets():
    tree = grow(platforms(), "time_s", ["platform", "TILE"], Growth(threshold=1e-3))
    found = [str(side.box) for side in tree.root.sides]
    assert found == ["platform in {A, C}", "platform in {B, D}"]
    assert tree.predict(platforms()).tolist() == pytest.approx(platforms()["time_s"].tolist())


def test_an_absent_flag_is_a_word_of_its_own():
    table = pd.DataFrame({"dlcm": ["ca", None, "cg", None], "time_s": [1.0, 5, 1, 5]})
    tree = grow(table, "time_s", ["dlcm"], Growth(threshold=0.1))
    assert [str(leaf.box) for leaf in tree.root.leaves()] == ["dlcm in {ca, cg}", "dlcm = absent"]
    assert [leaf.box.holds(table).sum() for leaf in tree.root.leaves()] == [2, 2]


def test_flag_of_numbers_keeps_order_beside_absent():
    for absent_s, low, high in (
        (1.0, "8..64, absent", "128..256"),
        (5.0, "8..64", "128..256, absent"),
    ):
        values = [8, 16, 32, 64, 128, 160, 192, 256, None] * 4
        times_s = [*[1.0] * 4, *[5.0] * 4, absent_s] * 4
        flag = pd.Series(values, dtype=object)
        table = pd.DataFrame({"regs": flag, "time_s": times_s})
        tree = grow(table, "time_s", ["regs"], Growth(threshold=1e-4))
        means = {str(leaf.box): leaf.mean for leaf in tree.root.leaves()}
        expected = {f"regs in {{{low}}}": 1.0, f"regs in {{{high}}}": 5.0}
        assert means == pytest.approx(expected)


def test_words_of_a_larger_table_are_predicted_by_the_mean():
    table, rule = platforms(), Growth(threshold=0.1)
    with pytest.raises(UsageError, match="`D` was not among the samples; known are A, B, C"):
        grow(table[table["platform"] != "D"], "time_s", ["platform"], rule).predict(table)
    learn = learning("time_s", [Axis.of(table, "platform"), "TILE"], rule)
    assert cross_validate(learn, table, "time_s", groups="platform").folds == 4


# ------------------------------------------------------------------------- what is refused


def test_what_cannot_be_grown_is_told():
    for growing, message in (
        (lambda: grow(samples(), "time", ["n"]), r"no column `time`; did you mean `time_s`\?"),
        (lambda: grow(samples(), "time_s", []), "name one parameter or more"),
        (lambda: grow(samples(), "time_s", ["n", "time_s"]), "cannot be a parameter too"),
        (lambda: grow(samples(1), "time_s", ["n"]), "needs 2 samples with a time_s; there are 1"),
        (lambda: grow(samples().assign(n=np.nan), "time_s", ["n"]), "no number in 120 of 120"),
        (lambda: grow(samples().assign(time_s="x"), "time_s", ["n"]), "must hold numbers"),
        (lambda: grow(samples() * 0, TreeTarget("time_s", log=True), ["n"]), "must be above 0"),
        (lambda: Growth(threshold=float("nan")), "must be 0 or more"),
    ):
        with pytest.raises(UsageError, match=message):
            growing()


# ---------------------------------------------------------------------------- regression, by hand


def test_the_interval_of_a_median_is_of_order_statistics():
    for errors, median, ninth_decile in (
        # Of 100, the 41st and the 60th: 50 -+ 1.96 x 5 rounded outwards.
        (np.random.default_rng(0).permutation(np.arange(1.0, 101.0)), (50.5, 41.0, 60.0), 90.1),
        ([3.0, 1.0, 2.0], (2.0, 1.0, 3.0), 2.8),
        ([4.0], (4.0, 4.0, 4.0), 4.0),
    ):
        found = relative_errors(1 + np.asarray(errors), np.ones(len(errors)))
        assert found.median == Estimate(*median)
        assert (found.ninth_decile, found.count) == (pytest.approx(ninth_decile), len(errors))


def test_errors_are_relative_and_those_of_a_group_count_once():
    errors = relative_errors(np.array([1.5, 1.0, -3.0, 9.0]), np.array([1.0, 2.0, -2.0, 0.0]))
    assert (errors.median.value, errors.count) == (0.5, 3)
    grouped = relative_errors(np.array([2.0, 1.0, 5.0]), np.ones(3), ["a", "a", "b"])
    assert (grouped.median.low, grouped.median.high, grouped.count) == (0.5, 4.0, 2)
