"""Host side of ``bfs.cl``: a random graph, and the level of each of its nodes."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
from scipy import sparse

from harness.host import Launch, Read

ATTRIBUTES, FLAGS = 2, 3
FRONTIER, MARKED, VISITED = range(FLAGS)
"""As the source numbers them."""

INOUT = ("status", "levels", "reached")


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """attributes (nodes, 2), edges, status (nodes, 3), levels (nodes,), reached (1,), source, n.

    Every node draws `connectivity` partners on average, and an edge leads both ways: nodes have
    Poisson-distributed degrees around 2 * connectivity. With few edges some nodes are never
    reached; their level stays -1. The search starts at a node of the highest degree, so that it
    does not end at once in a corner of its own.
    """
    n = features["nodes"]
    degrees, edges = _graph(n, features["connectivity"], rng)
    starts = np.cumsum(degrees) - degrees
    source = int(np.argmax(degrees))
    status = np.zeros((n, FLAGS), dtype=np.uint8)
    status[source, [FRONTIER, VISITED]] = 1
    levels = np.full(n, -1, dtype=np.int32)
    levels[source] = 0
    return {
        "attributes": np.stack([starts, degrees], axis=1).astype(np.int32),
        "edges": edges,
        "status": status,
        "levels": levels,
        "reached": np.zeros(1, dtype=np.int32),
        "source": np.int32(source),
        "n": np.int32(n),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected levels, shape (nodes,), and the last one, by products of the adjacency matrix
    with the frontier, over truth values."""
    attributes, edges = np.asarray(arguments["attributes"]), np.asarray(arguments["edges"])
    n = len(attributes)
    columns = np.append(attributes[:, 0], edges.size)
    leads_to = sparse.csc_matrix((np.ones(edges.size, dtype=bool), edges, columns), shape=(n, n))
    levels = np.full(n, -1, dtype=np.int32)
    frontier = np.arange(n) == arguments["source"]
    level = -1
    while frontier.any():
        level += 1
        levels[frontier] = level
        frontier = (leads_to @ frontier) & (levels < 0)
    return {"levels": levels, "reached": np.array([level], dtype=np.int32)}


def launches(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> Generator[Launch | Read, np.ndarray, None]:
    """Two launches a level, until a level has no node. No graph has more levels than nodes."""
    n = int(arguments["n"])
    block = config["BLOCK"]
    blocks = -(-n // (block * config["NPT"]))
    for level in range(1, n + 1):
        told = np.int32(level)
        frontier = ("attributes", "edges", "status", "levels", "n", told)
        yield Launch("expand", (block,), (blocks,), frontier)
        yield Launch("settle", (block,), (blocks,), ("status", "reached", "n", told))
        reached = yield Read("reached")
        if reached[0] != level:
            return


def arrange(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """With PA_ATTRIB or PA_STATUS, attributes or flags as parallel arrays, one after the other."""
    apart = {"attributes": config["PA_ATTRIB"], "status": config["PA_STATUS"]}
    return {
        name: np.ascontiguousarray(np.asarray(arguments[name]).T)
        for name, wanted in apart.items()
        if wanted
    }


def _graph(n: int, connectivity: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Degrees (n,) and the ends of all edges (2 * n * connectivity,), by node."""
    pairs = rng.integers(0, n, size=(2, n * connectivity), dtype=np.int64)
    # A key that sorts by the node where an edge begins, and holds the one where it ends.
    keys = np.concatenate([pairs[0] * n + pairs[1], pairs[1] * n + pairs[0]])
    del pairs  # as large as the keys: 0.5 GB for the largest graph
    keys.sort()
    return np.bincount(keys // n, minlength=n), (keys % n).astype(np.int32)
