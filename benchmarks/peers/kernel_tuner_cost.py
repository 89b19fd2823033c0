"""Print Kernel Tuner's own CPU milliseconds per test, over the space of `benchmarks.overhead`.

It runs in the Python that has kernel_tuner, where harness may be missing. Its simulation mode takes
the place of builds and launches, and stores nothing. The arguments are strategies and tests:

    python -I kernel_tuner_cost.py random_sample,bayes_opt 100,300,1000
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import kernel_tuner
import numpy as np

POWERS = [2**exponent for exponent in range(11)]
TUNED: dict[str, list[Any]] = {
    "X": POWERS,
    "Y": POWERS,
    "TILE": [1, 2, 3, 4, 6, 8, 12, 16],
    "UNROLL": list(range(1, 17)),
    "LAYOUT": ["row", "column", "block"],
    "CACHE": [0, 1],
}
RESTRICTIONS = ["32 <= X * Y", "X * Y <= 1024", "UNROLL <= 2 * TILE"]


def recorded() -> dict[str, Any]:
    """Make the cache file of all legal configurations; 5 % of them fail."""
    entries = {}
    for values in itertools.product(*TUNED.values()):
        config = dict(zip(TUNED, values, strict=True))
        if not (32 <= config["X"] * config["Y"] <= 1024 and config["UNROLL"] <= 2 * config["TILE"]):
            continue
        draw = random.Random(repr(values)).randrange(1000)
        time_ms = "CompilationFailedConfig" if draw % 20 == 0 else 1 + draw / 250
        times = dict.fromkeys(
            ("compile_time", "verification_time", "benchmark_time", "strategy_time"), 0
        )
        entries[",".join(map(str, values))] = config | times | {"time": time_ms}
    return {
        "device_name": "recorded",
        "kernel_name": "recorded",
        "problem_size": [1],
        "tune_params_keys": list(TUNED),
        "tune_params": TUNED,
        "objective": "time",
        "cache": entries,
    }


def cost_ms(strategy: str, tests: int, cache: Path) -> float:
    """Return the CPU milliseconds per test of one search, with the making of its space."""
    random.seed(0)
    np.random.seed(0)
    began_s = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        kernel_tuner.tune_kernel(
            "recorded",
            "__global__ void recorded() {}",
            (1,),
            [],
            TUNED,
            restrictions=RESTRICTIONS,
            block_size_names=["X", "Y"],
            strategy=strategy,
            strategy_options={"max_fevals": tests},
            simulation_mode=True,
            cache=str(cache),
            quiet=True,
        )
    return 1e3 * (time.process_time() - began_s) / tests


def main() -> None:
    """Print one JSON object."""
    warnings.simplefilter("ignore")
    strategies, counts = (words.split(",") for words in sys.argv[1:])
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(recorded()))
        for strategy, tests in itertools.product(strategies, map(int, counts)):
            found_ms = round(cost_ms(strategy, tests, cache), 3)
            figures[f"kernel_tuner_{strategy}_cpu_ms_{tests}"] = found_ms
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
