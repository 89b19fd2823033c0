"""What looking at many things at once costs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def holm(p_values: Array, looks: int) -> Array:
    """Holm's correction (1979) of these p-values among so many, shape (p-values,).

    Those that are not given are taken as larger than all that are, which errs on the safe side.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.minimum(1.0, p_values[order] * (looks - np.arange(len(order))))
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(scaled)
    return corrected


def holm_levels(p_values: Array, level: float) -> Array:
    """The level at which Holm's procedure judged each of these p-values in the end, shape
    (p-values,); no others were looked at."""
    count = len(p_values)
    refuted = int((holm(p_values, count) <= level).sum())
    steps = np.empty(count)
    steps[np.argsort(p_values, kind="stable")] = np.arange(count)
    levels: Array = level / (count - np.minimum(steps, refuted))
    return levels
