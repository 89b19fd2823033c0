"""The data of the planted faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from harness.host import Launch


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Make an array, and room for the result."""
    x = rng.integers(1, 100, features["n"]).astype(np.float32)
    return {"x": x, "y": np.zeros_like(x)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the result."""
    return {"y": 2 * arguments["x"]}


def launches(arguments: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Launch]:
    """Launch the kernel that the configuration names."""
    yield Launch(config["KIND"], (32,), (len(arguments["x"]) // 32,), ("x", "y"))
