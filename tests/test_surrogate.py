"""The Gaussian process: its gradient, what it predicts, and what it expects to gain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import norm

from harness.spec import Parameter
from harness.surrogate import Encoder, Surrogate, expected_improvement, standardised

RNG = np.random.default_rng(0)
POINTS = RNG.integers(0, 4, (40, 4)) / 3
SCALES = np.zeros(4, dtype=bool)


def outputs_of(points: np.ndarray) -> np.ndarray:
    return np.sin(3 * points[:, 0]) + points[:, 1] * points[:, 2]


def fitted(is_category: np.ndarray = SCALES) -> Surrogate:
    outputs = outputs_of(POINTS)
    model = Surrogate(is_category)
    model.fit(POINTS, (outputs - outputs.mean()) / outputs.std())
    return model


def test_gradient_of_the_posterior_is_that_of_finite_differences() -> None:
    model = Surrogate(np.array([False, True, False, False]))
    logs = model._logs + RNG.normal(size=len(model._logs)) / 3
    distances = model._distances(POINTS, POINTS)
    outputs = outputs_of(POINTS)
    _, gradient = model._loss(logs, distances, outputs)
    numeric = approx_fprime(logs, lambda at: model._loss(at, distances, outputs)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


def test_posterior_and_prediction_use_one_covariance() -> None:
    model = fitted(np.array([False, True, False, False]))
    additive, joint = np.exp(model._logs[-3:-1])
    scaled = model._distances(POINTS, POINTS) / np.exp(model._logs[:-3])[:, None, None]
    axes = (1 + 5**0.5 * scaled + 5 / 3 * scaled**2) * np.exp(-(5**0.5) * scaled)
    expected = additive * axes.mean(axis=0) + joint * axes.prod(axis=0)
    np.testing.assert_allclose(model._covariance(POINTS), expected)


def test_unseen_points_are_predicted() -> None:
    unseen = RNG.integers(0, 4, (200, 4)) / 3
    outputs = outputs_of(POINTS)
    mean, _ = fitted().predict(unseen)
    wanted = (outputs_of(unseen) - outputs.mean()) / outputs.std()
    assert np.abs(mean - wanted).mean() < 0.15


def test_model_is_surer_where_it_was_fitted() -> None:
    model = Surrogate(np.zeros(1, dtype=bool))
    near = np.array([[0.0], [0.1]])
    model.fit(near, np.array([-1.0, 1.0]))
    _, deviation = model.predict(np.array([[0.0], [1.0]]))
    assert deviation[0] < deviation[1]


def test_categories_are_all_equally_far_apart() -> None:
    model = Surrogate(np.array([True]))
    distances = model._distances(np.array([[0.0]]), np.array([[0.0], [0.5], [1.0]]))
    assert distances.tolist() == [[[0.0, 1.0, 1.0]]]


def test_encoder_places_values_and_leaves_out_what_never_varies() -> None:
    encoder = Encoder(
        [
            Parameter("A", "ordered", (1, 2, 4), "source", 1),
            Parameter("B", "enum", ("x", "y"), "choice", "x"),
            Parameter("C", "ordered", (7,), "source", 7),
        ]
    )
    assert encoder.is_category.tolist() == [False, True]
    assert encoder.points([{"A": 2, "B": "y", "C": 7}]).tolist() == [[0.5, 1.0]]


def test_failures_count_as_the_slowest_that_worked() -> None:
    outputs = standardised(np.array([1.0, np.inf, 30.0, 2.0]))
    assert outputs[1] == outputs[2] == outputs.max()
    assert outputs.argmin() == 0
    assert (outputs.mean(), outputs.std()) == (pytest.approx(0), pytest.approx(1))


def test_equal_times_have_outputs_of_zero() -> None:
    assert standardised(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1.5, 0.5), (-1.0, 0.1)])
def test_expected_improvement_is_the_integral_that_it_stands_for(
    mean: float, deviation: float
) -> None:
    integral, _ = quad(lambda y: max(0.0, -y) * norm.pdf(y, mean, deviation), -8, 8, points=[0])
    found = expected_improvement(np.array([mean]), np.array([deviation]), best=0.0)
    assert found[0] == pytest.approx(integral, rel=1e-6)
