"""Least squares with intervals that hold where variances differ and rows come in clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SINGULAR = 1e-9  # of the largest eigenvalue
_MOST_LEVERAGE = 0.99


@dataclass(frozen=True)
class Fit:
    """Coefficients, shape (columns,), with their covariance, shape (columns, columns);
    `estimable` says which of them the rows determine at all. `freedom` is that of Student's t,
    `residuals` has shape (rows,), `inverse` is that of the columns' products."""

    coefficients: Array
    covariance: Array
    estimable: npt.NDArray[np.bool_]
    freedom: int
    residuals: Array
    inverse: Array

    @property
    def errors(self) -> Array:
        """Standard errors."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def p_values(self) -> Array:
        """Two-sided, that a coefficient is 0; 1 where it is not estimable."""
        from scipy.special import stdtr  # here: it takes time to load

        errors = self.errors
        usable = self.estimable & (errors > 0)
        ratios = np.abs(self.coefficients) / np.where(usable, errors, 1.0)
        exact = self.estimable & (errors == 0) & (self.coefficients != 0)
        found: Array = np.where(usable, 2 * stdtr(self.freedom, -ratios), np.where(exact, 0.0, 1.0))
        return found

    def half_widths(self, confidence: float = 0.95) -> Array:
        """Half the interval of each coefficient."""
        from scipy.special import stdtrit

        widths: Array = stdtrit(self.freedom, 0.5 + confidence / 2) * self.errors
        return widths


def within(values: Array, groups: npt.NDArray[np.intp]) -> Array:
    """Rows, shape (rows, columns), without the mean of their group: what a constant of its own
    for each group would take away (Frisch and Waugh, 1933)."""
    counts = np.bincount(groups).astype(np.float64)
    sums = np.zeros((len(counts), values.shape[1]))
    np.add.at(sums, groups, values)
    centred: Array = values - (sums / np.maximum(counts, 1)[:, None])[groups]
    return centred


def degrees_of_freedom(clusters: npt.NDArray[np.intp], groups: int) -> int:
    """What is left for coefficients and their intervals: rows of one cluster are one, and the
    means of the groups take one each where the groups share no clusters."""
    return min(len(np.unique(clusters)), len(clusters) - groups + 1) - 1


def fit(columns: Array, outputs: Array, groups: int, clusters: npt.NDArray[np.intp]) -> Fit:
    """Regress outputs, shape (rows,), on columns, shape (rows, columns), both without the means of
    `groups` groups; rows of one cluster may depend on each other.

    The covariance is the sandwich of Liang and Zeger, "Longitudinal Data Analysis Using Generalized
    Linear Models" (1986), with each cluster's residuals as if the others alone had been fitted: CR3
    (Bell and McCaffrey, "Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
    Samples", 2002), which errs on the safe side in small samples. With a row a cluster it is HC3.
    """
    values, vectors = np.linalg.eigh(columns.T @ columns)
    kept = values > _SINGULAR * max(float(values.max(initial=0.0)), 1e-300)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    coefficients = inverse @ (columns.T @ outputs)
    residuals = outputs - columns @ coefficients
    whitened = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    left_out = _left_out(whitened, residuals, clusters)
    scores = np.zeros((int(clusters.max()) + 1, columns.shape[1]))
    np.add.at(scores, clusters, columns * left_out[:, None])
    estimable = (np.abs(vectors[:, ~kept]) < 1e-6).all(axis=1)
    freedom = degrees_of_freedom(clusters, groups) - int(kept.sum())
    return Fit(
        coefficients,
        inverse @ (scores.T @ scores) @ inverse,
        estimable,
        max(1, freedom),
        residuals,
        inverse,
    )


def _left_out(whitened: Array, residuals: Array, clusters: npt.NDArray[np.intp]) -> Array:
    """The residuals, shape (rows,), of each cluster when the others alone are fitted.

    They are (I - H)^-1 times its own ones, where H, its part of the hat matrix, is the product of
    its `whitened` rows, shape (rows, rank), with themselves. Clusters of a size go together.
    """
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    size_of_row = sizes[clusters[order]]
    found: Array = residuals.copy()
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = order[size_of_row == size].reshape(-1, size)  # shape (clusters, size)
        own = residuals[rows][:, :, None]
        vectors, singular, _ = np.linalg.svd(whitened[rows], full_matrices=False)
        leverage = np.minimum(singular**2, _MOST_LEVERAGE)[:, :, None]
        part = vectors * (leverage / (1 - leverage)).transpose(0, 2, 1)
        found[rows] = (own + part @ (vectors.transpose(0, 2, 1) @ own))[:, :, 0]
    return found
