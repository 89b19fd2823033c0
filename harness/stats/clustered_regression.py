"""Least squares with intervals that hold where variances differ and rows come in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SINGULAR = 1e-9  # of the largest eigenvalue
_SOLE = 1 - 1e-7  # the leverage of rows without which what they tell is not known at all
_FEW = 60.0  # clusters; Student's t hardly depends on more
_LOST = 1e-4  # of a coefficient's standard error with variances alike: more is no rounding


@dataclass(frozen=True)
class Fit:
    """Coefficients, shape (columns,), with their covariance, shape (columns, columns);
    `estimable` says which of them the rows determine, whichever cluster is left out: what one
    cluster alone tells has no interval. `freedom`, shape (columns,), is that of Student's t,
    `residuals` has shape (rows,), `inverse` is that of the columns' products."""

    coefficients: Array
    covariance: Array
    estimable: npt.NDArray[np.bool_]
    freedom: Array
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


def fit(
    columns: Array,
    outputs: Array,
    groups: npt.NDArray[np.intp],
    clusters: npt.NDArray[np.intp],
) -> Fit:
    """Regress outputs, shape (rows,), on columns, shape (rows, columns), both without the means of
    their `groups`, shape (rows,); rows of one of the `clusters` may depend on each other.

    The covariance is the sandwich of Liang and Zeger, "Longitudinal Data Analysis Using Generalized
    Linear Models" (1986), with each cluster's residuals as if the others alone had been fitted: CR3
    (Bell and McCaffrey, "Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
    Samples", 2002), which errs on the safe side in small samples. With a row a cluster it is HC3.
    Where few clusters tell a coefficient, as large ones do, the degrees of freedom are those of the
    same paper (Satterthwaite's, as if the rows of a cluster had one error).
    """
    values, vectors = np.linalg.eigh(columns.T @ columns)
    kept = values > _SINGULAR * max(float(values.max(initial=0.0)), 1e-300)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    coefficients = inverse @ (columns.T @ outputs)
    residuals = outputs - columns @ coefficients
    scale = vectors[:, kept] / np.sqrt(values[kept])
    whitened = _whitened(columns @ scale, groups)
    blocks, sole = _blocks(whitened, clusters)
    scores = _summed(columns * _left_out(residuals, blocks)[:, None], clusters)
    estimable = (np.abs(vectors[:, ~kept]) < 1e-6).all(axis=1)
    lost = np.abs(scale @ sole[:, : int(kept.sum())].T).max(axis=1, initial=0.0)
    estimable &= lost <= _LOST * np.sqrt(np.maximum(inverse.diagonal(), 0.0))
    freedom = degrees_of_freedom(clusters, len(np.unique(groups))) - int(kept.sum())
    freedoms = _freedoms(columns @ inverse, whitened, clusters, blocks)
    return Fit(
        coefficients,
        inverse @ (scores.T @ scores) @ inverse,
        estimable,
        np.clip(freedoms, 1, max(1, freedom)),
        residuals,
        inverse,
    )


def _whitened(columns: Array, groups: npt.NDArray[np.intp]) -> Array:
    """Orthonormal columns and, beside them, those of the groups' means, which are taken from the
    same rows: leaving out some of them changes these too."""
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means = (codes[:, None] == np.arange(len(names))) / np.sqrt(counts)
    return np.hstack([columns, means])


@dataclass(frozen=True)
class _Block:
    """Clusters of a size: their `rows`, shape (clusters, size), with the `vectors`, shape
    (clusters, size, rank), of their part H of the hat matrix, and what (I - H)^-1 adds along each,
    shape (clusters, 1, rank)."""

    rows: npt.NDArray[np.intp]
    vectors: Array
    added: Array


def _blocks(whitened: Array, clusters: npt.NDArray[np.intp]) -> tuple[list[_Block], Array]:
    """All clusters; and the directions, shape (directions, columns), that a single cluster
    determines. H is the product of a cluster's `whitened` rows, shape (size, columns), with
    themselves."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    size_of_row = sizes[clusters[order]]
    found, sole = list[_Block](), [np.empty((0, whitened.shape[1]))]
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = order[size_of_row == size].reshape(-1, size)
        vectors, singular, directions = np.linalg.svd(whitened[rows], full_matrices=False)
        is_sole = singular**2 >= _SOLE
        sole.append(directions[is_sole])
        leverage = np.where(is_sole, 0.0, singular**2)[:, None, :]
        found.append(_Block(rows, vectors, leverage / (1 - leverage)))
    return found, np.vstack(sole)


def _left_out(values: Array, blocks: Sequence[_Block]) -> Array:
    """(I - H)^-1 of each cluster times its own values, shape (rows,): of residuals those when the
    others alone are fitted."""
    found: Array = values.copy()
    for block in blocks:
        own = values[block.rows][:, :, None]
        part = block.vectors * block.added
        found[block.rows] += (part @ (block.vectors.transpose(0, 2, 1) @ own))[:, :, 0]
    return found


def _freedoms(
    weights: Array, whitened: Array, clusters: npt.NDArray[np.intp], blocks: Sequence[_Block]
) -> Array:
    """Of each coefficient, whose rows have these `weights`, shape (rows, coefficients): how many
    clusters of like size would tell as much (Carter, Schnepel, Steigerwald, "Asymptotic Behavior of
    a t-Test Robust to Cluster Heterogeneity", 2017); of few exactly, see `_satterthwaite`."""
    told = _summed(weights, clusters) ** 2
    squares = np.square(told).sum(axis=0)
    found: Array = np.square(told.sum(axis=0)) / np.where(squares > 0, squares, 1.0)
    found[squares == 0] = len(told)
    for place in np.flatnonzero(found < _FEW).tolist():
        adjusted = _left_out(weights[:, place], blocks)
        found[place] = _satterthwaite(adjusted, whitened, clusters)
    return found


def _satterthwaite(adjusted: Array, whitened: Array, clusters: npt.NDArray[np.intp]) -> float:
    """The degrees of freedom of the sum over clusters of (`adjusted` times residuals) squared:
    the trace of their covariance squared over that of its square.

    The sums are M times the clusters' errors, with M = D - U V^T of a diagonal and few columns.
    """
    diagonal = _summed(adjusted[:, None], clusters)
    own = _summed(whitened * adjusted[:, None], clusters)
    means = _summed(whitened, clusters)
    products = own.T @ own
    # M^T M = D^2 + left right^T
    left = np.hstack([diagonal * own, means, means])
    right = np.hstack([-means, -diagonal * own, means @ products])
    inner = right.T @ left
    trace = float((diagonal**2).sum() + np.trace(inner))
    crossed = float((diagonal**2 * (left * right).sum(axis=1, keepdims=True)).sum())
    squared = float((diagonal**4).sum()) + 2 * crossed + float((inner * inner.T).sum())
    return trace**2 / squared if squared > 0 else 1.0


def _summed(rows: Array, clusters: npt.NDArray[np.intp]) -> Array:
    """The sums of each cluster, shape (clusters, columns)."""
    sums = np.zeros((int(clusters.max()) + 1, rows.shape[1]))
    np.add.at(sums, clusters, rows)
    return sums
