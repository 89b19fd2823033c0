"""The data and the results of benchmarks/equal_code.py."""

from typing import Any

import numpy as np


def arguments(features: Any, rng: Any) -> dict[str, Any]:
    """Draw a vector."""
    x = rng.random(features["n"], dtype=np.float32)
    return {"x": x, "y": np.zeros_like(x), "n": np.int32(features["n"])}


def reference(arguments: Any) -> dict[str, Any]:
    """Double it."""
    return {"y": 2 * arguments["x"]}
