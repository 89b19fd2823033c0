"""Formats beyond C and Python."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.formats import check_formats, format_files
from harness.dispatch.json_format import JsonDispatcher
from harness.dispatch.verdict import Judged
from harness.models.encoding.parts import digits_of_log2
from harness.space_file import LaunchPlan
from tests.dispatch_examples import (
    PROVENANCE,
    SHAPES,
    dispatcher_of,
    drawn_input,
    drawn_program,
    mvmul_features,
    mvmul_program,
    selected,
)

GOLDEN = Path(__file__).parent / "data" / "formats"


def mvmul() -> Dispatcher:
    """Three configurations of mvmul, of which the second does not always apply."""
    program = mvmul_program(guards=((), ("m < n",), ()))
    logs = np.log(np.array([1.0, 1.1, 1.2, 1.05]))
    judged = Judged("tree", logs, np.arange(4), np.zeros(4, dtype=bool))
    return Dispatcher(
        "mvmul",
        "y = A x",
        ("mvmul",),
        mvmul_features(program),
        program,
        dataclasses.replace(PROVENANCE, judged=(judged,), harness_version="1.0"),
        LaunchPlan((Expression("THRD"),), (Expression("ceil_div(m, THRD)"),)),
        constants={"THRD": 256, "LU": 1, "X_CACHE": 0, "max_group_size": 1024},
    )


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no format `jsn`; did you mean `json`"):
        check_formats(["jsn"])


@pytest.mark.parametrize("name", ["mvmul.json"])
def test_files_are_as_they_were(name: str) -> None:
    """To write them anew: delete the file of tests/data/formats, and run this twice."""
    files = format_files(mvmul(), ["json"])
    path = GOLDEN / name
    if not path.exists():
        path.write_bytes(files[name])
        pytest.fail(f"{path} is new: read it")
    assert files[name].decode() == path.read_text()


# ------------------------------------------------------------------------------------------- JSON


def choose(found: Mapping[str, Any], given: Mapping[str, Value]) -> int | None:
    """Choose as docs/dispatch.md describes, from the JSON alone."""
    for index in [*_order(found, given), *found["fallback"]]:
        own = found["configurations"][index]
        guards = own["guards"]
        if not guards or (_is_exact(found, given) and all(
            Expression(text).holds({**found["constants"], **own["parameters"], **given})
            for text in guards
        )):  # fmt: skip
            return int(index)
    return None


def _is_exact(found: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    return all(
        one["exact"] is None or one["exact"][0] <= given[one["name"]] <= one["exact"][1]
        for one in found["features"]
    )


def _order(found: Mapping[str, Any], given: Mapping[str, Any]) -> list[int]:
    for one in found["features"]:
        number = given[one["name"]]
        if one["words"] is not None and number not in one["words"]:
            return []
        if one["tuned"] is not None and not one["tuned"][0] <= number <= one["tuned"][1]:
            return []
    numbers = [_number(column, given) for column in found["columns"]]
    choice = found["choice"]
    costs = list(choice["offsets"] or [0.0] * len(found["configurations"]))
    for tree in choice["trees"]:
        node = tree["nodes"][0]
        while "threshold" in node:
            is_low = numbers[node["column"]] <= node["threshold"]
            node = tree["nodes"][node["low" if is_low else "high"]]
        if "order" in node:
            return list(node["order"])
        if "value" in node:
            costs[tree["configuration"]] += node["value"]
        else:
            costs = [cost + more for cost, more in zip(costs, node["costs"], strict=True)]
    return sorted(range(len(costs)), key=costs.__getitem__)


def _number(column: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    values = [given[name] for name in column["features"]]
    if column["kind"] == "equals":
        return float(values[0] == column["word"])
    if column["kind"] == "twos":
        return float(int(values[0]) & -int(values[0]))
    if column["kind"] == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.float64(values[0]) / np.float64(values[1]))
    if column["kind"] == "linear":
        total = column["constant"]
        for term in column["terms"]:
            number = float(given[term["feature"]])
            log = float(digits_of_log2(np.array([number]))[0])
            total += term["weight"] * (log if term["is_log"] else number)
        return float(total)
    return math.prod(map(float, values))


def test_json_chooses_as_the_code_does() -> None:
    rng = random.Random(8)
    compared = 0
    for number, shape in enumerate(SHAPES):
        inputs = [drawn_input(rng) for _ in range(40)]
        program = drawn_program(rng, inputs, *shape)
        written = format_files(dispatcher_of(program, f"p{number}"), ["json"])
        found = json.loads(written[f"p{number}.json"])
        TypeAdapter(JsonDispatcher).validate_python(found)
        for given in inputs:
            if _is_exact(found, given):
                assert choose(found, given) == selected(program, given), (shape, given)
                compared += 1
    assert compared > 200
