"""The NVRTC compiler: real compilations where the library is installed."""

from __future__ import annotations

import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from harness.commands.check import main as check
from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.program import Binary, Program
from harness.measure.builds.compiled import sections
from harness.measure.builds.queue import BuildCache, digests
from harness.measure.cuda import binary, nvrtc
from harness.measure.cuda.nvrtc import Nvrtc, load_nvrtc
from tests.helpers.compilers import needs_nvrtc
from tests.measure.test_nvcc import SOURCE, program

SPACES = Path(__file__).parents[2] / "spaces"


@pytest.fixture(scope="module")
def compiler() -> Nvrtc:
    return Nvrtc("sm_90")


@pytest.fixture(scope="module")
def built(compiler: Nvrtc) -> Binary:
    return compiler.compile(program())


# ------------------------------------------------------------------------- what is built


@needs_nvrtc
def test_lines_of_the_source_are_in_a_cubin_that_is_built_with_them(compiler):
    names = {each.name for each in sections(compiler.compile(program(SOURCE, "-lineinfo")).data)}
    assert b".debug_line" in names


@needs_nvrtc
def test_device_with_features_of_its_own_is_compiled_for_where_it_has_them():
    assert Nvrtc("sm_90", specific=True).arch == "sm_90a"
    assert Nvrtc("sm_80", specific=True).arch == "sm_80"


# ------------------------------------------------------------------------- what is refused


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", ("-Xcompiler", "-Wall"), r"unrecognized option -Xcompiler.*no option of NVRTC.*nvcc"),
        ("", ("-Xptxas", "--none"), r"ptxas fatal\s*: Unknown option '-none'"),
        ("#include <iostream>", (), r'file "iostream".*no headers of the host'),
        ("#include <curand_none.h>", (), r"header of the CUDA toolkit: install it, or pip install"),
        ("__device__ uint32_t x;", (), r'"uint32_t" is undefined.*<cuda/std/cstdint>.*with nvcc'),
        ("int main() {}", (), r"keep main\(\) and host code in another file"),
        ("#include NAME", (), r"`#include NAME` names its file by a macro.*with nvcc"),
        ("", ("-include", "x.h"), r"the option `-include` reads a file"),
        ("", ("-maxrregcount=64", "-maxrregcount=96"), r"did not obey.*incompatible redefinition"),
        ("", ("-arch=sm_80",), r"did not obey.*80"),
        (
            '#line 7 "odd.cu"\n__device__ int x = NAME;',
            (),
            r'^odd\.cu\(7\): error.* "NAME" is undef',
        ),
    ],
)
def test_refused_build_says_why_and_what_helps(compiler, text, options, reason):
    with pytest.raises(BuildFailed, match=f"(?s){reason}"):
        compiler.compile(program(text, *options))


@pytest.mark.parametrize("fault", [ImportError("no module"), RuntimeError("no libnvrtc.so.13\n")])
def test_missing_library_says_what_to_install(monkeypatch, fault):
    class Library:
        @staticmethod
        def nvrtcVersion() -> None:  # noqa: N802 (NVRTC's name)
            raise fault

    def found(name: str) -> Any:
        if isinstance(fault, ImportError):
            raise fault
        return Library

    monkeypatch.setattr(importlib, "import_module", found)
    with pytest.raises(BackendUnavailable, match="pip install cuda-bindings nvidia-cuda-nvrtc"):
        load_nvrtc()


@needs_nvrtc
def test_build_leaves_nothing_for_the_next_one(built, compiler):
    compiler.compile(program(SOURCE, "--restrict"))
    assert compiler.compile(program()).build.binary_sha256 == built.build.binary_sha256


class _Faulty:
    """The library, but for what compiles."""

    def __init__(self, library: Any, fault: Any) -> None:
        self._library, self._fault = library, fault

    def __getattr__(self, name: str) -> Any:
        return self._fault if name == "nvrtcCompileProgram" else getattr(self._library, name)


@needs_nvrtc
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda *_: os.kill(os.getpid(), signal.SIGKILL), r"NVRTC crashed \(SIGKILL\)"),
        (lambda *_: os._exit(3), "NVRTC ended with status 3"),
        (lambda *_: time.sleep(300), r"NVRTC did not finish within 0\.2 s .*build_timeout_s: SEC"),
    ],
)
def test_library_that_crashes_or_hangs_is_a_failed_build(compiler, monkeypatch, fault, reason):
    monkeypatch.setattr(compiler, "_nvrtc", _Faulty(compiler._nvrtc, fault))
    with pytest.raises(BuildFailed, match=reason):
        compiler.compile(Program("", (), (), timeout_s=0.2))


# ------------------------------------------------------------------------- headers


@needs_nvrtc
def test_headers_are_known_afterwards_and_a_changed_one_is_built_again(compiler, tmp_path):
    (tmp_path / "size.h").write_text("#include <deeper.h>\n")
    (tmp_path / "deeper.h").write_text("#define SIZE 96\n")
    text = """#include "size.h"
#include <cuda_fp16.h>
__global__ void f(char *x) {
    __shared__ char s[SIZE];
    s[threadIdx.x] = x[0];
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x ^ 1];
}"""
    asked = program(text, include_dirs=(str(tmp_path),))
    found = compiler.compile(asked)
    assert found.build.shared_bytes == 96
    own = digests(str((tmp_path / name).resolve()) for name in ("deeper.h", "size.h"))
    assert set(own) <= set(found.read)
    BuildCache().put(found)
    assert BuildCache().get(found.build.key) is not None
    (tmp_path / "deeper.h").write_text("#define SIZE 128\n")
    assert BuildCache().get(found.build.key) is None


@needs_nvrtc
def test_file_in_the_processs_own_folder_is_no_header(compiler, tmp_path, monkeypatch):
    (tmp_path / "mine.h").write_text("#define MINE 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuildFailed, match=r'open source file "mine\.h"'):
        compiler.compile(program('#include "mine.h"\n'))


@needs_nvrtc
@pytest.mark.parametrize("name", ["parts/outer.h", "cooperative_groups.h"])
def test_header_includes_one_of_its_own_folder(compiler, name, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "outer.h").write_text('#include "inner.h"\n')
    (parts / "inner.h").touch()
    compiler.compile(program(f"#include <{name}>\n", include_dirs=(str(tmp_path),)))


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("int a;", False),
        ('#include "mine.h"', False),
        ("#include <mine.h>", False),
        ("# include <cuda_fp16.h>", True),
        ('#include "other.h"', True),
    ],
)
def test_headers_of_the_toolkit_are_looked_for_where_a_file_is_in_no_folder_of_the_space(
    text, needs, tmp_path
):
    (tmp_path / "mine.h").touch()
    asked = Program(text, (), (str(tmp_path),))
    assert binary.includes_others(asked, ()) == needs


# ------------------------------------------------------------------------- commands


@needs_nvrtc
def test_check_compiles_for_an_architecture_without_nvcc(monkeypatch, capsys):
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    assert check([str(SPACES / "mvmul.yaml"), "--arch", "sm_90", "--sample", "0"]) == 0
    assert "default for sm_90: OK (compiled by nvrtc in" in capsys.readouterr().out


def test_library_that_does_not_compile_is_not_used(monkeypatch):
    class Broken:
        class Status(int):
            name = "NVRTC_ERROR_INTERNAL_ERROR"

        def nvrtcGetSupportedArchs(self) -> tuple[int, list[int]]:  # noqa: N802
            return 0, [80, 90]

        def nvrtcCreateProgram(self, *_: object) -> tuple[Status, None]:  # noqa: N802
            return self.Status(11), None

    monkeypatch.setattr(nvrtc, "load_nvrtc", Broken)
    with pytest.raises(BackendUnavailable, match=r"does not compile an empty kernel: NVRTC p"):
        Nvrtc("sm_90")
