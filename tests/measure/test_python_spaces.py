"""The committed spaces of Python callables, and kernels of Triton in its interpreter; they need the
packages that they name."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from harness.core.records import Config, Measurement, Outcome
from harness.measure.choose import open_measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

SPACES = sorted((Path(__file__).parents[2] / "spaces/python").glob("*.yaml"))
PARAMS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.torch] * path.stem.startswith("torch"))
    for path in SPACES
]


def measured(spec: Spec, picks: tuple[int, ...]) -> list[Measurement]:
    """Measure configurations on the smallest input: of the first, or the last values."""
    problem = min(spec.inputs, key=lambda each: sum(map(float, each.values())))
    measurer, _ = open_measurer(spec, "auto")
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        corners = [Config({p.name: p.values[pick] for p in spec.parameters}) for pick in picks]
        return [measurer.measure(space, problem, space.canonical(c), None) for c in corners]


@pytest.mark.slow
@pytest.mark.parametrize("path", PARAMS)
def test_corners_of_a_committed_space_are_right(path: Path) -> None:
    spec = load_spec(path)
    pytest.importorskip(str(spec.framework), reason=f"{spec.framework} is not installed")
    for found in measured(spec, (0, -1)):
        assert found.outcome is Outcome.OK, found.message


TRITON = """\
import numpy as np
import triton
import triton.language as tl

FRAMEWORK = "torch"


def arguments(features, rng):
    return {"x": rng.random(features["n"]), "y": np.zeros(features["n"])}


def reference(arguments):
    return {"y": 2 * arguments["x"]}


@triton.jit
def double(x, y, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i + SHIFT, mask=i < n), mask=i < n)


def build(config, features):
    n, block = features["n"], config["BLOCK"]
    grid = (triton.cdiv(n, block),)
    return lambda arguments: double[grid](
        arguments["x"], arguments["y"], n, SHIFT=config["SHIFT"], BLOCK=block
    )
"""
SPACE = """\
name: double
kernel: {python: double.py}
parameters: {BLOCK: {values: [32, 64], default: 32}, SHIFT: {values: [0, 1], default: 0}}
inputs: {features: [n], values: [{n: 100}]}
"""


@pytest.mark.slow
@pytest.mark.torch
def test_kernel_of_triton_is_verified_in_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "double.py").write_text(TRITON)
    (tmp_path / "double.yaml").write_text(SPACE)
    right, wrong = measured(load_spec(tmp_path / "double.yaml"), (0, -1))
    assert right.outcome is Outcome.OK, right.message
    assert wrong.outcome is Outcome.WRONG_RESULT
    assert "at the first run: y[" in wrong.message
