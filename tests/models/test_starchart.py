"""Starchart's trees: its partition, told as boxes, judged, intersected and across platforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.models.starchart import (
    Growth,
    Interval,
    Region,
    Tree,
    TreeTarget,
    axes_of,
    cross_validate,
    describe,
    draw,
    grow,
    growth_to_published_leaves,
    importance,
    lay_out,
    leaves,
    pool,
    settings_below,
)
from harness.models.starchart.regression import (
    ErrorSummary,
    as_plain,
    fit,
    relative_errors,
    summarize,
)
from harness.models.starchart.text import percent
from harness.stats import Estimate

KMEANS = pd.read_csv(Path(__file__).parents[1] / "data/starchart/kmeans.csv", comment="#")
KMEANS_PARAMETERS = ["ppb", "tpp", "consec"]


def kmeans(target: str, **growth: object) -> Tree:
    return grow(KMEANS, target, KMEANS_PARAMETERS, Growth(**growth))  # type: ignore[arg-type]


def samples(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Two numbers, one far beyond what float32 tells apart, a choice and noise."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "TILE": rng.choice([1, 2, 4, 8, 16], rows),
            "n": 2**30 + rng.integers(0, 9, rows),
            "CACHE": rng.choice([False, True], rows),
        }
    )
    offset = 1e6 + table["TILE"] * 3 + (table["n"] - 2**30) ** 2 + table["CACHE"] * 5
    return table.assign(time_s=offset + rng.normal(0, 1, rows))


# -------------------------------------------------------------------- the published tree


def partition(table: pd.DataFrame, target: str, least_gain: float) -> set[frozenset[int]]:
    """The authors' procedure by the letter: of all parameters and all their values the split that
    lowers the sum of squared errors most, until none lowers it by so much."""

    def sse(rows: pd.DataFrame) -> float:
        return float(((rows[target] - rows[target].mean()) ** 2).sum())

    def parts(rows: pd.DataFrame) -> set[frozenset[int]]:
        splits = [
            (rows[rows[name] <= value], rows[rows[name] > value])
            for name in table.columns.drop(target)
            for value in sorted(set(rows[name]))[:-1]
        ]
        gains = [sse(rows) - sse(low) - sse(high) for low, high in splits]
        if not gains or max(gains) < least_gain:
            return {frozenset(rows.index)}
        low, high = splits[int(np.argmax(gains))]
        return parts(low) | parts(high)

    return parts(table)


@pytest.mark.parametrize("seed", range(3))
def test_partition_is_the_published_one(seed: int) -> None:
    table = samples(60, seed)
    sse = float(((table["time_s"] - table["time_s"].mean()) ** 2).sum())
    tree = grow(table, "time_s", ["TILE", "n", "CACHE"], Growth(relative_threshold=1e-3))
    expected = partition(table, "time_s", 1e-3 * sse)
    assert len(expected) > 5
    found = {frozenset(table.index[leaf.box.holds(table)]) for leaf in tree.root.leaves()}
    assert found == expected


def test_leaves_predict_the_mean_of_their_samples_with_a_large_offset() -> None:
    table = samples().assign(time_s=lambda rows: rows["time_s"] + 1e9)
    tree = grow(table, "time_s", ["TILE", "n", "CACHE"], Growth(relative_threshold=1e-2))
    assert len(list(tree.root.leaves())) > 3
    for leaf in tree.root.leaves():
        inside = leaf.box.holds(table)
        assert leaf.count == inside.sum()
        assert leaf.mean == pytest.approx(table["time_s"][inside].mean(), rel=1e-12)
        assert np.allclose(tree.predict(table[inside]), leaf.mean, rtol=1e-12)


def test_smaller_trees_are_the_tops_of_the_largest() -> None:
    rng = np.random.default_rng(5)
    columns, values = rng.normal(size=(300, 4)), rng.normal(size=300)
    unseen = rng.normal(size=(100, 4))
    thresholds = np.array([1.0, 0.02, 0.01, 1e-3, 1e-5])
    # Nodes of two rows can be split on any column alike.
    predicted = fit(columns, values, 1e-5, fewest_to_split=9).predict_for(thresholds, unseen)
    for row, threshold in zip(predicted, thresholds, strict=True):
        tree = fit(columns, values, threshold, fewest_to_split=9)
        assert np.allclose(row, tree.predict(unseen))


@pytest.mark.parametrize(
    ("target", "least_r2", "most_error"), [("runtime", 0.995, 0.08), ("wattage", 0.91, 0.04)]
)
def test_published_samples_are_predicted_as_well_as_published(
    target: str, least_r2: float, most_error: float
) -> None:
    found = cross_validate(
        lambda part: grow(part, target, KMEANS_PARAMETERS, Growth(folds=5)), KMEANS, target, 5
    )
    assert found.r2 >= least_r2
    assert found.error.median.value <= most_error
    first = kmeans(target, relative_threshold=1e-2).root.split
    assert first is not None
    assert first.parameter == "tpp"


def test_size_is_chosen_by_validation() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"A": rng.integers(0, 100, 200), "time_s": rng.normal(5, 1, 200)})
    step = table.assign(time_s=table["time_s"] + 10 * (table["A"] > 40))
    assert len(leaves(grow(table, "time_s", ["A"]))) <= 2
    assert str(leaves(grow(step, "time_s", ["A"]))["box"][0]).startswith("A <= 4")


def test_leaves_of_a_fine_tree_have_a_deviation() -> None:
    """Rounding leaves pure nodes an impurity just below 0."""
    found = leaves(kmeans("wattage", relative_threshold=1e-6))
    assert len(found) > 300
    assert (found["deviation"] >= 0).all()


@pytest.mark.parametrize("actual", [0.0, 1.0])
def test_a_target_that_is_the_same_everywhere_cannot_be_judged(actual: float) -> None:
    table = pd.DataFrame({"A": range(9), "occupancy": actual})
    with pytest.raises(UsageError, match=f"column occupancy is {actual:g} in every row"):
        cross_validate(lambda part: grow(part, "occupancy", ["A"]), table, "occupancy")


def test_samples_that_are_0_have_no_relative_error() -> None:
    table = pd.DataFrame({"A": [0, 1] * 20, "spilled": [0.0, 64.0] * 20})
    found = cross_validate(lambda part: grow(part, "spilled", ["A"]), table, "spilled")
    assert (found.r2, found.error.ninth_decile, found.error.count) == (1.0, 0.0, 20)


def test_a_node_with_too_few_rows_is_left_whole() -> None:
    tree = grow(samples(60), "time_s", ["n"], Growth(relative_threshold=0.0, fewest_to_split=30))
    split = tree.root.split
    assert split is not None
    for leaf in tree.root.leaves():
        assert leaf.count < 30 or len(leaf.box.parts["n"].values) == 1


# ---------------------------------------------------------------------------- targets


def test_time_by_input_size_is_predicted_in_seconds() -> None:
    table = pd.DataFrame({"BLOCK": [1, 1, 2, 2], "m": [1, 10, 1, 10], "n": [2, 2, 2, 2]})
    table["time_s"] = table["m"] * table["n"] * table["BLOCK"] * 1e-3
    target = TreeTarget("time_s", per=("m", "n"))
    tree = grow(table, target, ["BLOCK"], Growth(relative_threshold=1e-3))
    assert [leaf.mean for leaf in tree.root.leaves()] == pytest.approx([1e-3, 2e-3])
    assert tree.predict(table).tolist() == pytest.approx(table["time_s"].tolist())
    assert str(target) == "time_s / (m * n)"


def test_leaves_of_a_logarithm_hold_the_geometric_mean() -> None:
    table = pd.DataFrame({"A": [1, 1, 2, 2], "time_s": [1.0, 100.0, 1e6, 1e6]})
    tree = grow(table, TreeTarget("time_s", log=True), ["A"], Growth(relative_threshold=0.1))
    assert [leaf.mean for leaf in tree.root.leaves()] == pytest.approx([10, 1e6])


def test_failures_are_left_out_and_counted() -> None:
    table = samples(50)
    table.loc[[3, 7], "time_s"] = [np.inf, np.nan]
    tree = grow(table, "time_s", ["TILE"], Growth(relative_threshold=0.01))
    assert (tree.root.count, tree.left_out) == (48, 2)
    assert "(2 samples without time_s are left out)" in describe(tree)


@pytest.mark.parametrize("target", ["runtime", "wattage"])
@pytest.mark.parametrize(("rows", "fewest", "most"), [(200, 40, 50), (500, 40, 50), (40, 8, 10)])
def test_published_tree_has_40_to_50_leaves_from_200_samples(
    target: str, rows: int, fewest: int, most: int
) -> None:
    table = KMEANS.sample(rows, random_state=0)
    tree = grow(table, target, KMEANS_PARAMETERS, growth_to_published_leaves())
    assert fewest <= len(leaves(tree)) <= most
    # The threshold is the least one that does: it grows the same tree, and no smaller one.
    same = grow(table, target, KMEANS_PARAMETERS, Growth(relative_threshold=tree.threshold))
    assert leaves(same)["box"].map(str).tolist() == leaves(tree)["box"].map(str).tolist()


def test_splits_of_equal_gain_are_kept_or_left_out_together() -> None:
    table = pd.DataFrame({"A": [0, 0, 1, 1], "B": [0, 1, 0, 1], "time_s": [0.0, 1.0, 10.0, 11.0]})
    for most, found in ((1, 1), (2, 2), (3, 2), (4, 4)):
        growth = Growth(leaves_per_sample=1, most_leaves=most)
        assert len(leaves(grow(table, "time_s", ["A", "B"], growth))) == found


def test_leaves_have_their_maximum_and_share() -> None:
    table = samples(90)
    tree = grow(table, TreeTarget("time_s", log=True), ["TILE", "n"], growth_to_published_leaves())
    found = leaves(tree)
    assert found["share"].sum() == pytest.approx(1)
    for box, share, maximum in zip(found["box"], found["share"], found["maximum"], strict=True):
        held = table[box.holds(table)]["time_s"]
        assert (len(held) / 90, held.max()) == pytest.approx((share, maximum))
    assert tree.root.maximum == pytest.approx(table["time_s"].max())


# -------------------------------------------------------------------------- boxes, text


def test_text_has_counts_and_means_with_the_most_important_split_first() -> None:
    lines = list(describe(kmeans("runtime", relative_threshold=1e-3), depth=1))
    assert lines[1:] == [
        "all: 1.993 (max 6.309; 500, 100%; split on tpp: 92.6%)",
        "    tpp = 1: 6.235 (max 6.309; 122, 24%)",
        "    tpp >= 2: 0.6246 (max 2.702; 378, 76%; split on tpp: 5.75%)",
        "        ... 6 leaves",
    ]


def test_shares_have_three_digits_and_no_exponent() -> None:
    printed = {0.93: "93%", 1.0: "100%", 9.1e-6: "0.00091%", 1.234e-10: "0.0000000123%", 0.0: "0%"}
    assert [percent(share) for share in printed] == list(printed.values())


@pytest.mark.parametrize(
    ("above", "upto", "text"),
    [
        (-np.inf, 3, "T <= 2"),
        (2, np.inf, "T >= 4"),
        (1, 2.5, "T = 2"),
        (-np.inf, 1.5, "T = 1"),
        (1, 8, "T in {2, 4, 8}"),
        (1, 16, "T in {2..16}"),
    ],
)
def test_ranges_are_told_by_the_values_they_hold(above: float, upto: float, text: str) -> None:
    assert Interval(above, upto, (1, 2, 4, 8, 16, 32)).text("T") == text


def test_a_value_between_two_known_ones_falls_where_its_box_says() -> None:
    table = pd.DataFrame({"n": [2**40, 2**40 + 4] * 2, "time_s": [1.0, 3.0] * 2})
    tree = grow(table, "time_s", ["n"], Growth(relative_threshold=0.1))
    unseen = pd.DataFrame({"n": [2**40 + 1, 2**40 + 3, 0, 2**50]})
    assert tree.predict(unseen).tolist() == [1, 3, 1, 3]
    low, _ = tree.root.leaves()
    assert low.box.holds(unseen).tolist() == [True, False, True, False]


def test_picture_has_a_place_for_each_node_of_the_text_and_the_conditions() -> None:
    tree = kmeans("wattage", relative_threshold=1e-3)
    placed = lay_out(tree, depth=2)
    assert [node.depth for node in placed] == [0, 1, 2, 2, 1, 2, 2]
    assert placed[0].text.splitlines()[1:] == ["(500)", "tpp: 76.7%"]
    assert [node.condition for node in placed[1:]][0::3] == ["tpp <= 5", "tpp >= 6"]
    assert placed[0].x == sum(node.x for node in placed if node.parent == 0) / 2
    figure = draw(tree, depth=2)
    assert any("tpp <= 5" in text.get_text() for text in figure.axes[0].texts)


# -------------------------------------------------------------------------- importance


def test_importance_is_what_the_splits_explain() -> None:
    tree = kmeans("wattage", relative_threshold=1e-3)
    shares = importance(tree)
    left = sum(leaf.sse for leaf in tree.root.leaves()) / tree.root.sse
    assert shares.index[0] == "tpp"
    assert shares.sum() + left == pytest.approx(1)


def test_importance_in_a_part_of_the_space_is_that_of_its_samples_alone() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"A": rng.integers(0, 4, 200), "B": rng.integers(0, 4, 200)})
    table["time_s"] = np.where(table["A"] > 2, 100.0, table["B"])
    tree = grow(table, "time_s", ["A", "B"], Growth(relative_threshold=1e-4))
    assert importance(tree).index[0] == "A"
    inside = importance(tree, "A <= 2 and B >= 1")
    assert inside.to_dict() == pytest.approx({"B": 1.0, "A": 0.0})
    low = next(tree.root.leaves()).box.parts["A"]
    assert importance(tree, Region({"A": low})).index[0] == "B"


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ("tpp > 1000", r"holds for 0 of 500 samples"),
        ("tppp > 1", r"no column `tppp`; did you mean `tpp`\?"),
        ("tpp >", r"tpp >"),
    ],
)
def test_part_of_the_space_that_cannot_be_is_told(inside: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        importance(kmeans("runtime", relative_threshold=0.1), inside)


# ------------------------------------------------------------------- several trees at once


def test_settings_below_are_the_samples_that_both_trees_allow() -> None:
    time, power = (kmeans(name, relative_threshold=1e-3) for name in ("runtime", "wattage"))
    found = settings_below([(time, 0.15), (power, 205.0)])
    allowed = (time.predict(KMEANS) <= 0.15) & (power.predict(KMEANS) <= 205)
    inside = np.array([box.holds(KMEANS) for box in found["box"]])
    assert 50 < found["count"].sum() == allowed.sum()
    assert (inside.sum(axis=0) == allowed).all()
    for row, mask in zip(found.itertuples(), inside, strict=True):
        if row.count:
            assert np.allclose(time.predict(KMEANS[mask]), row.runtime)
            assert np.allclose(power.predict(KMEANS[mask]), row.wattage)
        both = (KMEANS["runtime"][mask] <= 0.15) & (KMEANS["wattage"][mask] <= 205)
        assert row.met == both.sum()
    assert found["runtime"].is_monotonic_increasing


def test_nothing_is_found_below_what_no_leaf_predicts() -> None:
    tree = kmeans("runtime", relative_threshold=1e-2)
    assert settings_below([(tree, 0.0)]).empty
    with pytest.raises(UsageError, match="a target of its own"):
        settings_below([(tree, 1.0), (tree, 2.0)])


# -------------------------------------------------------------------------------- words


def platforms() -> pd.DataFrame:
    """On D alone small tiles are good; A and C are alike, and so are B and D but for that."""
    table = pd.DataFrame({"TILE": [1, 2, 4, 8] * 3})
    level = {"A": 0.0, "B": 9.0, "C": 0.0, "D": 9.0}
    return pool(
        {
            name: table.assign(time_s=at + (table["TILE"] if name != "D" else 9 - table["TILE"]))
            for name, at in level.items()
        }
    )


def test_platforms_are_parted_into_the_best_two_sets() -> None:
    tree = grow(platforms(), "time_s", ["platform", "TILE"], Growth(relative_threshold=1e-3))
    split = tree.root.split
    assert split is not None
    assert str(split.low.box) == "platform in {A, C}"
    assert str(split.high.box) == "platform in {B, D}"
    assert tree.predict(platforms()).tolist() == pytest.approx(platforms()["time_s"].tolist())


def test_an_absent_flag_is_a_word_of_its_own() -> None:
    table = pd.DataFrame({"dlcm": ["ca", None, "cg", None], "time_s": [1.0, 5, 1, 5]})
    tree = grow(table, "time_s", ["dlcm"], Growth(relative_threshold=0.1))
    assert [str(leaf.box) for leaf in tree.root.leaves()] == ["dlcm in {ca, cg}", "dlcm = absent"]
    assert [leaf.box.holds(table).sum() for leaf in tree.root.leaves()] == [2, 2]


@pytest.mark.parametrize(
    ("absent_s", "low", "high"),
    [(1.0, "8..64, absent", "128..256"), (5.0, "8..64", "128..256, absent")],
)
def test_a_flag_with_numbers_keeps_their_order_beside_absent(
    absent_s: float, low: str, high: str
) -> None:
    values = [8, 16, 32, 64, 128, 160, 192, 256]
    rows = [(value, 1.0 if value <= 64 else 5.0) for value in values] + [(None, absent_s)]
    table = pd.DataFrame(rows * 4, columns=["maxrregcount", "time_s"])
    table["maxrregcount"] = pd.Series([value for value, _ in rows * 4], dtype=object)
    tree = grow(table, "time_s", ["maxrregcount"], Growth(relative_threshold=1e-4))
    found = {str(leaf.box): leaf.mean for leaf in tree.root.leaves()}
    expected = {f"maxrregcount in {{{low}}}": 1.0, f"maxrregcount in {{{high}}}": 5.0}
    assert found == pytest.approx(expected)


def test_the_numbers_of_a_flag_are_never_parted_out_of_order() -> None:
    """Noise in which the best two sets of words would be scattered."""
    rng = np.random.default_rng(0)
    values = [None, *range(16, 256, 16)]
    column = rng.choice(np.array(values, dtype=object), 200)
    table = pd.DataFrame({"F": pd.Series(column, dtype=object), "time_s": rng.uniform(1, 2, 200)})
    tree = grow(table, "time_s", ["F"], Growth(relative_threshold=1e-3))
    for leaf in tree.root.leaves():
        part = leaf.box.parts["F"]
        numbers = [values.index(value) for value in part.values if value is not None]
        assert numbers == list(range(min(numbers, default=0), max(numbers, default=-1) + 1))


def test_words_of_a_larger_table_are_predicted_by_the_mean() -> None:
    table = platforms()
    part = table[table["platform"] != "D"]
    with pytest.raises(UsageError, match="`D` was not among the samples; known are A, B, C"):
        grow(part, "time_s", ["platform"], Growth(relative_threshold=0.1)).predict(table)
    found = cross_validate(
        lambda rows: grow(
            rows, "time_s", axes_of(table, ["platform", "TILE"]), Growth(relative_threshold=0.1)
        ),
        table,
        "time_s",
        groups="platform",
    )
    assert found.folds == 4


def test_tables_that_do_not_fit_are_not_pooled() -> None:
    one = pd.DataFrame({"A": [1], "time_s": [1.0]})
    with pytest.raises(UsageError, match="X and Y do not both have the columns B"):
        pool({"X": one, "Y": one.assign(B=1)})
    with pytest.raises(UsageError, match="a column `platform` already"):
        pool({"X": one.assign(platform="x")})


# ------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("growing", "message"),
    [
        (lambda: grow(samples(), "time", ["n"]), r"no column `time`; did you mean `time_s`\?"),
        (lambda: grow(samples(), "time_s", []), "name one parameter or more"),
        (lambda: grow(samples(), "time_s", ["n", "time_s"]), "cannot be a parameter too"),
        (lambda: grow(samples(1), "time_s", ["n"]), "needs 2 samples with a time_s; there are 1"),
        (lambda: grow(samples().assign(n=np.nan), "time_s", ["n"]), "no number in 120 of 120"),
        (lambda: grow(samples().assign(time_s="x"), "time_s", ["n"]), "must hold numbers"),
        (
            lambda: grow(samples().assign(time_s=0.0), TreeTarget("time_s", log=True), ["n"]),
            "time_s must be above 0",
        ),
        (lambda: Growth(relative_threshold=float("nan")), "must be 0 or more"),
        (lambda: Growth(folds=1), "folds must be 2 or more"),
    ],
)
def test_what_cannot_be_grown_is_told(growing: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        growing()


# ---------------------------------------------------------------------------- regression, by hand


def test_the_interval_of_a_median_is_of_order_statistics() -> None:
    """Of 100, the 41st and the 60th: 50 -+ 1.96 x 5 rounded outwards."""
    errors = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    found = summarize(errors)
    assert found.median == Estimate(50.5, 41.0, 60.0)
    assert (found.ninth_decile, found.count) == (pytest.approx(90.1), 100)


def test_the_interval_of_few_is_all_of_them() -> None:
    assert summarize(np.array([3.0, 1.0, 2.0])).median == Estimate(2.0, 1.0, 3.0)
    assert summarize(np.array([4.0])) == ErrorSummary(Estimate(4.0, 4.0, 4.0), 4.0, 1)


def test_errors_are_relative_and_those_of_a_group_count_once() -> None:
    predicted, actual = np.array([1.5, 1.0, -3.0, 9.0]), np.array([1.0, 2.0, -2.0, 0.0])
    assert relative_errors(predicted, actual).median.value == 0.5
    assert relative_errors(predicted, actual).count == 3
    grouped = relative_errors(np.array([2.0, 1.0, 5.0]), np.array([1.0, 1.0, 1.0]), ["a", "a", "b"])
    assert (grouped.median.low, grouped.median.high, grouped.count) == (0.5, 4.0, 2)


def test_sums_of_squares_and_gains_are_in_the_units_of_the_values() -> None:
    columns, values = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 12.0, 20.0, 26.0])
    found = fit(columns, values, threshold=0.01)
    assert found.means == pytest.approx([17.0, 11.0, 23.0])
    assert found.sse == pytest.approx([164.0, 2.0, 18.0])
    assert found.gains == pytest.approx([144 / 164, 0.0, 0.0])
    assert found.predict(np.array([[1.0], [0.0]])) == pytest.approx([23.0, 11.0])
    whole = fit(columns, values, threshold=0.9)
    assert whole.means == pytest.approx([17.0]), "144 / 164 is less than the threshold"


def test_equal_values_have_one_leaf() -> None:
    found = fit(np.array([[0.0], [1.0]]), np.array([3.0, 3.0]), threshold=0.0)
    assert (found.means.tolist(), found.sse.tolist()) == ([3.0], [0.0])


def test_a_split_that_gains_just_the_threshold_is_made() -> None:
    columns, values = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 12.0, 20.0, 26.0])
    found = fit(columns, values, threshold=0.01)
    gain = float(found.gains[0])
    thresholds = np.array([gain, np.nextafter(gain, 1.0), 0.02])
    predicted = found.predict_for(thresholds, np.array([[0.0], [1.0]]))
    assert predicted == pytest.approx(np.array([[11.0, 23.0], [17.0, 17.0], [11.0, 23.0]]))
    (at_the_least,) = found.predict_for(np.array([gain]), np.array([[0.0], [1.0]]))
    assert at_the_least == pytest.approx([11.0, 23.0])


def test_only_finite_tables_are_plain() -> None:
    plain = as_plain(np.array([[1.0, 2.0]]))
    assert plain is not None
    assert (plain.dtype, plain.tolist()) == (np.float32, [[1.0, 2.0]])
    for other in (np.array([[1.0, np.inf]]), np.array([1.0, 2.0]), np.zeros((0, 2))):
        assert as_plain(other) is None
