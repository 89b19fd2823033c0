"""How alike inputs are: features as numbers, and the nearest first."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.records import Input
from harness.models.encoding.inputs import feature_rows, nearest_first


def test_sizes_are_alike_by_their_ratio() -> None:
    others = [Input({"n": n}) for n in (1, 100, 4096, 300)]
    assert [o["n"] for o in nearest_first(Input({"n": 200}), others)] == [300, 100, 4096, 1]


def test_every_feature_counts_alike_whatever_its_range() -> None:
    """One feature goes from 1 to 2^20, the other from 1 to 2."""
    inputs = [Input({"m": m, "n": n}) for m, n in [(1, 1), (2**20, 2), (1, 2), (2**20, 1)]]
    rows = feature_rows(inputs)
    np.testing.assert_allclose(rows.std(axis=0), 1)


def test_words_are_equal_or_not_and_all_together_one_feature() -> None:
    inputs = [Input({"kind": kind}) for kind in ("a", "b", "c", "a")]
    rows = feature_rows(inputs)
    assert rows.shape == (4, 3)
    assert rows.var(axis=0).sum() == pytest.approx(1)
    apart = np.square(rows[:, None] - rows[None]).sum(axis=2)
    assert apart[0, 3] == 0
    assert apart[0, 1] == pytest.approx(apart[1, 2])
    assert [o["kind"] for o in nearest_first(inputs[1], [inputs[0], Input({"kind": "b"})])] == [
        "b",
        "a",
    ]


def test_what_is_the_same_for_all_has_no_column() -> None:
    inputs = [Input({"n": n, "k": 7, "kind": "a"}) for n in (1, 2, 3)]
    assert feature_rows(inputs).shape == (3, 1)
    assert feature_rows(inputs[:1]).shape == (1, 0)


@pytest.mark.parametrize("values", [(0, 1, 2), (-5, 0, 3), (0.5, 2**40, 1), (1, "wide", True)])
def test_no_logarithm_and_no_number_need_exist(values: tuple[int | float | str, ...]) -> None:
    rows = feature_rows([Input({"n": value}) for value in values])
    assert np.isfinite(rows).all()
    assert len(np.unique(rows, axis=0)) >= 2


def test_inputs_as_near_keep_their_order() -> None:
    others = [Input({"n": 8, "name": k}) for k in range(4)]
    assert nearest_first(Input({"n": 8, "name": 10}), others)[0] == others[3]
    same = [Input({"n": 16}), Input({"n": 4})]
    assert nearest_first(Input({"n": 8}), same) == same
    assert nearest_first(Input({"n": 8}), []) == []


def test_inputs_as_near_keep_their_order_whatever_the_columns_that_differ() -> None:
    """The distances of these two differ in the last bit."""
    rows = [(64, 0, None), (64, 5, "a"), (1000, 2.5, "a"), (2899, 5, "b"), (4527, 2.5, None)]
    others = [Input({"n": n, "m": m, "w": w}) for n, m, w in rows]
    nearest = nearest_first(Input({"n": "a", "m": 3, "w": "new"}), others)
    assert nearest[:2] == [others[2], others[4]]
