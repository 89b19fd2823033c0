"""Pack kernel arguments into the memory layout that CUDA's driver reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack_arguments(values: Sequence[np.generic]) -> bytes:
    """Return kernel arguments as the driver takes them: each at a multiple of its own size.

    This is the layout of C, and of CUDA's complex numbers (float2, double2), whose alignment
    is their size. Structures (numpy.void) have the alignment of their dtype.
    """
    packed = bytearray()
    for value in values:
        structure = isinstance(value, np.void)
        alignment = value.dtype.alignment if structure else value.dtype.itemsize
        packed += b"\0" * (-len(packed) % alignment)
        packed += value.tobytes()
    return bytes(packed)
