"""Candidates by preference at each node of a tree, best first.

A node's mean costs are shrunk towards its parent's, the more the fewer inputs it has. Where its
first candidate is not clearly better on these inputs than the best static choice, the static choice
comes first.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.dispatch.growing import Grown, parents, sums_by_node

_PRIOR = 2.0  # inputs' worth of the parent's mean in the mean of a node
_CLEAR = 1.0  # standard errors by which a node must gain over the best static choice


def node_orders(
    grown: Grown, paths: Indices, costs: Array, static: Array, groups: Indices
) -> Indices:
    """Sort the members of a portfolio for each node, shape (nodes, members).

    `paths` are those of the training inputs. `costs` are log slowdowns, shape (inputs, members),
    NaN where a member does not apply; `static` are those of the best static choice, shape
    (inputs,). Members are in the order of the static choice.
    """
    applies: Flags = ~np.isnan(costs)
    counts = sums_by_node(grown, paths, applies.astype(np.float64))
    sums = sums_by_node(grown, paths, np.where(applies, costs, 0.0))
    orders: Indices = np.argsort(_shrunk_to_parents(grown, sums, counts), axis=1, kind="stable")
    gains = np.where(applies, static[:, None] - costs, 0.0)
    orders[~_is_clear(orders[:, 0], paths, gains, groups)] = np.arange(costs.shape[1])
    return orders


def _shrunk_to_parents(grown: Grown, sums: Array, counts: Array) -> Array:
    overall = sums[0].sum() / max(counts[0].sum(), 1.0)
    means = np.empty_like(sums)
    means[0] = (sums[0] + _PRIOR * overall) / (counts[0] + _PRIOR)
    for node, parent in enumerate(parents(grown)):
        if parent >= 0:
            means[node] = (sums[node] + _PRIOR * means[parent]) / (counts[node] + _PRIOR)
    return means


def _is_clear(first: Indices, paths: Indices, gains: Array, groups: Indices) -> Flags:
    """Say whether the mean gain of each node's first candidate exceeds its standard error, shape
    (nodes,). The error is that of clustered samples, with a group of inputs as a cluster."""
    inputs, levels = np.nonzero(paths < len(first))
    nodes = paths[inputs, levels]
    gain = gains[inputs, first[nodes]]
    count = np.bincount(nodes, minlength=len(first))
    mean = np.bincount(nodes, weights=gain, minlength=len(first)) / count
    most = int(groups.max()) + 1
    pairs, index = np.unique(nodes * most + groups[inputs], return_inverse=True)
    strayed = np.bincount(index, weights=gain - mean[nodes]) ** 2
    clusters = np.bincount(pairs // most, minlength=len(first))
    squares = np.bincount(pairs // most, weights=strayed, minlength=len(first))
    error = np.sqrt(squares * clusters / np.maximum(clusters - 1, 1)) / count
    is_clear: Flags = (clusters >= 2) & (mean > _CLEAR * error)
    return is_clear
