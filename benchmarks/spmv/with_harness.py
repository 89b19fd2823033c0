"""Tune spmv.cl with harness: what a user writes."""

import numpy as np

import harness


def arguments(features, rng):
    rows, each = features["rows"], features["each"]
    return {
        "starts": np.arange(rows + 1, dtype=np.int32) * each,
        "columns": rng.integers(0, rows, rows * each).astype(np.int32),
        "values": rng.random(rows * each, np.float32),
        "x": rng.random(rows, np.float32),
        "y": np.zeros(rows, np.float32),
        "rows": np.int32(rows),
    }


def reference(arguments):
    products = arguments["values"] * arguments["x"][arguments["columns"]]
    return {"y": products.reshape(arguments["rows"], -1).sum(axis=1)}


space = harness.make_space(
    name="spmv",
    kernel={"function": "spmv", "source": "spmv.cl", "host": [arguments, reference]},
    parameters={"BLOCK": [32, 8, 128, 256], "LANES": [1, 2, 4, 8, 16], "UNROLL": [1, 2, 4]},
    constraints=["LANES <= BLOCK"],
    launch={"group": ["BLOCK"], "grid": ["ceil_div(rows * LANES, BLOCK)"]},
    inputs=({"rows": 4**k, "each": 4 ** (9 - k)} for k in (4, 5, 6, 7)),
)
results = harness.tune(space, test_limit=57)
print(results, results.rule, sep="\n")
