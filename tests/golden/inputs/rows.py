"""Host side of rows.cl: what the kernel is given, and what it must return."""

import numpy as np


def arguments(features, rng):
    """A matrix of whole numbers, its sums, and its size."""
    m, n = features["m"], features["n"]
    matrix = rng.integers(1, 4, size=(m, n)).astype(np.float32)
    sums = np.full(m, np.nan, dtype=np.float32)
    return {"A": matrix, "sums": sums, "m": np.int32(m), "n": np.int32(n)}


def reference(arguments):
    """The sum of each row."""
    return {"sums": np.asarray(arguments["A"], dtype=np.float64).sum(axis=1)}
