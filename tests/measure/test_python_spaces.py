"""The committed spaces of Python callables, and kernels of Triton in its interpreter; they need the
packages that they name."""

from contextlib import closing

import pytest

from harness.core.records import Config, Outcome
from harness.measure.choose import open_measurer
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.planted import assert_failed, assert_ok, space_of

SPACES = sorted((ROOT / "spaces/python").glob("*.yaml"))
PARAMS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.torch] * path.stem.startswith("torch"))
    for path in SPACES
]


def measured(spec, picks):
    """Measure configurations on the smallest input: of the first, or the last values."""
    return measured_configs(
        spec, [{p.name: p.values[pick] for p in spec.parameters} for pick in picks]
    )


def measured_configs(spec, changes):
    """Measure the default with these values on the smallest input."""
    problem = min(spec.inputs, key=lambda each: sum(map(float, each.values())))
    measurer, _ = open_measurer(spec, "auto")
    with closing(measurer):
        space = space_of(spec, measurer, problem)
        configs = [space.canonical(Config({**space.default, **each})) for each in changes]
        return [measurer.measure(space, problem, config, None) for config in configs]


@pytest.mark.slow
@pytest.mark.parametrize("path", PARAMS)
def test_corners_of_a_committed_space_are_right(path, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # its compiler takes half a minute of CPU
    spec = load_spec(path)
    pytest.importorskip(str(spec.framework), reason=f"{spec.framework} is not installed")
    for found in measured(spec, (0, -1)):
        assert_ok(found)


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
def test_kernel_of_triton_is_verified_in_its_interpreter(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "double.py").write_text(TRITON)
    (tmp_path / "double.yaml").write_text(SPACE)
    right, wrong = measured(load_spec(tmp_path / "double.yaml"), (0, -1))
    assert_ok(right)
    assert_failed(wrong, Outcome.WRONG_RESULT, "at the first run: y[")


WARP = """\
import numpy as np
import warp

FRAMEWORK = "warp"


def arguments(features, rng):
    n = features["n"]
    return {"x": rng.random((n, 3), np.float32), "y": np.zeros((n, 3), np.float32)}


def reference(arguments):
    return {"y": 2 * arguments["x"]}


@warp.kernel
def double(x: warp.array2d(dtype=float), y: warp.array2d(dtype=float), step: int):
    i, j = warp.tid()
    for k in range(i * step, min((i + 1) * step, x.shape[0])):
        y[k, j] = 2.0 * x[k, j]


def build(config, features):
    step = config["STEP"]
    dim = (-(-features["n"] // step) - config["LESS"], 3)

    def run(arguments):
        x, y = arguments["x"], arguments["y"]
        if config["RETURNS"]:
            y = warp.zeros_like(x)
        warp.launch(double, dim, inputs=[x, y, step])
        return {"y": y} if config["RETURNS"] else None

    return run
"""
WARP_SPACE = """\
name: double
kernel: {python: double.py}
parameters:
  STEP: {values: [1, 4], default: 1}
  LESS: {values: [0, 1], default: 0}
  RETURNS: {type: boolean, default: false}
inputs: {features: [n], values: [{n: 102}]}
"""


@pytest.mark.slow
def test_kernel_of_warp_is_verified_and_timed(tmp_path):
    pytest.importorskip("warp", reason="Warp is not installed (pip install warp-lang)")
    (tmp_path / "double.py").write_text(WARP)
    (tmp_path / "double.yaml").write_text(WARP_SPACE)
    spec = load_spec(tmp_path / "double.yaml")
    configs = [{"STEP": 1}, {"STEP": 4}, {"STEP": 4, "RETURNS": True}, {"STEP": 4, "LESS": 1}]
    *right, wrong = measured_configs(spec, configs)
    for found in right:
        assert_ok(found)
        assert found.time_s < 0.1
    assert_failed(wrong, Outcome.WRONG_RESULT, "y[100, 0] was never written")
