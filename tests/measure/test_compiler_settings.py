"""Fixed options, include folders, the standard, the deadline and the architecture of a space."""

import re
import shutil
from dataclasses import replace

import pytest

from harness.core.errors import SpecError
from harness.core.records import Config
from harness.measure.choose import fitted_backend
from harness.measure.cuda.gpus import NVCC, NVRTC
from harness.measure.devices import Backend
from harness.measure.opencl.driver import OpenClCompiler
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests import DATA
from tests.helpers.compilers import needs_nvcc, needs_nvrtc, open_opencl

NAMED = (
    pytest.param(NVRTC, marks=needs_nvrtc),
    pytest.param(NVCC, marks=[needs_nvcc, pytest.mark.slow]),
)
FILES = DATA / "bad_specs/files"

SPACE = """\
name: scale
kernel: {{function: scale, source: {{cuda: src/scale.cu, opencl: src/scale.cl}}, host: scale.py}}
parameters: {{BLOCK: {{values: [32, 64], default: 32}}}}
compiler: {compiler}
launch: {{group: [BLOCK], grid: ["ceil_div(n, BLOCK)"]}}
inputs: {{features: [n], values: [{{n: 1024}}]}}
"""
SETTINGS = """
  nvcc: {options: [-DFACTOR=3, --fmad=false], include: [lib], std: c++20,
         build_timeout_s: 5, arch_specific: true}
  opencl: {options: [-DFACTOR=3, -cl-mad-enable], include: [lib], std: CL1.2}"""
CUDA = """\
#include <helper.h>
static_assert(__cplusplus >= 202002L && FACTOR == 3 && HELPER == 7);
__global__ void scale(float *x) { x[0] = deeper(BLOCK); }
"""
OPENCL = (
    '#include "helper.h"\nkernel void scale(global float *x) { x[0] = BLOCK * FACTOR * HELPER; }'
)


@pytest.fixture
def folder(tmp_path):
    for name in ("src", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "src/scale.cu").write_text(CUDA)
    (tmp_path / "src/scale.cl").write_text(OPENCL)
    (tmp_path / "lib/helper.h").write_text(
        "#define HELPER 7\n#ifdef __CUDACC__\n#include <deeper.h>\n#endif\n"
    )
    (tmp_path / "lib/deeper.h").write_text("__device__ int deeper(int x) { return x * FACTOR; }\n")
    shutil.copy(FILES / "scale.py", tmp_path)
    return tmp_path


def loaded(folder, compiler=SETTINGS):
    (folder / "space.yaml").write_text(SPACE.format(compiler=compiler))
    return load_spec(folder / "space.yaml")


def program(spec, language):
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    return make_program(spec, space, Config({"BLOCK": 32}), language)


def test_each_compiler_gets_its_own_settings(folder):
    spec = loaded(folder)
    cuda, opencl = program(spec, "cuda"), program(spec, "opencl")
    assert cuda.options == ("-std=c++20", "-DFACTOR=3", "--fmad=false")
    assert opencl.options == ("-cl-std=CL1.2", "-DFACTOR=3", "-cl-mad-enable")
    assert cuda.include_dirs == (str(folder / "src"), str(folder / "lib"))
    assert (cuda.timeout_s, opencl.timeout_s) == (5, None)
    assert len(cuda.includes) == len(opencl.includes) == 2


def test_options_and_included_files_are_in_the_identity_not_the_deadline(folder):
    def identities(text=SETTINGS):
        spec = loaded(folder, text)
        return spec.program_sha256, program(spec, "cuda").key("nvcc")

    first = identities()
    assert identities(SETTINGS.replace("build_timeout_s: 5", "build_timeout_s: 50"))[0] == first[0]
    changed = [
        identities(SETTINGS.replace(*edit)) for edit in (("FACTOR", "SIZE"), ("c++20", "c++17"))
    ]
    (folder / "lib/deeper.h").write_text("__device__ int deeper(int x) { return x; }\n")
    changed.append(identities())
    for different in zip(first, *changed, strict=True):
        assert len({*different}) == 4
    plain = loaded(folder, "{}").program_sha256
    assert loaded(folder, "{nvcc: {build_timeout_s: 9}, opencl: {}}").program_sha256 == plain


def test_opencl_builds_with_them(folder):
    binary = open_opencl(OpenClCompiler).compile(program(loaded(folder), "opencl"))
    assert "HELPER 7" in binary.data.decode()


@pytest.mark.parametrize("cuda_compiler", NAMED)
def test_cuda_builds_with_them_for_the_architecture_with_its_own_features(folder, cuda_compiler):
    spec = loaded(folder)
    backend = Backend("cuda", "nvcc", "a test", arch="sm_90", cuda_compiler=cuda_compiler)
    compiler = fitted_backend(spec, backend).open_compiler()
    assert compiler.identity.endswith(" sm_90a")
    assert compiler.compile(program(spec, "cuda")).data
    with_less = replace(backend, arch="sm_80", arch_specific=True)
    assert with_less.open_compiler().arch == "sm_80"


REFUSED = {
    "-std=c++17": "gives the standard: write `std` beside",
    "-Ilib": "write it under `include`",
    "--gpu-architecture=sm_90a": "write `arch_specific: true`",
    "-gencode": "write `arch_specific: true`",
    "-cubin": "decides what the compiler writes",
    "-rdc=true": "decides what the compiler writes",
    "-DBLOCK=4": "defines BLOCK, which is a parameter",
}


def test_option_that_another_key_sets_is_refused(folder):
    for option, reason in REFUSED.items():
        with pytest.raises(
            SpecError, match=f"options.1: {re.escape(f'`{option}`')} .*{reason[-20:]}"
        ):
            loaded(folder, f"{{nvcc: {{options: [-G, {option}]}}}}")


def test_folder_that_is_not_there_is_reported_with_its_place(folder):
    with pytest.raises(SpecError, match=r"compiler\.nvcc\.include\.0: .*libs is not a folder"):
        loaded(folder, "{nvcc: {include: [libs]}}")
