"""G-ADAPT's model: parameters from features, judged on inputs that were left out."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.core.records import Config
from harness.dispatch.gadapt import GAdapt
from harness.dispatch.learners import Starchart, candidate_table
from harness.dispatch.matrix import make_matrix
from harness.models import gadapt
from tests.helpers.matrices import table

CANDIDATES = pd.DataFrame(
    itertools.product(range(1, 9), (64, 256), ("tree", "atomic")), columns=["LU", "BLOCK", "IMPL"]
)


def inputs(count=40, seed=0):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(4, 15, count), rng.integers(1, 9, count)
    return pd.DataFrame({"m": 2**m, "n": n * 512})


def best_of(features):
    """LU is linear in n, the block goes by the ratio of the sizes, the implementation by m."""
    return pd.DataFrame(
        {
            "LU": features["n"] // 512,
            "BLOCK": np.where(features["m"] > features["n"], 64, 256),
            "IMPL": np.where(features["m"] > 1024, "tree", "atomic"),
        }
    )


def times(features):
    """1 ms for the best, 20 % more for each parameter that is off."""
    best = best_of(features).to_numpy()[:, None, :]
    wrong = (CANDIDATES.to_numpy()[None] != best).sum(axis=2)
    return 1e-3 * 1.2**wrong


# ----------------------------------------------------------------------------- the model


def test_planted_rules_are_found():
    unseen = inputs(seed=1)
    predicted = gadapt.fit(inputs(), best_of(inputs())).predict(unseen)
    hits = (predicted == best_of(unseen)).mean()
    assert hits["LU"] == 1.0
    assert hits.min() >= 0.9


def test_leaves_reach_legal_values_that_no_known_input_had():
    measured = inputs().query("n != 2048")
    unseen = pd.DataFrame({"m": [64, 4096], "n": 2048})
    model = gadapt.fit(measured, best_of(measured), {"LU": range(1, 9)})
    assert model.predict(unseen)["LU"].tolist() == [4, 4]
    # Without it, the nearest of those that were best.
    assert set(gadapt.fit(measured, best_of(measured)).predict(unseen)["LU"]) <= {3, 5}


def test_predicted_values_are_legal_far_outside_of_what_was_learnt():
    best = best_of(inputs())
    far = pd.DataFrame({"m": [1, 2**40, 0], "n": [2**40, 1, 0]})
    predicted = gadapt.fit(inputs(), best).predict(far)
    assert predicted.isin(best.to_dict("list")).all(axis=None)


def test_booleans_and_absent_flags_are_classes():
    known = inputs()
    wide = known["n"] > 2048
    best = pd.DataFrame({"fmad": wide, "dlcm": np.where(wide, "ca", None)})
    predicted = gadapt.fit(known, best).predict(known)
    assert predicted["fmad"].tolist() == predicted["dlcm"].notna().tolist() == wide.tolist()


def test_features_of_words_are_learnt_from():
    features = pd.DataFrame({"dtype": ["half", "float"] * 10, "n": range(1, 21)})
    best = pd.DataFrame({"TILE": [8, 4] * 10})
    unseen = pd.DataFrame({"dtype": ["float", "half"], "n": 40})
    assert gadapt.fit(features, best).predict(unseen)["TILE"].tolist() == [4, 8]


def test_tables_that_do_not_fit_are_refused():
    best = best_of(inputs())
    with pytest.raises(UsageError, match="40 and 39"):
        gadapt.fit(inputs(), best[1:])
    with pytest.raises(UsageError, match="`n`"):
        gadapt.fit(inputs(), best).predict(inputs()[["m"]])


# ---------------------------------------------------------------------------- candidates


def test_nearest_candidate_is_taken_of_those_that_apply():
    candidates = pd.DataFrame({"BLOCK": [64, 256, 1024], "IMPL": ["a", "a", "b"]})
    predicted = pd.DataFrame({"BLOCK": [256, 512, 64], "IMPL": ["a", "b", "a"]})
    some = np.array([[True, False, False], [True, True, False], [False, False, True]])
    for applies, nearest, is_exact in (
        (None, [1, 2, 0], [True, False, True]),
        (some, [0, 1, 2], [False] * 3),
    ):
        indices, exact = gadapt.nearest(predicted, candidates, applies)
        assert (indices.tolist(), exact.tolist()) == (nearest, is_exact)


# ------------------------------------------------------------------------------- judging


def test_accuracy_is_the_share_of_exact_hits_on_left_out_inputs():
    features = inputs(15)
    judged = gadapt.judge(features, CANDIDATES, times(features))
    slowdown = times(features)[range(15), judged.inputs["chosen"]] / 1e-3
    assert judged.accuracy == judged.within_5_percent == (slowdown == 1).mean() > 0.7
    assert judged.mean_fraction == pytest.approx(np.exp(-np.log(slowdown).mean()))
    assert judged.worst_fraction == pytest.approx(1 / slowdown.max())
    assert judged.worst_fraction < 1
    assert f"{judged.accuracy:.1%} of 15 inputs" in str(judged)


def test_left_out_inputs_teach_nothing():
    """Each of two groups wants what the other has never seen."""
    features = pd.DataFrame({"n": [1, 2, 3, 4, 101, 102, 103, 104]})
    candidates = pd.DataFrame({"IMPL": ["low", "high"]})
    time_s = np.where(features[["n"]] < 50, [[1.0, 2.0]], [[2.0, 1.0]])
    assert gadapt.judge(features, candidates, time_s).accuracy == 1.0
    model = gadapt.fit(features[:4], candidates.iloc[[0] * 4], {"IMPL": ["low", "high"]})
    assert set(model.predict(features[4:])["IMPL"]) == {"low"}


def test_a_choice_that_fails_reaches_nothing():
    tables = pd.DataFrame({"n": [1, 2, 3, 4]}), pd.DataFrame({"IMPL": ["a", "b"]})
    time_s = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [np.inf, 1.0]])
    judged = gadapt.judge(*tables, time_s)
    assert (judged.worst_fraction, judged.mean_fraction) == (0.0, 0.0)
    masked = gadapt.judge(*tables, time_s, np.isfinite(time_s))
    assert (masked.worst_fraction, masked.inputs["candidate"].mean()) == (1.0, 0.75)
    with pytest.raises(UsageError, match="no candidate worked"):
        gadapt.judge(*tables, np.full((4, 2), np.inf))


# --------------------------------------------------------------- as learners of candidates


def matrix(features, applies=None):
    configs = [Config(row) for row in CANDIDATES.to_dict("records")]
    return make_matrix(features, configs, times(features), applies=applies)


def test_choices_that_are_numbers_have_nothing_between_them():
    """Small inputs want 0 and large ones 2, with a noisy border; none wants 1."""
    rng = np.random.default_rng(0)
    exponent = rng.uniform(4, 14, 30)
    wants_0 = exponent + rng.normal(0, 1.2, 30) < 9
    time_s = np.where(wants_0[:, None], [1.0, 1.5, 2.0], [2.0, 1.5, 1.0])
    features = pd.DataFrame({"m": (2**exponent).astype(int)})
    planted = dataclasses.replace(table(time_s, features), choices=frozenset(["BLOCK"]))
    unseen = pd.DataFrame({"m": np.unique((2 ** np.linspace(4, 14, 200)).astype(int))})
    applies = np.ones((len(unseen), 3), dtype=bool)
    assert set(GAdapt().fit(planted, 0).indices(unseen, applies)) == {0, 2}
    judged = gadapt.judge(features, candidate_table(planted), time_s)
    assert set(judged.inputs["chosen"]) == {0, 2}


both = pytest.mark.parametrize("learner", [GAdapt(), Starchart()], ids=["gadapt", "starchart"])


@both
def test_published_models_choose_well_and_only_what_applies(learner):
    chosen, unseen = learner.fit(matrix(inputs()), 0), matrix(inputs(seed=1))
    first = chosen.indices(unseen.features, unseen.applies)
    rows = range(len(first))
    logs = unseen.log_slowdown
    assert logs[rows, first].mean() < logs.mean(axis=0).min()
    applies = unseen.applies.copy()
    applies[rows, first] = False
    assert applies[rows, chosen.indices(unseen.features, applies)].all()


def test_a_word_that_no_known_input_had_is_chosen_for():
    features = pd.DataFrame({"n": range(12), "kind": ["dense", "sparse"] * 6})
    time_s = np.where(features[["n"]] < 6, [[1.0, 2.0]], [[20.0, 10.0]])
    chosen = Starchart().fit(table(time_s, features), 0)
    unseen = pd.DataFrame({"n": [1, 10], "kind": "banded"})
    assert chosen.indices(unseen, np.ones((2, 2), dtype=bool)).tolist() == [0, 1]


@both
def test_failures_and_what_was_not_measured_are_no_hindrance(learner):
    features = inputs(12)
    time_s = times(features)[:, :8]
    time_s[::2, 3], time_s[1::2, 5] = np.inf, np.nan
    values = itertools.product((None, 2, 4, 8), ("a", "b"))
    configs = [Config({"n": 1, "LU": lu, "w": word}) for lu, word in values]
    holed = make_matrix(features, configs, time_s, applies=~np.isnan(time_s))
    chosen = learner.fit(holed, 0).indices(features, holed.applies)
    assert holed.applies[range(12), chosen].all()
