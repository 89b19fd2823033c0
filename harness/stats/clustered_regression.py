"""Linear regression with cluster-robust intervals for few, unequal clusters.

statsmodels' covariance "cluster-crv3" gives the same numbers. It takes 9 times as long for
2,000 clusters, refuses columns that one cluster alone determines, and has no degrees of freedom for
few clusters (Bell and McCaffrey), without which intervals are too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array, Flags, Indices

_SINGULAR = 1e-9  # relative to the largest eigenvalue
_SOLE = 1 - 1e-7  # leverage at which a cluster alone determines a direction
_FEW = 60.0  # clusters; with more, Student's t hardly depends on their number
_LOST = 1e-4  # largest part of a standard error that rounding may explain


@dataclass(frozen=True)
class Fit:
    """Coefficients, shape (columns,), with their covariance, shape (columns, columns).

    `estimable`, shape (columns,), marks the coefficients that the rows determine whichever cluster
    is left out. `freedom`, shape (columns,), are degrees of freedom of Student's t. `residuals` has
    shape (rows,). `inverse` is that of the columns' cross products, shape (columns, columns).
    """

    coefficients: Array
    covariance: Array
    estimable: Flags
    freedom: Array
    residuals: Array
    inverse: Array

    @property
    def errors(self) -> Array:
        """Standard errors, shape (columns,)."""
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def p_values(self) -> Array:
        """Return two-sided p-values of coefficients being 0; 1 where one is not estimable."""
        from scipy.special import stdtr  # here: it takes time to load

        errors = self.errors
        usable = self.estimable & (errors > 0)
        ratios = np.abs(self.coefficients) / np.where(usable, errors, 1.0)
        exact = self.estimable & (errors == 0) & (self.coefficients != 0)
        return np.where(usable, 2 * stdtr(self.freedom, -ratios), np.where(exact, 0.0, 1.0))

    def half_widths(self) -> Array:
        """Return half the 95 % confidence interval of each coefficient."""
        from scipy.special import stdtrit

        widths: Array = stdtrit(self.freedom, 0.975) * self.errors
        return widths


def demean(values: Array, groups: Indices) -> Array:
    """Subtract from each row, shape (rows, columns), the mean of its group.

    Regressing what remains is regressing with one constant per group (Frisch and Waugh, 1933).
    """
    counts = np.maximum(np.bincount(groups), 1)
    return values - (_summed(values, groups) / counts[:, None])[groups]


def degrees_of_freedom(clusters: Indices, groups: Indices) -> int:
    """Return the degrees of freedom left for coefficients and their intervals.

    A cluster counts as one row. The means of the groups take one each where the groups share no
    clusters.
    """
    return min(len(np.unique(clusters)), len(clusters) - len(np.unique(groups)) + 1) - 1


def fit(columns: Array, outputs: Array, groups: Indices, clusters: Indices) -> Fit:
    """Regress outputs, shape (rows,), on columns, shape (rows, columns).

    Both have the means of their `groups`, shape (rows,), subtracted (`demean`). Rows of the same
    one of the `clusters`, shape (rows,), may depend on each other.

    The covariance is the sandwich estimator of Liang and Zeger, "Longitudinal Data Analysis Using
    Generalized Linear Models" (1986), with the residuals that each cluster has when it is left out
    of the fit. That is CR3 (Bell and McCaffrey, "Bias Reduction in Standard Errors for Linear
    Regression with Multi-Stage Samples", 2002), which is conservative in small samples. With one
    row a cluster it is HC3. Where few clusters determine a coefficient, the degrees of freedom are
    Satterthwaite's of the same paper, for equal correlation inside a cluster.
    """
    values, vectors = np.linalg.eigh(columns.T @ columns)
    kept = values > _SINGULAR * max(float(values.max(initial=0.0)), 1e-300)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    coefficients = inverse @ (columns.T @ outputs)
    residuals = outputs - columns @ coefficients
    scale = vectors[:, kept] / np.sqrt(values[kept])
    whitened = _whitened(columns @ scale, groups)
    batches, sole = _batches(whitened, clusters)
    scores = _summed(columns * _left_out(residuals, batches)[:, None], clusters)
    estimable = (np.abs(vectors[:, ~kept]) < 1e-6).all(axis=1)
    lost = np.abs(scale @ sole[:, : int(kept.sum())].T).max(axis=1, initial=0.0)
    estimable &= lost <= _LOST * np.sqrt(np.maximum(inverse.diagonal(), 0.0))
    freedom = degrees_of_freedom(clusters, groups) - int(kept.sum())
    freedoms = _freedoms(columns @ inverse, whitened, clusters, batches)
    return Fit(
        coefficients,
        inverse @ (scores.T @ scores) @ inverse,
        estimable,
        np.clip(freedoms, 1, max(1, freedom)),
        residuals,
        inverse,
    )


def _whitened(columns: Array, groups: Indices) -> Array:
    """Append orthonormal columns for the groups' means to orthonormal columns.

    The means come from the same rows, so leaving out a cluster changes them too.
    """
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means = (codes[:, None] == np.arange(len(names))) / np.sqrt(counts)
    return np.hstack([columns, means])


@dataclass(frozen=True)
class _Batch:
    """Clusters of the same size, handled together.

    `rows`, shape (clusters, size), are their rows. H is a cluster's part of the hat matrix:
    `vectors`, shape (clusters, size, rank), are its singular vectors, and `added`, shape
    (clusters, 1, rank), is what (I - H)^-1 adds to the identity along each of them.
    """

    rows: Indices
    vectors: Array
    added: Array


def _batches(whitened: Array, clusters: Indices) -> tuple[list[_Batch], Array]:
    """Split clusters by size; return also the directions, shape (directions, columns), that one
    cluster alone determines. H is the product of a cluster's `whitened` rows with themselves."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    size_of_row = sizes[clusters[order]]
    found, sole = list[_Batch](), [np.empty((0, whitened.shape[1]))]
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = order[size_of_row == size].reshape(-1, size)
        vectors, singular, directions = np.linalg.svd(whitened[rows], full_matrices=False)
        is_sole = singular**2 >= _SOLE
        sole.append(directions[is_sole])
        leverage = np.where(is_sole, 0.0, singular**2)[:, None, :]
        found.append(_Batch(rows, vectors, leverage / (1 - leverage)))
    return found, np.vstack(sole)


def _left_out(values: Array, batches: Sequence[_Batch]) -> Array:
    """Multiply each cluster's values by its (I - H)^-1, shape (rows,).

    That turns residuals into those of a fit without the cluster.
    """
    found: Array = values.copy()
    for batch in batches:
        own = values[batch.rows][:, :, None]
        part = batch.vectors * batch.added
        found[batch.rows] += (part @ (batch.vectors.transpose(0, 2, 1) @ own))[:, :, 0]
    return found


def _freedoms(
    weights: Array, whitened: Array, clusters: Indices, batches: Sequence[_Batch]
) -> Array:
    """Return degrees of freedom, shape (coefficients,), from the rows' `weights` in each
    coefficient, shape (rows, coefficients).

    That is the number of equal clusters that would give as much information (Carter, Schnepel,
    Steigerwald, "Asymptotic Behavior of a t-Test Robust to Cluster Heterogeneity", 2017), and
    where it is small, the exact number of `_satterthwaite`.
    """
    information = _summed(weights, clusters) ** 2
    squares = np.square(information).sum(axis=0)
    found: Array = np.square(information.sum(axis=0)) / np.where(squares > 0, squares, 1.0)
    found[squares == 0] = len(information)
    few = np.flatnonzero(found < _FEW).tolist()
    means = _summed(whitened, clusters) if few else whitened
    both = means.T @ means
    for column in few:
        adjusted = _left_out(weights[:, column], batches)
        found[column] = _satterthwaite(adjusted, whitened, means, both, clusters)
    return found


def _satterthwaite(
    adjusted: Array, whitened: Array, means: Array, both: Array, clusters: Indices
) -> float:
    """Return the degrees of freedom of the sum over clusters of (`adjusted` times residuals)
    squared: the squared trace of their covariance over the trace of its square. `means` are the
    clusters' sums of `whitened`, `both` their cross products.

    The sums are M times the clusters' errors, with M = D - U V^T of a diagonal and few columns.
    """
    diagonal = _summed(adjusted[:, None], clusters)
    own = _summed(whitened * adjusted[:, None], clusters)
    scaled = diagonal * own
    # M^T M = D^2 + [DU, V, V] [-V, -DU, V U^T U]^T; the products of these two have nine blocks.
    products = own.T @ own
    mixed, squares = means.T @ scaled, scaled.T @ scaled
    outer, inner = products @ both, products @ mixed
    trace = float((diagonal**2).sum() - 2 * np.trace(mixed) + np.trace(outer))
    weighted = diagonal * means
    crossed = float((products * (weighted.T @ weighted)).sum())
    crossed -= 2 * float((diagonal**2 * (scaled * means).sum(axis=1, keepdims=True)).sum())
    blocks = 2 * (mixed * mixed.T).sum() + (outer * outer.T).sum()
    blocks += 2 * ((both * squares).sum() - (both * inner.T).sum() - (mixed * outer).sum())
    squared = float((diagonal**4).sum()) + 2 * crossed + float(blocks)
    return trace**2 / squared if squared > 0 else 1.0


def _summed(rows: Array, clusters: Indices) -> Array:
    """Sum the rows of each cluster, shape (clusters, columns)."""
    count = int(clusters.max()) + 1
    sums = [np.bincount(clusters, weights=column, minlength=count) for column in rows.T]
    return np.stack(sums, axis=1) if sums else np.zeros((count, 0))
