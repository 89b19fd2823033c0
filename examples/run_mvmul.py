"""Compute y = A x from Python, in the configuration for its shape.

    python -m harness dispatch results/mvmul.db -o out/
    python examples/run_mvmul.py out/ 4096 512

`harness dispatch` writes `out/`; beside it, this needs only PyOpenCL.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyopencl as cl


def main(folder: str, rows: int, columns: int) -> int:
    """Multiply, compare with numpy, and print which configuration ran."""
    sys.path.insert(0, str(Path(folder).resolve()))
    import mvmul

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = mvmul.load(context)

    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 4, size=(rows, columns)).astype(np.float32)
    vector = rng.integers(1, 4, size=columns).astype(np.float32)
    product = np.empty(rows, dtype=np.float32)
    flags = cl.mem_flags.COPY_HOST_PTR | cl.mem_flags.READ_ONLY
    a = cl.Buffer(context, flags, hostbuf=matrix)
    x = cl.Buffer(context, flags, hostbuf=vector)
    y = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, product.nbytes)

    kernel(queue, a, x, y, np.int32(rows), np.int32(columns), m=rows, n=columns)
    cl.enqueue_copy(queue, product, y)

    print(f"{rows} x {columns}: {mvmul.PORTFOLIO[kernel.index(m=rows, n=columns)]}")
    if not np.array_equal(product, matrix @ vector):
        print("the product is wrong", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} FOLDER ROWS COLUMNS")
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
