"""Host side of kernels.cl: sums of rows."""

import numpy as np

SCRATCH = ("scratch",)


def arguments(features, rng):
    """x (n, k) in [1, 2), y (n,), a scratch array, and a spare one of zeros, both (n + 1,)."""
    n, k = features["n"], features["k"]
    return {
        "x": 1 + rng.random((n, k), dtype=np.float32),
        "y": np.zeros(n, np.float32),
        "scratch": np.zeros(n + 1, np.float32),
        "spare": np.zeros(n + 1, np.float32),
        "n": np.int32(n),
        "k": np.int32(k),
    }


def reference(arguments):
    """The sums, in float64."""
    return {"y": arguments["x"].sum(axis=1, dtype=np.float64)}
