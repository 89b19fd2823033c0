"""Print Kernel Tuner's own CPU milliseconds per test, as one JSON object.

It runs in a Python that has kernel_tuner, where harness may be missing. Kernel Tuner's simulation
mode takes the place of builds and launches, and stores nothing. The arguments are a cache file,
and numbers of tests.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import time
import warnings
from pathlib import Path

import kernel_tuner
import numpy as np

CACHE, *COUNTS = sys.argv[1:]
SPACE = json.loads(Path(CACHE).read_text())


def cost_ms(strategy: str, tests: int) -> float:
    """Measure one search, with the making of its space."""
    random.seed(0)
    np.random.seed(0)
    begin_s = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        kernel_tuner.tune_kernel(
            "recorded",
            "__global__ void recorded() {}",
            (1,),
            [],
            SPACE["tune_params"],
            restrictions=SPACE["restrictions"],
            block_size_names=["X", "Y"],
            strategy=strategy,
            strategy_options={"max_fevals": tests},
            simulation_mode=True,
            cache=CACHE,
            quiet=True,
        )
    return 1e3 * (time.process_time() - begin_s) / tests


warnings.simplefilter("ignore")
figures = {}
for strategy in ("random_sample", "bayes_opt"):
    cost_ms(strategy, 10)  # loads what it needs
    for tests in map(int, COUNTS):
        figures[f"kernel_tuner_{strategy}_cpu_ms_{tests}"] = cost_ms(strategy, tests)
print(json.dumps(figures))
