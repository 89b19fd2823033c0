"""A Gaussian process over configurations: predicts all others from a few measurements.

The covariance of two points is the Matern 5/2 function of their distance, with one length scale a
feature. Length scales, variance and noise maximise the posterior density under log-normal priors
(Rasmussen, Williams, "Gaussian Processes for Machine Learning", 2006, 5.4.1). The prior of the
length scales grows with the square root of their number, so that distances, and with them the
predictions before anything is known, do not depend on how many features there are (Hvarfner,
Hellsten, Nardi, "Vanilla Bayesian Optimization Performs Great in High Dimensions", ICML 2024).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from harness.core.arrays import Array

Singles = npt.NDArray[np.float32]

_ROOT_5 = 5**0.5
_JITTER = 1e-8
_ITERATIONS = 15
_LEARNT_FROM = 128
_LEAST_VARIANCE = 1e-8

# Medians, and widths of the logarithms, of the priors for standardised outputs. The length scale is
# for one feature; with n features it is sqrt(n) times as long.
_LENGTH, _VARIANCE, _NOISE = (0.3, 0.5), (1.0, 1.0), (1e-3, 1.5)
_BOUNDS = ((-4.0, 4.0), (-5.0, 3.0), (-9.0, 1.0))


class Surrogate:
    """A Gaussian process on points of [0, 1]^axes; axes of one group share a length scale.

    `logs` are the logarithms of the length scales, by group, of the variance and of the noise.
    Their priors are normal, around `medians`, with the deviations `widths`. `evidence` is the
    posterior density's logarithm, up to a constant of the points.
    """

    def __init__(self, groups: npt.NDArray[np.intp], relative_lengths: Array) -> None:
        """Set the priors: `groups` has the group of each axis, from 0; `relative_lengths` has for
        each group how long its length scale is expected to be, relative to the others."""
        self._groups = groups
        count = len(relative_lengths)
        unit = _LENGTH[0] * np.square(1 / relative_lengths).sum() ** 0.5
        lengths = [(unit * relative, _LENGTH[1]) for relative in relative_lengths.tolist()]
        priors = [*lengths, _VARIANCE, _NOISE]
        self.medians = np.log([median for median, _ in priors])
        self.widths = np.array([width for _, width in priors])
        self._bounds = [_BOUNDS[0]] * count + [_BOUNDS[1], _BOUNDS[2]]
        self.logs = self.medians.copy()
        self.evidence = 0.0

    @property
    def variance(self) -> float:
        """The variance of an output about which nothing is known."""
        return float(np.exp(self.logs[-2]))

    @property
    def noise(self) -> float:
        """The variance of a measurement."""
        return float(np.exp(self.logs[-1])) + _JITTER

    def fit(self, points: Array, outputs: Array, learn: bool = True) -> None:
        """Condition on standardised outputs, shape (points,); `learn` also fits length scales,
        variance and noise, from their current values and to the first 128 points."""
        if learn:
            self._learn(points[:_LEARNT_FROM], outputs[:_LEARNT_FROM])
        self.points = self.scaled(points)
        self.factor = _factored(self._noisy(self.points))
        self._weights, _ = scipy.linalg.lapack.dpotrs(self.factor, outputs, lower=True)

    def predict(self, points: Array) -> Prediction:
        """Predict mean and standard deviation at points."""
        return Prediction(self, points)

    def means(self, points: Array) -> Array:
        """Predict the mean at points, shape (points,); deviations take most of the time of
        `predict`."""
        return self.means_of(self.covariance(self.scaled(points), self.points))

    def means_of(self, covariance: Singles) -> Array:
        """Compute the means of points from their covariance with the measured ones."""
        means: Singles = covariance @ self._weights.astype(np.float32)
        return means.astype(np.float64)

    def _noisy(self, scaled: Singles) -> Array:
        """Compute the covariance of points with each other, with noise."""
        covariance = self.covariance(scaled, scaled).astype(np.float64)
        covariance[np.diag_indices_from(covariance)] += self.noise
        return covariance

    def scaled(self, points: Array) -> Singles:
        """Divide points by the length scales, so that the covariance depends on the distance.

        Single precision, whose error is well below the noise: a proposal compares hundreds of
        candidates with hundreds of results.
        """
        scaled = points * (_ROOT_5 / np.exp(self.logs[self._groups]))
        return np.asarray(scaled, dtype=np.float32)

    def covariance(self, scaled: Singles, others: Singles) -> Singles:
        """Compute the covariance of points with others, without noise."""
        squares: Singles = scaled @ (-2 * others).T
        squares += np.square(scaled).sum(axis=1)[:, None]
        squares += np.square(others).sum(axis=1)
        # In place: to allocate a large array takes as long as to compute it.
        apart: Singles = np.sqrt(np.maximum(squares, 0, out=squares), out=squares)
        decay: Singles = np.negative(apart)
        np.exp(decay, out=decay)
        decay *= np.float32(self.variance)
        covariance: Singles = ((apart / np.float32(3) + 1) * apart + 1) * decay
        return covariance

    def _learn(self, points: Array, outputs: Array) -> None:
        optimum = scipy.optimize.minimize(
            self._loss,
            self.logs,
            args=(self._squares(points), outputs),
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": _ITERATIONS},
        )
        self.logs = optimum.x
        self.evidence = -float(optimum.fun)

    def _squares(self, points: Array) -> Array:
        """Compute squared distances by group, shape (groups, pairs); see `_pairs`."""
        one, other = _pairs(len(points))
        squares = np.zeros((len(self.logs) - 2, len(one)))
        for axis, group in enumerate(self._groups):
            squares[group] += np.square(points[one, axis] - points[other, axis])
        return squares

    def _loss(self, logs: Array, squares: Array, outputs: Array) -> tuple[float, Array]:
        """Compute the negative log posterior of the hyper-parameters' logarithms, and its
        gradient."""
        shrinkage = np.exp(-2 * logs[:-2])
        variance, noise = np.exp(logs[-2:])
        # The root's slope is infinite where the distance is 0.
        apart = np.sqrt(5 * (shrinkage @ squares) + 1e-14)
        decay = np.exp(-apart)
        covariance = variance * (1 + apart + apart**2 / 3) * decay
        pairs = _pairs(len(outputs))
        noisy = np.diag(np.full(len(outputs), variance + noise + _JITTER))
        noisy[pairs] = covariance
        factor, failed = scipy.linalg.lapack.dpotrf(noisy, lower=True)
        if failed:
            return 1e10, np.zeros_like(logs)
        weights, _ = scipy.linalg.lapack.dpotrs(factor, outputs, lower=True)
        inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=True)
        own = (np.square(weights) - np.diag(inverse)).sum()
        # Each pair counts twice.
        slope = 2 * (weights[pairs[0]] * weights[pairs[1]] - inverse[pairs])
        weighted = 5 / 3 * variance * (1 + apart) * decay * slope
        gradient = np.empty_like(logs)
        gradient[:-2] = (squares @ weighted) * shrinkage
        gradient[-2] = slope @ covariance + variance * own
        gradient[-1] = noise * own
        off = (logs - self.medians) / self.widths
        fit = 0.5 * outputs @ weights + np.log(np.diag(factor)).sum()
        return float(fit + 0.5 * off @ off), -0.5 * gradient + off / self.widths


class Prediction:
    """What a Gaussian process predicts at points: their means and deviations, shape (points,)."""

    def __init__(self, process: Surrogate, points: Array) -> None:
        self._process = process
        self._points = process.scaled(points)
        covariance = process.covariance(self._points, process.points)
        self.means = process.means_of(covariance)
        factor = process.factor.astype(np.float32)
        self._explained, _ = scipy.linalg.lapack.strtrs(factor, covariance.T, lower=True)
        explained = np.einsum("ij,ij->j", self._explained, self._explained)
        self._variances: Singles = process.variance - explained

    @property
    def deviations(self) -> Array:
        """The standard deviations."""
        return np.sqrt(np.maximum(self._variances, _LEAST_VARIANCE)).astype(np.float64)

    def believe(self, index: int) -> None:
        """Condition also on one of the points, as if it were measured with its predicted mean.

        That leaves all means as they are, so that the factor grows by a row and nothing is fitted
        anew.
        """
        covariance = self._process.covariance(self._points[[index]], self._points)
        row: Singles = covariance - self._explained[:, [index]].T @ self._explained
        row /= np.sqrt(max(float(self._variances[index]), 0.0) + self._process.noise)
        self._explained = np.vstack([self._explained, row])
        self._variances -= np.square(row[0])

    def improvements(self, shifts: Array, best: float) -> Array:
        """Compute how far below the best an output is expected to fall (Jones, Schonlau, Welch,
        "Efficient Global Optimization of Expensive Black-Box Functions", 1998); `shifts` are added
        to the means."""
        deviations = self.deviations
        gap = (best - self.means - shifts) / deviations
        density = np.exp(-0.5 * gap**2) / np.sqrt(2 * np.pi)
        improvements: Array = deviations * (gap * scipy.special.ndtr(gap) + density)
        return improvements


@lru_cache(maxsize=4)
def _pairs(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the rows and the columns below the diagonal of a square matrix."""
    return np.tril_indices(count, -1)


# LAPACK is called by name: around it, scipy.linalg takes as long for matrices of this size.


def _factored(covariance: Array) -> Array:
    """Compute the lower Cholesky factor; add a little noise while rounding leaves none.

    Above the diagonal the result has other numbers, which nobody reads: 0 there takes time.
    """
    jitter = _JITTER
    while True:
        factor: Array = np.array(covariance, order="F")
        factor, failed = scipy.linalg.lapack.dpotrf(
            factor, lower=True, clean=False, overwrite_a=True
        )
        if not failed:
            return factor
        jitter *= 10
        covariance[np.diag_indices_from(covariance)] += jitter


def logs_of(times_s: Array) -> Array:
    """Take the logarithms of times. Failures (infinite times) count as the slowest that worked; all
    are 0 where nothing worked."""
    works = np.isfinite(times_s)
    slowest: Array = times_s[works].max(initial=0.0) if works.any() else np.ones(())
    return np.log(np.where(works, times_s, slowest))


def standardised(times_s: Array) -> Array:
    """Standardise the logarithms of times to mean 0 and deviation 1; all 0 where they are equal."""
    logs = logs_of(times_s)
    spread = float(logs.std())
    centred: Array = logs - logs.mean()
    return centred / spread if spread > 0 else centred
