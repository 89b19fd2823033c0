"""A small portfolio of candidates that together suits all inputs, and the best single candidate.

A cost is a log slowdown, so that sums of costs are logarithms of geometric means.

At each node of a tree, candidates are sorted by preference. A node's mean costs are shrunk towards
its parent's, the more the fewer inputs it has. Where its first candidate is not clearly better on
these inputs than the best static choice, the static choice comes first.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.matrix import Matrix, first_applicable
from harness.models.regression import NodeArrays
from harness.stats import NEGLIGIBLE

_MOST_MEMBERS = 16
_MOVED = 32
_WORTH = 0.001  # log slowdown: a member that gains less only makes choosing harder
_PRIOR = 2.0  # inputs' worth of the parent's mean in the mean of a node
_CLEAR = 1.0  # standard errors by which a node must gain over the best static choice


def greedy_portfolio(matrix: Matrix, most: int = _MOST_MEMBERS) -> list[int]:
    """Return the indices of candidates by what each adds: first the one that is best alone, then
    always the one that lowers the mean log slowdown most. Ends at `most`, or when the next would
    gain almost nothing."""
    table, weights = matrix.costs, matrix.learning_weights
    chosen: list[int] = []
    best = np.full(len(table), np.inf)
    while len(chosen) < most:
        means = np.average(np.minimum(best[:, None], table), axis=0, weights=weights)
        index = int(means.argmin())
        if chosen and np.average(best, weights=weights) - means[index] < _WORTH:
            break
        chosen.append(index)
        best = np.minimum(best, table[:, index])
    return chosen


def static_order(matrix: Matrix) -> tuple[int, ...]:
    """Sort all candidates so that taking the first that applies has a low mean log slowdown over
    the inputs: the best static choice. Where all apply, the best single one comes first.

    It starts from the order of the means where each applies, of equal ones the default and then
    the least measured times, and moves one candidate at a time to the front while that gains. At
    last the first of those that are not significantly slower than the foremost comes to the front.
    Raises ValueError for an input without any candidate.
    """
    table = matrix.log_slowdown if matrix.half_log is None else matrix.measured_log
    applies = matrix.applies
    if not applies.any(axis=1).all():
        raise ValueError("an input has no candidate that applies")
    counts, weights = applies.sum(axis=0), matrix.learning_weights
    means = _means(table, applies, weights)
    measured = _means(matrix.measured_log, applies, weights)
    order = sorted(
        range(table.shape[1]),
        key=lambda one: (counts[one] == 0, means[one], one != matrix.default, measured[one]),
    )
    if applies.all():
        return _preferred_first(matrix, order)
    cost = _mean_cost(table, applies, order, weights)
    while True:
        moved = [
            [index, *(other for other in order if other != index)] for index in order[1:_MOVED]
        ]
        trials = [_mean_cost(table, applies, trial, weights) for trial in moved]
        if not trials or min(trials) >= cost:
            return _preferred_first(matrix, order)
        cost = min(trials)
        order = moved[trials.index(cost)]


def fastest_overall(matrix: Matrix) -> int:
    """Return the candidate with the least mean measured log slowdown over the inputs where it
    applies, of those that apply to the most inputs."""
    counts = matrix.applies.sum(axis=0)
    means = _means(matrix.measured_log, matrix.applies, np.ones(len(matrix.applies)))
    return int(np.where(counts == counts.max(), means, np.inf).argmin())


def _preferred_first(matrix: Matrix, order: list[int]) -> tuple[int, ...]:
    """Move to the front the candidate of the least index that is not significantly slower than the
    foremost, on the inputs where that one applies.

    These inputs are all that is asked about, so only the errors of the measurements count; the
    squares of both candidates' half widths add up.
    """
    if matrix.half_log is None:
        return tuple(order)
    best, logs = order[0], matrix.measured_log
    rows = np.flatnonzero(matrix.applies[:, best])
    weights = matrix.learning_weights[rows]
    share = weights[:, None] / weights.sum()
    slower = (share * (logs[rows] - logs[rows, best][:, None])).sum(axis=0)
    squares = matrix.half_log[rows] ** 2 + matrix.half_log[rows, best][:, None] ** 2
    half = np.sqrt((share**2 * squares).sum(axis=0))
    tied = slower <= np.maximum(half, NEGLIGIBLE)  # NaN, where one does not apply, is no tie
    first = int(np.flatnonzero(tied)[0])
    return tuple(dict.fromkeys([first, *order]))


def _means(table: Array, applies: Flags, weights: Array) -> Array:
    """Return the mean of each candidate over the inputs where it applies; 0 where there is none."""
    counts = applies * weights[:, None]
    total = counts.sum(axis=0)
    means: Array = np.where(applies, table * counts, 0.0).sum(axis=0) / np.where(total, total, 1)
    return means


def _mean_cost(table: Array, applies: Flags, order: list[int], weights: Array) -> float:
    indices = first_applicable(np.array(order)[None, :], applies)
    return float(np.average(table[np.arange(len(table)), indices], weights=weights))


def node_orders(
    nodes: NodeArrays, paths: Indices, costs: Array, static: Array, groups: Indices, weights: Array
) -> Indices:
    """Sort the members of a portfolio for each node, shape (nodes, members).

    `paths` are those of the training inputs. `costs` are log slowdowns, shape (inputs, members),
    NaN where a member does not apply; `static` are those of the best static choice, shape
    (inputs,). Members are in the order of the static choice. `weights` say by how much each input
    counts, shape (inputs,).
    """
    applies: Flags = ~np.isnan(costs)
    counts = nodes.sums(paths, applies * weights[:, None])
    sums = nodes.sums(paths, np.where(applies, costs, 0.0) * weights[:, None])
    orders: Indices = np.argsort(_shrunk_to_parents(nodes, sums, counts), axis=1, kind="stable")
    gains = np.where(applies, static[:, None] - costs, 0.0)
    orders[~_is_clear(orders[:, 0], paths, gains, groups, weights)] = np.arange(costs.shape[1])
    return orders


def _shrunk_to_parents(nodes: NodeArrays, sums: Array, counts: Array) -> Array:
    overall = sums[0].sum() / max(counts[0].sum(), 1.0)
    means = np.empty_like(sums)
    means[0] = (sums[0] + _PRIOR * overall) / (counts[0] + _PRIOR)
    for node, parent in enumerate(nodes.parents()):
        if parent >= 0:
            means[node] = (sums[node] + _PRIOR * means[parent]) / (counts[node] + _PRIOR)
    return means


def _is_clear(
    first: Indices, paths: Indices, gains: Array, groups: Indices, weights: Array
) -> Flags:
    """Say whether the mean gain of each node's first candidate exceeds its standard error, shape
    (nodes,). The error is that of clustered samples, with a group of inputs as a cluster."""
    inputs, levels = np.nonzero(paths < len(first))
    nodes = paths[inputs, levels]
    gain, weight = gains[inputs, first[nodes]], weights[inputs]
    count = np.bincount(nodes, weights=weight, minlength=len(first))
    mean = np.bincount(nodes, weights=gain * weight, minlength=len(first)) / count
    most = int(groups.max()) + 1
    pairs, index = np.unique(nodes * most + groups[inputs], return_inverse=True)
    strayed = np.bincount(index, weights=weight * (gain - mean[nodes])) ** 2
    clusters = np.bincount(pairs // most, minlength=len(first))
    squares = np.bincount(pairs // most, weights=strayed, minlength=len(first))
    error = np.sqrt(squares * clusters / np.maximum(clusters - 1, 1)) / count
    is_clear: Flags = (clusters >= 2) & (mean > _CLEAR * error)
    return is_clear
