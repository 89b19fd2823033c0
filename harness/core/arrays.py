"""Names of the numpy array types that are used throughout, and the global random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Codes = npt.NDArray[np.int32]


@contextmanager
def own_random() -> Iterator[None]:
    """Put Python's and numpy's global generators back at the end: OpenTuner's techniques draw from
    them and are seeded, so that a seed repeats a search."""
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
