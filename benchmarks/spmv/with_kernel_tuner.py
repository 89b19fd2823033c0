"""Tune spmv.cl with Kernel Tuner: what a user writes."""

import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(0)
parameters = {"BLOCK": [32, 8, 128, 256], "LANES": [1, 2, 4, 8, 16], "UNROLL": [1, 2, 4]}
best = {}
for k in (4, 5, 6, 7):
    rows, each = 4**k, 4 ** (9 - k)
    starts = np.arange(rows + 1, dtype=np.int32) * each
    columns = rng.integers(0, rows, rows * each).astype(np.int32)
    values = rng.random(rows * each, np.float32)
    x = rng.random(rows, np.float32)
    y = np.zeros(rows, np.float32)
    expected = (values * x[columns]).reshape(rows, -1).sum(axis=1)
    found, _ = tune_kernel(
        "spmv",
        "spmv.cl",
        f"{rows} * LANES",
        [starts, columns, values, x, y, np.int32(rows)],
        parameters,
        restrictions=["LANES <= BLOCK"],
        block_size_names=["BLOCK"],
        grid_div_x=["BLOCK"],
        answer=[None, None, None, None, expected, None],
        atol=1e-3 * each,
        lang="OpenCL",
        cache=f"spmv_{rows}.json",
    )
    best[rows, each] = min(found, key=lambda row: row["time"])
print(best)
