"""Host side of fills.cl: parts of numbers from -9 to 9."""

import numpy as np


def arguments(features, rng):
    """x (n,), and the outputs, all (n,)."""
    n = features["n"]
    return {
        "x": rng.uniform(-9, 9, n).astype(np.float32),
        "whole": np.zeros(n, np.int32),
        "flag": np.zeros(n, np.bool_),
        "root": np.zeros(n, np.float32),
        "n": np.int32(n),
    }


def reference(arguments):
    """The whole parts, the flags, and the roots."""
    x = arguments["x"]
    with np.errstate(invalid="ignore"):
        return {"whole": x.astype(np.int32), "flag": x > 0, "root": np.sqrt(x)}
