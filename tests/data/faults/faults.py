"""Host side of faults.cl: y = 2 x and z = i - 1; small n fail each in its way."""

import os
import signal

import numpy as np


def arguments(features, rng):
    """Random x; outputs y and z; a spare array of zeros."""
    n = features["n"]
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does when memory runs out
    if n == 2:
        np.ones(1 << 60, dtype=np.uint8)
    return {
        "x": rng.random(n, dtype=np.float32) + 1,
        "y": np.zeros(n, dtype=np.float32),
        "z": np.zeros(n, dtype=np.int32),
        "spare": np.zeros(n, dtype=np.float32),
        "n": np.int32(n),
    }


def observe(config):
    """The process that measures."""
    return {"pid": os.getpid()}


def reference(arguments):
    """What y and z must be."""
    if arguments["n"] == 1:
        raise ArithmeticError("no reference for one element")
    x = arguments["x"].astype(np.float64)
    return {"y": 2 * x, "z": np.arange(len(x)) - 1}
