"""Stargazer's linear model: its curves, its steps, and what it predicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harness.core.errors import UsageError
from harness.models.starchart import axes_of
from harness.models.stargazer import fit_linear, natural_spline


def samples(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """A curve in A, a straight line in B for one choice alone, and C, which does nothing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "A": rng.choice([1, 2, 4, 8, 16, 32], rows),
            "B": rng.choice([0, 1], rows),
            "C": rng.choice([1, 2, 3, 4], rows),
            "LAYOUT": rng.choice(["row", "column"], rows),
        }
    )
    in_rows = (table["LAYOUT"] == "row").astype(float)
    return table.assign(time_s=np.sqrt(table["A"]) + 2 * table["B"] * in_rows)


PARAMETERS = ["A", "B", "C", "LAYOUT"]


def test_natural_splines_are_linear_outside_of_their_ends_and_smooth_within() -> None:
    knots = np.array([0.0, 0.25, 0.5, 1.0])
    values = np.linspace(-1, 2, 3001)
    columns = natural_spline(values, knots)
    assert columns.shape == (3001, 3)
    bends = np.diff(columns, 2, axis=0) / 1e-6
    outside = (values[1:-1] < -1e-2) | (values[1:-1] > 1 + 1e-2)
    assert np.abs(bends[outside]).max() < 1e-6
    assert np.abs(bends).max() > 1
    assert np.abs(np.diff(bends, axis=0)).max() < 0.1  # no jump in the second derivative


def test_a_natural_spline_interpolates_between_its_knots() -> None:
    from scipy.interpolate import CubicSpline

    knots = np.array([0.0, 0.2, 0.7, 1.0])
    heights = np.array([1.0, -2.0, 3.0, 0.5])
    basis = np.column_stack([np.ones(4), natural_spline(knots, knots)])
    coefficients = np.linalg.solve(basis, heights)
    between = np.linspace(0, 1, 50)
    found = np.column_stack([np.ones(50), natural_spline(between, knots)]) @ coefficients
    assert np.allclose(found, CubicSpline(knots, heights, bc_type="natural")(between))


def test_steps_find_the_curves_and_the_interaction_that_are_there() -> None:
    table = samples()
    model = fit_linear(table, "time_s", PARAMETERS)
    terms = [str(term) for term in model.terms]
    assert terms[0] == "A"
    assert {"B : LAYOUT", "LAYOUT : B"} & set(terms)
    assert list(model.describe())[1].startswith("    + A: 0.")
    assert list(model.r2) == sorted(model.r2)
    unseen = samples(seed=1)
    errors = model.predict(unseen) - unseen["time_s"]
    assert np.abs(errors).max() < 0.15
    residuals = model.predict(table) - table["time_s"]
    r2 = 1 - (residuals**2).mean() / table["time_s"].var(ddof=0)
    assert model.r2[-1] == pytest.approx(r2, abs=1e-9)


def test_words_of_a_larger_table_may_be_asked_for() -> None:
    table = samples()
    part = table[table["LAYOUT"] == "row"]
    known = fit_linear(part, "time_s", axes_of(table, PARAMETERS))
    assert np.isfinite(known.predict(table)).all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (samples().assign(time_s=1.0), "time_s is 1 in every row"),
        (samples().assign(time_s=np.inf), "400 of 400 rows have no time_s"),
        (samples().assign(A=1, B=1, C=1, LAYOUT="row"), "no parameter has more than one value"),
        (samples().drop(columns="A"), "no column `A`"),
    ],
)
def test_what_cannot_be_learnt_is_told(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_linear(table, "time_s", PARAMETERS)
