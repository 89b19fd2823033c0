"""Host side of ``streamcluster.cl``: points, their centres, and a candidate for one more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# The kernel adds to the rows of `work`, which begin as zeros.
INOUT = ("work",)

# A point as a structure; with PA_POINT the same bytes hold three arrays instead.
_POINT = np.dtype([("weight", np.float32), ("assigned", np.int32), ("cost", np.float32)])


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order.

    coords (dims, points), points (points,), columns (points,): the column of a point that is a
    centre, work (points, centres + 1), switches (points,), and the numbers. Coordinates are
    uniform in [0, 1), weights in [0.5, 1.5).

    A point's cost is a quarter to a half, or two to four times, of what the candidate's would
    be. Were they near each other, rounding would decide between them, and their difference
    would have few right digits.
    """
    count, dims, centres = features["points"], features["dims"], features["centres"]
    coords = rng.random((dims, count), dtype=np.float32)
    candidate = int(rng.integers(count))
    points = np.empty(count, dtype=_POINT)
    points["weight"] = 0.5 + rng.random(count, dtype=np.float32)
    chosen = rng.choice(count, size=centres, replace=False)
    points["assigned"] = rng.choice(chosen, size=count)
    offered = points["weight"] * _squared_distances(coords, candidate)
    factor = rng.uniform(1, 2, count) * rng.choice([0.25, 2.0], count)
    # The candidate itself would cost nothing; its present cost must be something.
    points["cost"] = np.where(offered > 0, factor * offered, factor)
    columns = np.zeros(count, dtype=np.int32)
    columns[chosen] = np.arange(centres)
    return {
        "coords": coords,
        "points": points,
        "columns": columns,
        "work": np.zeros((count, centres + 1), dtype=np.float32),
        # A point that the kernel forgets stays -1, which is neither yes nor no.
        "switches": np.full(count, -1, dtype=np.int32),
        "n": np.int32(count),
        "dims": np.int32(dims),
        "centres": np.int32(centres),
        "candidate": np.int32(candidate),
    }


def arrange(
    arguments: Mapping[str, np.ndarray | np.generic], config: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """With PA_POINT, the points as parallel arrays: weights, assigned centres, costs."""
    if not config["PA_POINT"]:
        return {}
    points = np.asarray(arguments["points"])
    fields = [points[name].tobytes() for name in ("weight", "assigned", "cost")]
    return {"points": np.frombuffer(b"".join(fields), dtype=_POINT)}


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected outputs: the cost deltas in their columns, in float64, and who would switch."""
    points, columns = np.asarray(arguments["points"]), np.asarray(arguments["columns"])
    weight, cost = (points[name].astype(np.float64) for name in ("weight", "cost"))
    offered = weight * _squared_distances(
        np.asarray(arguments["coords"]), int(arguments["candidate"])
    )
    switches = offered < cost
    column = np.where(switches, int(arguments["centres"]), columns[points["assigned"]])
    work = np.zeros(np.shape(arguments["work"]))
    work[np.arange(len(points)), column] = -np.abs(offered - cost)
    return {"work": work, "switches": switches.astype(np.int32)}


def _squared_distances(coords: np.ndarray, candidate: int) -> np.ndarray:
    """Of every point to the candidate, shape (points,), in float64."""
    total = np.zeros(coords.shape[1])
    for row in coords:  # a dimension at a time, so that memory stays bounded
        total += np.square(row.astype(np.float64) - float(row[candidate]))
    return total
