"""Which compiler compiles a space's CUDA kernels, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable
from harness.measure import choose
from harness.measure.backends.choose import Backend
from harness.measure.backends.cuda_compilers import NVCC, NVRTC
from harness.measure.choose import with_cuda_compiler
from harness.space_file import Spec, load_spec
from tests.helpers.results_examples import SPEC

SM_90 = Backend("cuda", "nvcc", "a test", arch="sm_90")
SPACE = """\
name: scale
kernel: {function: scale, source: {cuda: scale.cu}, host: scale.py}
parameters: {BLOCK: {values: [32, 64], default: 32}}
launch: {group: [BLOCK], grid: [1]}
inputs: {features: [n], values: [{n: 32}]}
"""
HOST = "def arguments(n, rng): ...\n\n\ndef reference(arguments): ...\n"


def space(folder: Path, more: str = "", kernel: str = "x[threadIdx.x] = BLOCK;") -> Spec:
    text = f'extern "C" __global__ void scale(float *x) {{ {kernel} }}\n'
    (folder / "scale.cu").write_text(text)
    (folder / "scale.py").write_text(HOST)
    (folder / "scale.yaml").write_text(SPACE + more)
    return load_spec(folder / "scale.yaml")


def without(monkeypatch: pytest.MonkeyPatch, missing: Mapping[str, str]) -> None:
    """Make the named compilers unusable, and the others usable."""
    monkeypatch.setattr(choose, "why_unusable", lambda name, arch: missing.get(name))


def chosen(spec: Spec, backend: Backend = SM_90) -> tuple[str, str]:
    found = with_cuda_compiler(spec, backend)
    return found.cuda_compiler, found.why.removeprefix("a test; ")


def test_the_space_names_the_compiler(tmp_path, monkeypatch) -> None:
    without(monkeypatch, {})
    spec = space(tmp_path, "compiler: {cuda: nvrtc}\n")
    assert chosen(spec) == (NVRTC, "NVRTC compiles: the space says so")
    assert spec.program_sha256 == space(tmp_path).program_sha256


def test_named_compiler_that_is_missing_is_an_error(tmp_path, monkeypatch) -> None:
    without(monkeypatch, {NVRTC: "NVRTC is not installed: pip install it"})
    spec = space(tmp_path, "compiler: {cuda: nvrtc}\n")
    reason = r"scale\.yaml says `compiler: \{cuda: nvrtc\}`, but .* here: NVRTC is not installed: p"
    with pytest.raises(BackendUnavailable, match=reason):
        with_cuda_compiler(spec, SM_90)


def test_nvcc_compiles_where_it_is_and_nvrtc_elsewhere(tmp_path, monkeypatch) -> None:
    without(monkeypatch, {})
    spec = space(tmp_path)
    assert chosen(spec) == (NVCC, "nvcc compiles")
    without(monkeypatch, {NVCC: "nvcc was not found: it is nowhere"})
    only = dataclasses.replace(SM_90, cuda_compiler=NVRTC)
    assert chosen(spec, only) == (NVRTC, "NVRTC compiles: nvcc was not found")


def test_other_devices_have_no_choice(opencl: Backend) -> None:
    assert with_cuda_compiler(SPEC, opencl) is opencl
