"""The kernel suite: correct in the corners of every space, and a planted fault is found.

`tests/data/suite/NAME.yaml` has, for each kernel, the corners, inputs that no block divides, and
one wrong operator or bound that the reference must catch.
"""

import functools
import itertools
import math
import re
import shutil
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
import yaml

from harness.checking.targets import CompileTarget, checked_spaces
from harness.core.records import Config, Input, Outcome
from harness.measure.cuda.cubin import kernel_symbol, parameter_places
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.nvrtc import Nvrtc
from harness.measure.cuda.occupancy import occupancy
from harness.measure.device.verify import Tolerance, verify
from harness.measure.kernels.data import make_kernel_data
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests import DATA, ROOT
from tests.helpers.compilers import BOTH, needs_nvcc
from tests.helpers.planted import assert_ok, space_of
from tests.helpers.planted import measured as measured_changes

pytestmark = pytest.mark.slow

CASES = sorted((DATA / "suite").glob("*.yaml"))
ARCHITECTURES = ("sm_80", "sm_90", "sm_120")
SHORT = {"warmup": 1, "repeats": 1}
"""Two runs of each configuration, both of which are verified."""

target_of = functools.cache(CompileTarget.of_architecture)


@dataclass(frozen=True)
class SuiteCase:
    """The test data of one kernel."""

    name: str
    configs: tuple[dict, ...]
    inputs: tuple[Input, ...]
    mutation: dict[str, str]

    def config(self, space, corner):
        """Return a corner; other parameters keep their defaults, other compilers' flags go."""
        here = {name: value for name, value in corner.items() if name in space.default}
        return Config({**space.default, **here})


@pytest.fixture(params=[path.stem for path in CASES])
def case(request):
    path = DATA / f"suite/{request.param}.yaml"
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    inputs = tuple(Input(problem) for problem in data["inputs"])
    return SuiteCase(path.stem, tuple(data["configs"]), inputs, data["mutation"])


def spec_of(case, root=ROOT):
    return load_spec(root / f"spaces/{case.name}.yaml").with_measure(SHORT)


def measured(case, spec, backend, points):
    """Measure corners on inputs, one by one."""
    with closing(KernelMeasurer(spec, backend)) as measurer:
        for problem, corner in points:
            space = space_of(spec, measurer, problem)
            config = case.config(space, corner)
            assert space.why_illegal(config) is None, f"{config} on ({problem})"
            yield measurer.measure(space, problem, config, None)


def test_every_kernel_has_its_case():
    """One of the spaces of each kernel has a case; program spaces have their own tests."""
    specs = {p.stem: load_spec(p) for p in (ROOT / "spaces").glob("*.yaml")}
    cases = {path.stem for path in CASES}
    assert cases <= set(specs)
    kernels = {spec.functions for spec in specs.values() if spec.program is None}
    assert kernels == {specs[name].functions for name in cases}


def test_table_of_the_page_has_each_kernel_with_the_number_of_its_inputs():
    page = (ROOT / "spaces/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) ?\** \| [\d,]+ \| (\d+) \|", page, re.MULTILINE)
    assert {name for name, _ in rows} == {path.stem for path in CASES}
    for name, inputs in rows:
        assert int(inputs) == len(load_spec(ROOT / f"spaces/{name}.yaml").inputs), name


def test_corners_verify_on_inputs_that_no_block_divides(case, opencl):
    points = itertools.product(case.inputs, case.configs)
    found = list(measured(case, spec_of(case), opencl, points))
    lines = [f"{m.config} on ({m.input}): {m.outcome}: {m.message}" for m in found]
    assert [m.outcome for m in found] == [Outcome.OK] * len(found), "\n".join(lines)


def test_planted_fault_is_caught(case, opencl, tmp_path):
    for folder in ("kernels", "spaces"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__py*"))
    source = tmp_path / "kernels" / case.mutation["file"]
    text = source.read_text(encoding="utf-8")
    assert text.count(case.mutation["from"]) == 1
    source.write_text(text.replace(case.mutation["from"], case.mutation["to"]), encoding="utf-8")
    # Corners take long to compile. The last input is the largest, and the likeliest to fail.
    points = ((problem, corner) for corner in case.configs for problem in reversed(case.inputs))
    found = measured(case, spec_of(case, tmp_path), opencl, points)
    assert any(m.outcome is Outcome.WRONG_RESULT for m in found), case.mutation["why"]


def smallest_input(spec):
    return min(spec.inputs, key=lambda problem: math.prod(map(float, problem.values())))


@pytest.mark.parametrize("case", ["matmul", "reduction", "scalarprod"], indirect=True)
def test_default_verifies_on_the_smallest_input_with_all_optimisations(case, opencl, monkeypatch):
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS")
    spec = spec_of(case)
    (found,) = measured(case, spec, opencl, [(smallest_input(spec), {})])
    assert_ok(found)


@needs_nvcc
def test_corners_compile_without_a_warning(case):
    """Compile one corner, the first or the last, for an architecture that kernels take in turn; all
    corners run on OpenCL. To compile one takes as long as to verify it there on all inputs."""
    turn = [path.stem for path in CASES].index(case.name)
    target = target_of(ARCHITECTURES[turn % len(ARCHITECTURES)])
    spec = replace(spec_of(case), inputs=case.inputs[:1])
    space = checked_spaces(spec, target.limits, "nvcc")[spec.inputs[0]]
    config = case.config(space, case.configs[-(turn % 2)])
    assert space.why_illegal(config) is None
    program = make_program(spec, space, config, target.language)
    assert target.backend.open_compiler().compile(program).build.log == "", target.name


# --------- Kernels as they are written today (spaces/modern): CUDA C++ templates, and OpenCL twins


MODERN_SPACES = ROOT / "spaces/modern"
MODERN = {
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


@pytest.mark.parametrize("name", MODERN)
def test_twin_verifies_on_opencl(name, opencl):
    problem, changes = Input(MODERN[name][0]), MODERN[name][1]
    spec = load_spec(MODERN_SPACES / f"{name}.yaml").with_measure(SHORT)
    for found in measured_changes(spec, opencl, problem, *changes):
        assert_ok(found)


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", MODERN)
def test_template_compiles_elsewhere(name, arch):
    spec = load_spec(MODERN_SPACES / f"{name}.yaml")
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    found = Nvrtc(arch).compile(make_program(spec, space, space.default, "cuda"))
    symbol = kernel_symbol(found.data, spec.functions[0])
    assert symbol.startswith(f"_Z{len(name)}{name}I")
    assert parameter_places(found.data, symbol)
    taken = found.build.registers, found.build.shared_bytes
    assert occupancy(arch, 256, *taken).active_groups > 0


@pytest.fixture(scope="module")
def device(stub_of_module):
    return CudaDevice()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODERN)
@both_compilers
def test_template_is_launched(compiler, name, device):
    """The stand-in computes the result: this shows that arguments and launches arrive."""
    problem, changes = Input(MODERN[name][0]), MODERN[name][1]
    spec = load_spec(MODERN_SPACES / f"{name}.yaml")
    data = make_kernel_data(spec.host, problem)
    space = ConstrainedSpace.of(spec, problem, device.limits)
    config = Config({**space.default, **changes[-1]})
    program = make_program(spec, space, config, "cuda")
    module = device.load(compiler("sm_90", specific=True).compile(program))
    device.bind(data.arguments)
    launch = space.launch(config, spec.functions[0], list(data.arguments))
    device.launch(module, [launch])
    found = {output: device.arguments.read(output) for output in data.expected}
    tolerance = Tolerance(spec.verify.rtol, spec.verify.atol)
    assert verify(found, data.expected, tolerance) is None
