"""Formats beyond C and Python."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config, Value
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.formats import FORMATS, check_formats, format_files
from harness.dispatch.json_format import JsonDispatcher
from harness.dispatch.package import files_of
from harness.dispatch.python_code import python_module
from harness.dispatch.verdict import Judged
from harness.models.encoding.columns import digits_of_log2
from harness.space_file import LaunchPlan
from tests.helpers.dispatch_examples import (
    PROVENANCE,
    SHAPES,
    dispatcher_of,
    drawn_input,
    drawn_program,
    mvmul_features,
    mvmul_program,
    python_of,
    selected,
)

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "formats"


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


def test_json_is_as_it_was() -> None:
    """To write it anew: delete the file of tests/data/formats, and run this twice."""
    written = format_files(mvmul(), FORMATS)["mvmul.json"]
    path = GOLDEN / "mvmul.json"
    if not path.exists():
        path.write_bytes(written)
        pytest.fail(f"{path} is new: read it")
    assert written.decode() == path.read_text()


def test_files_need_no_harness(tmp_path: Path) -> None:
    """They are imported by a Python that finds no other packages than stand-ins for theirs."""
    written = files_of(mvmul()) | format_files(mvmul(), FORMATS)
    for name, content in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for name in ("torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import mvmul.torch_op\n"
        "assert 'harness' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


# ------------------------------------------------------------------------------------------- JSON


def choose(found: Mapping[str, Any], given: Mapping[str, Value]) -> int | None:
    """Choose as docs/dispatch.md describes, from the JSON alone."""
    for index in [*_order(found, given), *found["fallback"]]:
        own = found["configurations"][index]
        guards = own["guards"]
        values = {**found["constants"], **own["parameters"], **given}
        if all(Expression(text).holds(values) for text in guards):
            return int(index)
    return None


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
    for number, shape in enumerate(SHAPES):
        inputs = [drawn_input(rng) for _ in range(40)]
        program = drawn_program(rng, inputs, *shape)
        written = format_files(dispatcher_of(program, f"p{number}"), ["json"])
        found = json.loads(written[f"p{number}.json"])
        TypeAdapter(JsonDispatcher).validate_python(found)
        for given in inputs:
            assert choose(found, given) == selected(program, given), (shape, given)


# ----------------------------------------------------------------------------------------- Triton

TRITON = """
class Config:
    def __init__(self, kwargs, num_warps=4, num_stages=3):
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages
"""
"""A stand-in for the one class of Triton that is used."""


def test_example_makes_configurations_of_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = mvmul_program()
    renamed = [Config({"BLOCK": c["THRD"], "num_warps": c["LU"]}) for c in program.portfolio]
    program = dataclasses.replace(program, portfolio=tuple(renamed))
    written = Dispatcher("blocks", "", ("f",), mvmul_features(program), program, PROVENANCE)
    blocks = SimpleNamespace(**python_of(python_module(written)))
    (tmp_path / "triton.py").write_text(TRITON)
    monkeypatch.syspath_prepend(str(tmp_path))
    example = runpy.run_path(str(ROOT / "examples" / "triton_configs.py"))
    configs = example["configs_of"](blocks)
    assert [(c.kwargs, c.num_warps) for c in configs] == [
        ({"BLOCK": each["BLOCK"]}, each["num_warps"]) for each in program.portfolio
    ]
    prune = example["prune_by"](blocks, n="N")
    for m, n in ((64, 4096), (64, 32), (2048, 4096), (8, 8)):
        chosen = blocks.select_index(m=m, n=n)
        assert prune(configs, {"m": m}, N=n, grid=None) == [configs[chosen]]
