"""Callables that double an array, each with one fault of a kind that measuring must survive."""

import itertools
import os
import time

import numpy as np

FRAMEWORK = "numpy"


def arguments(features, rng):
    n = features["n"]
    if n == 1:
        raise ArithmeticError("no data for one element")
    return {"x": rng.uniform(1, 2, n), "y": np.zeros(n), "factor": np.int32(2)}


def reference(arguments):
    return {"y": arguments["factor"] * arguments["x"]}


def build(config, features):
    fault, calls, kept = config["FAULT"], itertools.count(1), {}
    if fault == "fails_to_build":
        raise ValueError("no such layout")
    if fault == "builds_nothing":
        return None
    if config["PAUSE"]:
        time.sleep(0.2)  # as a compiler would

    def double(arguments):
        number = next(calls)
        x, y, factor = (arguments[name] for name in ("x", "y", "factor"))
        assert type(factor) is int
        assert len(x) == features["n"]
        if fault.startswith("kept_by_id"):
            key = id(arguments if fault.endswith("arguments") else x)
            if key not in kept:
                time.sleep(features["work_ms"] / 1000)
                kept[key] = 2 * x
            y[:] = kept[key]
            return None
        time.sleep(features["work_ms"] / 1000)
        if fault == "kept_result":
            return kept.setdefault("y", {"y": 2 * x})
        if fault == "unwritten":
            y[:7] = 2 * x[:7]
            return None
        later = fault.endswith("_later") and number > 3
        if fault == "raises" or (fault == "raises_later" and later):
            return {}["nothing"]
        if fault == "aborts" or (fault == "aborts_later" and later):
            os.abort()
        if fault == "hangs" or (fault == "hangs_later" and later):
            time.sleep(1000)
        if fault == "returns_a_number":
            return 3
        if fault == "returns_another_shape":
            return {"y": 2 * x[1:]}
        if fault == "returns_arrays":
            return {"y": factor * x}
        np.multiply(x, factor, out=y)
        if fault == "wrong_element" or (fault == "wrong_later" and later):
            y[5] = 0
        if fault == "other_bits":
            y *= 1 + 2**-52
        if fault == "spoils_its_input":
            x[3] = 1.5
        if fault == "writes_past_the_end":
            np.lib.stride_tricks.as_strided(y, (features["n"] + 2,))[-2:] = 1
        return None

    return double
