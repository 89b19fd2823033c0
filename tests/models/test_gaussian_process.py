"""The Gaussian process: its gradient, what it predicts and how well it explains, and the gain
that it makes one expect."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from harness.models.gaussian_process import Surrogate, logs_of, standardised

Array = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
POINTS = RNG.integers(0, 5, (60, 4)) / 4
GROUPS = np.array([0, 1, 1, 2])
"""The second and the third axis share a length scale."""

LENGTHS = np.array([1.0, 1.0, 2.0])


def outputs_of(points):
    """Standardised over POINTS; the last axis says nothing."""
    raw, scale = (np.sin(3 * p[:, 0]) + p[:, 1] * p[:, 2] for p in (points, POINTS))
    return (raw - scale.mean()) / scale.std()


def model():
    return Surrogate(GROUPS, LENGTHS)


def fitted(points=POINTS, learn=True):
    found = model()
    found.fit(points, outputs_of(points), learn)
    return found


def matern(one, other, lengths, variance):
    """The covariance as textbooks have it, with one length scale an axis."""
    apart = np.linalg.norm((one[:, None] - other[None, :]) / lengths, axis=2) * 5**0.5
    return variance * (1 + apart + apart**2 / 3) * np.exp(-apart)


def printed(surrogate):
    """Length scales by axis, variance and noise."""
    *lengths, variance, noise = np.exp(surrogate.logs)
    return np.array(lengths)[GROUPS], variance, noise


# -------------------------------------------------------------------------- learning


def posterior(logs, outputs):
    """The logarithm of the density of the outputs under the prior and these hyper-parameters."""
    prior = model()
    *lengths, variance, noise = np.exp(logs)
    covariance = matern(POINTS, POINTS, np.array(lengths)[GROUPS], variance)
    given = multivariate_normal(np.zeros(60), covariance + (noise + 1e-8) * np.eye(60))
    return float(given.logpdf(outputs) + norm.logpdf(logs, prior.medians, prior.widths).sum())


def test_learning_finds_what_a_search_without_gradients_finds():
    found = model()
    outputs = outputs_of(POINTS) + np.random.default_rng(1).normal(0, 0.2, len(POINTS))
    found.fit(POINTS, outputs)
    best = minimize(lambda logs: -posterior(logs, outputs), found.medians, method="Nelder-Mead")
    assert posterior(found.logs, outputs) > -best.fun - 0.1
    assert posterior(found.medians, outputs) < -best.fun - 10


def test_evidence_is_the_density_of_the_outputs_under_the_prior_and_what_was_learnt():
    """Two learnt models differ by as much as their densities do."""
    outputs, differences = outputs_of(POINTS), []
    for given in (outputs, outputs[::-1].copy()):
        learnt = model()
        learnt.fit(POINTS, given)
        differences.append(learnt.evidence - posterior(learnt.logs, given))
    assert differences[0] == pytest.approx(differences[1], abs=1e-5)


def test_without_learning_hyper_parameters_and_evidence_stay():
    found = fitted()
    logs, evidence = found.logs.copy(), found.evidence
    found.fit(POINTS[:9], -outputs_of(POINTS[:9]), learn=False)
    assert (found.logs == logs).all()
    assert found.evidence == evidence


# ------------------------------------------------------------------------ predicting


def test_predictions_are_those_of_the_textbook():
    """Near what was measured, at it, and far from everything."""
    found, unseen = fitted(), np.vstack([RNG.random((50, 4)), POINTS, np.full((1, 4), 100.0)])
    lengths, variance, noise = printed(found)
    own = matern(POINTS, POINTS, lengths, variance) + noise * np.eye(len(POINTS))
    across = matern(unseen, POINTS, lengths, variance)
    predicted = found.predict(unseen)
    mean = across @ np.linalg.solve(own, outputs_of(POINTS))
    np.testing.assert_allclose(predicted.means, mean, atol=2e-3)
    explained = np.einsum("ij,ji->i", across, np.linalg.solve(own, across.T))
    np.testing.assert_allclose(predicted.deviations, np.sqrt(variance - explained), atol=2e-2)


def test_points_believed_are_as_if_measured_with_the_predicted_means():
    points, pending = RNG.random((50, 4)), [3, 40, 17]
    predicted, anew = fitted().predict(points), fitted()
    for index in pending:
        predicted.believe(index)
    outputs = np.append(outputs_of(POINTS), predicted.means[pending])
    anew.fit(np.vstack([POINTS, points[pending]]), outputs, learn=False)
    expected = anew.predict(points)
    np.testing.assert_allclose(predicted.means, expected.means, atol=1e-3)
    np.testing.assert_allclose(predicted.deviations, expected.deviations, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("best", [-30.0, -1.0, 0.5, 30.0])
def test_an_improvement_is_the_mean_of_how_far_outputs_fall_below_the_best(best):
    unseen, shifts = RNG.random((64, 4)), RNG.normal(size=64) / 3
    predicted = fitted(POINTS[:8], learn=False).predict(unseen)
    steps = np.linspace(-8, 8, 8001)
    outputs = (predicted.means + shifts)[:, None] + predicted.deviations[:, None] * steps
    improvements = np.maximum(best - outputs, 0) @ norm.pdf(steps) * (steps[1] - steps[0])
    found = predicted.improvements(shifts, best)
    np.testing.assert_allclose(found, improvements, rtol=1e-4, atol=1e-12)


def test_points_without_axes_are_all_alike():
    found = Surrogate(np.zeros(0, dtype=np.intp), np.zeros(0))
    found.fit(np.empty((3, 0)), np.array([-1.0, 0.0, 1.0]))
    predicted = found.predict(np.empty((2, 0)))
    assert predicted.means == pytest.approx([0, 0], abs=1e-6)
    assert predicted.deviations[0] == predicted.deviations[1] > 0


@pytest.mark.parametrize("outputs", [outputs_of(POINTS), np.zeros(len(POINTS))])
def test_points_that_were_measured_twice_and_equal_outputs_do_no_harm(outputs):
    found = model()
    found.fit(np.vstack([POINTS, POINTS]), np.tile(outputs, 2))
    predicted = found.predict(POINTS)
    assert np.abs(predicted.means - outputs).max() < 0.1
    assert np.isfinite(predicted.deviations).all()


# --------------------------------------------------------------------------- outputs


def test_failures_count_as_the_slowest_that_worked():
    times_s = np.array([1.0, np.inf, 30.0, 2.0])
    assert logs_of(times_s).tolist() == np.log([1, 30, 30, 2]).tolist()
    outputs = standardised(times_s)
    assert outputs[1] == outputs[2] == outputs.max()
    np.testing.assert_allclose(outputs, standardised(1e3 * times_s))  # whatever the unit
    assert (outputs.mean(), outputs.std()) == (pytest.approx(0), pytest.approx(1))


def test_where_nothing_differs_all_outputs_are_zero():
    for times_s in ([2.0, 2.0], [np.inf, np.inf], [3.0, np.inf], [5.0]):
        assert standardised(np.array(times_s)).tolist() == [0.0] * len(times_s)
