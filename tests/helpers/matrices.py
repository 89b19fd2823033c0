"""Matrices of times that dispatchers learn from."""

import numpy as np
import pandas as pd

from harness.core.records import Config
from harness.dispatch.matrix import make_matrix

SMALL, LARGE, DEFAULT = (Config({"BLOCK": block}) for block in (16, 64, 256))


def table(time_s, features=None, **more):
    """Make a matrix of these seconds, by input and BLOCK=0, 1, ...; the only feature, unless others
    are given, is the number of the input."""
    times = np.array(time_s, float)
    if features is None:
        features = pd.DataFrame({"n": range(1, len(times) + 1)})
    configs = [Config({"BLOCK": index}) for index in range(times.shape[1])]
    return make_matrix(features, configs, times, **more)


def shapes(count, slow=3.0):
    """Make times in which five in eight of the inputs want SMALL, the others LARGE; the default
    takes twice as long as the best."""
    features = pd.DataFrame({"m": [2**e for e in range(count)], "n": 2**count})
    time_s = np.array(
        [[2.0, 1.0, slow] if 8 * row < 5 * count else [2.0, slow, 1.0] for row in range(count)]
    ).reshape(count, 3)
    return make_matrix(features, (DEFAULT, SMALL, LARGE), time_s, default=0)
