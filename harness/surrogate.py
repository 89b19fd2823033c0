"""A Gaussian process over configurations: what a few measurements say about all others.

The covariance of two configurations is

    k(x, x') = a / d * sum_i m(|x_i - x'_i| / l_i) + p * prod_i m(|x_i - x'_i| / l_i)

with the Matern 5/2 function m: each parameter has an effect of its own (Duvenaud, Nickisch,
Rasmussen, "Additive Gaussian Processes", NIPS 2011), which few measurements suffice to learn,
and all interact. Length scales l, the two variances and the noise are those of the greatest
posterior density (Rasmussen, Williams, "Gaussian Processes for Machine Learning", 2006, 5.4.1),
under wide log-normal priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr

from harness.records import Value
from harness.space import position_of
from harness.spec import Parameter

Array = npt.NDArray[np.float64]

_ROOT_5 = 5**0.5
_JITTER = 1e-8
_ITERATIONS = 15
_LEARNT_FROM = 128

# Medians and widths of the priors, of logarithms: length scales of parameters that span 1, the
# variances of outputs that are standardised, and their noise.
_LENGTH, _VARIANCE, _NOISE = (0.7, 1.0), (1.0, 1.0), (1e-2, 1.5)
_BOUNDS = ((-3.0, 3.0), (-5.0, 3.0), (-9.0, 1.0))


class Encoder:
    """Configurations as points of [0, 1]^d, one axis a parameter.

    A scale stands by the position of its value. The values of an enumeration are all equally
    far apart: its axis holds positions, of which only equality counts.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        """Parameters of one value are left out."""
        self._parameters = [p for p in parameters if len(p.values) > 1]
        self.is_category = np.array([p.kind == "enum" for p in self._parameters])

    def points(self, configs: Sequence[Mapping[str, Value]]) -> Array:
        """Shape (configurations, axes)."""
        rows = [[_place(p, config) for p in self._parameters] for config in configs]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self._parameters))


def _place(parameter: Parameter, config: Mapping[str, Value]) -> float:
    position = position_of(parameter, config[parameter.name])
    assert position is not None
    return position / (len(parameter.values) - 1)


class Surrogate:
    """A Gaussian process on points of [0, 1]^d; the axes of `is_category` hold categories."""

    def __init__(self, is_category: npt.NDArray[np.bool_]) -> None:
        self._is_category = is_category
        axes = len(is_category)
        priors = [_LENGTH] * axes + [_VARIANCE] * 2 + [_NOISE]
        self._median = np.log([median for median, _ in priors])
        self._width = np.array([width for _, width in priors])
        self._bounds = [_BOUNDS[0]] * axes + [_BOUNDS[1]] * 2 + [_BOUNDS[2]]
        self._logs = self._median.copy()

    def fit(self, points: Array, outputs: Array, learn: bool = True) -> None:
        """Condition on standardised outputs, shape (points,); `learn` also fits length scales,
        variances and noise, from where they are and to the first 128 points."""
        if learn:
            self._learn(points[:_LEARNT_FROM], outputs[:_LEARNT_FROM])
        self._points = points
        covariance = self._covariance(points)
        covariance[np.diag_indices_from(covariance)] += np.exp(self._logs[-1]) + _JITTER
        self._factor = cho_factor(covariance, lower=True)
        self._weights = cho_solve(self._factor, outputs)

    def _learn(self, points: Array, outputs: Array) -> None:
        found = minimize(
            self._loss,
            self._logs,
            args=(self._distances(points, points), outputs),
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": _ITERATIONS},
        )
        self._logs = found.x

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at points, each of shape (points,)."""
        covariance = self._covariance(points)
        explained = solve_triangular(self._factor[0], covariance.T, lower=True)
        variance = np.exp(self._logs[-3:-1]).sum() - np.square(explained).sum(axis=0)
        mean: Array = covariance @ self._weights
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def _distances(self, one: Array, other: Array) -> Array:
        """Along each axis, shape (axes, points, points)."""
        distances: Array = np.abs(one.T[:, :, None] - other.T[:, None, :])
        distances[self._is_category] = distances[self._is_category] > 0
        return distances

    def _covariance(self, points: Array) -> Array:
        """Of these points with those that were fitted, without noise.

        An axis has few places, so that its function is computed once a place.
        """
        additive, joint = np.exp(self._logs[-3:-1])
        sums = np.zeros((len(points), len(self._points)))
        products = np.ones_like(sums)
        for axis, (mine, fitted) in enumerate(zip(points.T, self._points.T, strict=True)):
            places, of_point = np.unique(mine, return_inverse=True)
            apart = np.abs(places[:, None] - fitted[None, :])
            apart = (apart > 0).astype(float) if self._is_category[axis] else apart
            alike = _matern(apart / np.exp(self._logs[axis]))[of_point]
            sums += alike
            products *= alike
        covariance: Array = additive / points.shape[1] * sums + joint * products
        return covariance

    def _loss(self, logs: Array, distances: Array, outputs: Array) -> tuple[float, Array]:
        """The negative log posterior of the hyper-parameters' logarithms, and its gradient."""
        lengths = np.exp(logs[:-3])[:, None, None]
        additive, joint, noise = np.exp(logs[-3:])
        scaled = distances / lengths
        decay = np.exp(-_ROOT_5 * scaled)
        axes = (1 + _ROOT_5 * scaled + 5 / 3 * scaled**2) * decay
        sums, products = axes.mean(axis=0), axes.prod(axis=0)
        covariance = additive * sums + joint * products
        covariance[np.diag_indices_from(covariance)] += noise + _JITTER
        try:
            factor = cho_factor(covariance, lower=True)
        except LinAlgError:
            return 1e10, np.zeros_like(logs)
        weights = cho_solve(factor, outputs)
        slope = np.outer(weights, weights) - cho_solve(factor, np.eye(len(outputs)))
        # Of an axis with respect to the logarithm of its length.
        turned = 5 / 3 * scaled**2 * (1 + _ROOT_5 * scaled) * decay
        shares = additive / len(axes) + joint * products / np.maximum(axes, 1e-300)
        gradient = np.empty_like(logs)
        gradient[:-3] = np.einsum("ij,aij,aij->a", slope, turned, shares)
        gradient[-3] = additive * (slope * sums).sum()
        gradient[-2] = joint * (slope * products).sum()
        gradient[-1] = noise * np.trace(slope)
        off = (logs - self._median) / self._width
        fit = 0.5 * outputs @ weights + np.log(np.diag(factor[0])).sum()
        return float(fit + 0.5 * off @ off), -0.5 * gradient + off / self._width


def _matern(scaled: Array) -> Array:
    """The Matern 5/2 function of distances over the length scale."""
    value: Array = (1 + _ROOT_5 * scaled + 5 / 3 * scaled**2) * np.exp(-_ROOT_5 * scaled)
    return value


def standardised(times_s: Array) -> Array:
    """Times as outputs of mean 0 and deviation 1, the best the lowest.

    The logarithm of the time over the best, compressed beyond a factor of e: it is among the
    fast configurations that the model must tell differences. Failures (infinite times) count as
    the slowest that worked.
    """
    works = np.isfinite(times_s)
    logs = np.log(np.where(works, times_s, 1.0) / times_s[works].min())
    outputs = np.where(logs > 1, 1 + np.log(np.maximum(logs, 1.0)), logs)
    outputs = np.where(works, outputs, outputs[works].max())
    spread = float(outputs.std())
    centred: Array = outputs - outputs.mean()
    return centred / spread if spread > 0 else centred


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """How far below the best an output is expected to fall (Jones, Schonlau, Welch, "Efficient
    Global Optimization of Expensive Black-Box Functions", 1998)."""
    gap = (best - mean) / deviation
    density = np.exp(-0.5 * gap**2) / np.sqrt(2 * np.pi)
    improvement: Array = deviation * (gap * ndtr(gap) + density)
    return improvement
