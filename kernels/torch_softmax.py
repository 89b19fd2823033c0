"""The softmax of each row of a matrix, by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

FRAMEWORK = "torch"


def arguments(features: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """The rows x, and y for their softmax, both (rows, columns) in float32."""
    shape = features["rows"], features["columns"]
    return {"x": rng.standard_normal(shape, np.float32), "y": np.zeros(shape, np.float32)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The expected rows in float64."""
    x = arguments["x"].astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": powers / powers.sum(axis=1, keepdims=True)}


def build(
    config: Mapping[str, Any], features: Mapping[str, int]
) -> Callable[[Mapping[str, Any]], None]:
    """PyTorch's own function, or steps that write in place; perhaps compiled."""
    function: Any = torch.softmax if config["IMPL"] == "own" else _steps
    if config["COMPILE"]:
        function = torch.compile(function)
    threads = config["THREADS"]

    def softmax(arguments: Mapping[str, Any]) -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        with torch.no_grad():
            arguments["y"].copy_(function(arguments["x"], 1))

    return softmax


def _steps(x: Any, dim: int) -> Any:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)
