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
    mean, deviation = found.predict(unseen)
    np.testing.assert_allclose(mean, across @ np.linalg.solve(own, outputs_of(POINTS)), atol=2e-3)
    explained = np.einsum("ij,ji->i", across, np.linalg.solve(own, across.T))
    np.testing.assert_allclose(deviation, np.sqrt(variance - explained), atol=2e-2)


def test_points_believed_are_as_if_measured_with_the_predicted_means():
    pending, unseen = RNG.random((3, 4)), RNG.random((50, 4))
    found, anew = fitted(), fitted()
    believed, _ = anew.predict(pending)
    found.believe(pending[:1])
    found.believe(pending[1:])
    outputs = np.append(outputs_of(POINTS), believed)
    anew.fit(np.vstack([POINTS, pending]), outputs, learn=False)
    np.testing.assert_allclose(found.means(unseen), fitted().means(unseen), atol=1e-3)
    np.testing.assert_allclose(found.predict(unseen), anew.predict(unseen), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [1, 64, 500])
@pytest.mark.parametrize("best", [-30.0, -1.0, 0.5, 30.0])
def test_the_most_promising_point_has_the_greatest_improvement(count, best):
    found = fitted(POINTS[:8], learn=False)
    unseen, shifts = RNG.random((count, 4)), RNG.normal(size=count) / 3
    mean, deviation = found.predict(unseen)
    # How far below the best an output falls on average, summed in small steps.
    steps = np.linspace(-8, 8, 8001)
    below = np.maximum(best - (mean + shifts)[:, None] - deviation[:, None] * steps, 0)
    gains = below @ norm.pdf(steps) * (steps[1] - steps[0])
    index, gain = found.most_promising(unseen, shifts, best)
    assert gain == pytest.approx(gains[index], rel=1e-4, abs=1e-12)
    assert gain == pytest.approx(gains.max(), rel=1e-4, abs=1e-12)
    assert found.means(unseen).tolist() == mean.tolist()


def test_points_without_axes_are_all_alike():
    found = Surrogate(np.zeros(0, dtype=np.intp), np.zeros(0))
    found.fit(np.empty((3, 0)), np.array([-1.0, 0.0, 1.0]))
    mean, deviation = found.predict(np.empty((2, 0)))
    assert mean == pytest.approx([0, 0], abs=1e-6)
    assert deviation[0] == deviation[1] > 0


def test_points_that_were_measured_twice_and_equal_outputs_do_no_harm():
    for outputs in (outputs_of(POINTS), np.zeros(len(POINTS))):
        found = model()
        found.fit(np.vstack([POINTS, POINTS]), np.tile(outputs, 2))
        mean, deviation = found.predict(POINTS)
        assert np.abs(mean - outputs).max() < 0.1
        assert np.isfinite(deviation).all()


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
