"""How kernel arguments lie in the memory that CUDA's driver reads them from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack_arguments(values: Sequence[np.generic]) -> bytes:
    """Kernel arguments as the driver takes them: each at a multiple of its own size.

    That is the layout of C, and of CUDA's complex numbers (float2, double2), whose alignment
    is their size. Structures (numpy.void) are aligned as numpy says.
    """
    packed = bytearray()
    for value in values:
        structure = isinstance(value, np.void)
        alignment = value.dtype.alignment if structure else value.dtype.itemsize
        packed += b"\0" * (-len(packed) % alignment)
        packed += value.tobytes()
    return bytes(packed)
