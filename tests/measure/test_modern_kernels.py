"""Kernels as they are written today (spaces/modern): CUDA C++ templates, and OpenCL twins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.program import Launch
from harness.core.records import Config, Input, Outcome
from harness.measure.cuda.cubin import kernel_symbol, parameter_places
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.cuda.occupancy import occupancy
from harness.measure.devices import Backend
from harness.measure.kernels.data import make_kernel_data
from harness.measure.trial.verify import Tolerance, verify
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests.helpers.compilers import BOTH
from tests.helpers.planted import measured
from tests.helpers.stub_driver import StubDriver

pytestmark = pytest.mark.slow

SPACES = Path(__file__).parents[2] / "spaces" / "modern"
Values = Mapping[str, int | bool]
CASES: dict[str, tuple[Values, tuple[Values, ...]]] = {
    "gemm": (
        {"m": 67, "n": 45, "k": 35},
        (
            {},
            {"TILE_M": 16, "TILE_N": 32, "TILE_K": 8, "WORK_M": 1, "WORK_N": 2},
            # 96 KiB of shared memory, more than a kernel has without asking.
            {"TILE_M": 256, "TILE_N": 128, "TILE_K": 64, "WORK_M": 8, "WORK_N": 4},
        ),
    ),
    "softmax": ({"rows": 5, "columns": 333}, ({}, {"BLOCK": 32, "KEEP": True})),
    "spmv": ({"rows": 301, "row_length": 13}, ({}, {"BLOCK": 64, "LANES": 8})),
}
both_compilers = pytest.mark.parametrize("compiler", BOTH)
SHORT = {"warmup": 1, "repeats": 1}


@pytest.mark.parametrize("name", CASES)
def test_twin_verifies_on_opencl(name: str, opencl: Backend) -> None:
    problem, changes = Input(CASES[name][0]), CASES[name][1]
    spec = load_spec(SPACES / f"{name}.yaml").with_measure(SHORT)
    for found in measured(spec, opencl, problem, *changes):
        assert found.outcome is Outcome.OK, found.message


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", CASES)
@both_compilers
def test_template_compiles_for_other_devices(
    compiler: type[Nvcc | Nvrtc], name: str, arch: str
) -> None:
    spec = load_spec(SPACES / f"{name}.yaml")
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    found = compiler(arch).compile(make_program(spec, space, space.default, "cuda"))
    symbol = kernel_symbol(found.data, spec.functions[0])
    assert symbol.startswith(f"_Z{len(name)}{name}I")
    assert parameter_places(found.data, symbol)
    taken = found.build.registers, found.build.shared_bytes
    assert occupancy(arch, 256, *taken).active_groups > 0


@pytest.fixture(scope="module")
def device(stub_of_module: StubDriver) -> CudaDevice:
    return CudaDevice()


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
@both_compilers
def test_template_launches_over_the_stand_in(
    compiler: type[Nvcc | Nvrtc], name: str, device: CudaDevice
) -> None:
    """The stand-in computes the result: this shows that arguments and launches arrive."""
    problem, changes = Input(CASES[name][0]), CASES[name][1]
    spec = load_spec(SPACES / f"{name}.yaml")
    data = make_kernel_data(spec.host, problem)
    space = ConstrainedSpace.of(spec, problem, device.limits)
    config = Config({**space.default, **changes[-1]})
    module = device.load(
        compiler("sm_90", specific=True).compile(make_program(spec, space, config, "cuda"))
    )
    device.bind(data.arguments)
    launch: Launch = space.launch(config, spec.functions[0], list(data.arguments))
    device.launch(module, [launch])
    found = {output: device.read(output) for output in data.expected}
    tolerance = Tolerance(spec.verify.rtol, spec.verify.atol)
    assert verify(found, data.expected, tolerance) is None


@pytest.mark.parametrize("name", CASES)
def test_inputs_reach_from_a_small_cache_to_beyond_a_large_one(name: str) -> None:
    sizes = {
        "gemm": lambda p: 4 * (p["m"] * p["k"] + p["k"] * p["n"] + p["m"] * p["n"]),
        "softmax": lambda p: 4 * p["rows"] * p["columns"],
        "spmv": lambda p: p["rows"] * (8 * p["row_length"] + 12),
    }
    found = [sizes[name](problem) for problem in load_spec(SPACES / f"{name}.yaml").inputs]
    assert min(found) < 2 << 20
    assert max(found) > 126 << 20
