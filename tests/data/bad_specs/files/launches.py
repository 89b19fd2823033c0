"""Host side of scale.cl: y = 2 x."""

import numpy as np


def arguments(features, rng):
    n = features["n"]
    return {"x": rng.random(n, np.float32), "y": np.zeros(n, np.float32), "n": np.int32(n)}


def reference(arguments):
    return {"y": 2 * arguments["x"]}


def launches(arguments, config):
    """Never called here."""
    return []
