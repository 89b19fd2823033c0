"""Host side of cuda.cu: sums of rows."""

import numpy as np


def arguments(features, rng):
    """x (n, k) in [1, 2), and y (n,)."""
    n, k = features["n"], features["k"]
    x = 1 + rng.random((n, k), dtype=np.float32)
    return {"x": x, "y": np.zeros(n, np.float32), "n": np.int32(n), "k": np.int32(k)}


def reference(arguments):
    """The sums, in float64."""
    return {"y": arguments["x"].sum(axis=1, dtype=np.float64)}
