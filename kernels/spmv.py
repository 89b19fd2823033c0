"""Host side of ``spmv.cu`` and ``spmv.cl``: a sparse matrix times a vector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_LARGEST = 4


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: begins (rows + 1,), columns and values (elements,), x
    and y (rows,), and the rows.

    Rows have 0 to twice `row_length` elements, in random columns. Values are whole numbers from 1
    to 4: sums of their products are exact in float32, in whatever order they are added.
    """
    rows = features["rows"]
    lengths = rng.integers(0, 2 * features["row_length"], rows, endpoint=True)
    begins = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    elements = int(begins[-1])
    if elements >= 2**31:
        raise ValueError(f"the matrix has {elements:,} elements, but an int counts to 2^31 - 1")
    return {
        "begins": begins.astype(np.int32),
        "columns": rng.integers(0, rows, max(elements, 1), np.int32),
        "values": rng.integers(1, _LARGEST, max(elements, 1), np.int8, True).astype(np.float32),
        "x": rng.integers(1, _LARGEST, rows, np.int8, True).astype(np.float32),
        "y": np.zeros(rows, np.float32),
        "rows": np.int32(rows),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected product: the differences of running sums, which are exact in float64."""
    begins, columns = np.asarray(arguments["begins"]), np.asarray(arguments["columns"])
    values, x = np.asarray(arguments["values"]), np.asarray(arguments["x"])
    running = np.zeros(len(columns) + 1)
    np.cumsum(values * x[columns], out=running[1:], dtype=np.float64)
    return {"y": (running[begins[1:]] - running[begins[:-1]]).astype(np.float32)}
