"""Which candidates suit the inputs that reach a node of a tree: the best first.

A node's costs are drawn to its parent's, the more the fewer inputs it has; and where its first
candidate is not clearly better on these inputs than the best static choice, that comes first.
"""

from __future__ import annotations

import numpy as np

from harness.dispatching.growing import Grown, parents, sums_by_node
from harness.dispatching.matrix import Array, Flags, Places

_PRIOR = 2.0  # inputs' worth of the parent's mean in the mean of a node
_SURE = 1.0  # standard errors by which a node must gain over the best static choice


def node_orders(grown: Grown, paths: Places, costs: Array, static: Array) -> Places:
    """The members of a portfolio by preference for each node, shape (nodes, members).

    `paths` are those of the inputs learnt from. `costs` are log slowdowns, shape (inputs,
    members), NaN where one does not apply; `static` are those of the best static choice, shape
    (inputs,). Members are in the order of the static choice.
    """
    applies: Flags = ~np.isnan(costs)
    counts = sums_by_node(grown, paths, applies.astype(np.float64))
    sums = sums_by_node(grown, paths, np.where(applies, costs, 0.0))
    means = _drawn_to_parents(grown, sums, counts)
    orders: Places = np.argsort(means, axis=1, kind="stable")
    gains = np.where(applies, static[:, None] - costs, 0.0)
    sure = _is_sure(
        orders[:, 0],
        counts,
        sums_by_node(grown, paths, gains),
        sums_by_node(grown, paths, gains**2),
    )
    orders[~sure] = np.arange(costs.shape[1])
    return orders


def _drawn_to_parents(grown: Grown, sums: Array, counts: Array) -> Array:
    overall = sums[0].sum() / max(counts[0].sum(), 1.0)
    means = np.empty_like(sums)
    means[0] = (sums[0] + _PRIOR * overall) / (counts[0] + _PRIOR)
    for node, parent in enumerate(parents(grown)):
        if parent >= 0:
            means[node] = (sums[node] + _PRIOR * means[parent]) / (counts[node] + _PRIOR)
    return means


def _is_sure(first: Places, counts: Array, gains: Array, squares: Array) -> Flags:
    """Whether the first candidate's mean gain lies above its standard errors; shape (nodes,)."""
    nodes = np.arange(len(first))
    count = counts[nodes, first]
    mean = gains[nodes, first] / np.maximum(count, 1.0)
    spread = np.maximum(squares[nodes, first] / np.maximum(count, 1.0) - mean**2, 0.0)
    error = np.sqrt(spread / np.maximum(count - 1.0, 1.0))
    sure: Flags = (count >= 2) & (mean > _SURE * error)
    return sure
