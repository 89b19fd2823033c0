"""Arguments and reference of scale.cl."""

import numpy as np


def arguments(features, rng):
    n = features["n"]
    x = rng.random(n, dtype=np.float32)
    return {"y": np.zeros(n, np.float32), "x": x, "a": np.float32(3), "n": np.int32(n)}


def reference(arguments):
    return {"y": arguments["a"] * arguments["x"]}
