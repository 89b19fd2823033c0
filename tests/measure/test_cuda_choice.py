"""Which compiler compiles a space's CUDA kernels, and why."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.program import Binary
from harness.core.records import Build, Environment
from harness.measure import cuda_choice
from harness.measure.backends.choose import Backend
from harness.measure.backends.cuda_compilers import NVCC, NVRTC
from harness.measure.cuda_choice import with_cuda_compiler, with_named_compiler
from harness.results import Store, stored_compilers, writing
from harness.space_file import Spec, load_spec
from tests.helpers.results_examples import ENVIRONMENT, SPEC, make_plan
from tests.measure.test_nvcc import needs_nvcc
from tests.measure.test_nvrtc import needs_nvrtc

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
    monkeypatch.setattr(cuda_choice, "why_unusable", lambda name, arch: missing.get(name))


def chosen(spec: Spec, backend: Backend = SM_90, *measured: str) -> tuple[str, str]:
    found = with_cuda_compiler(spec, backend, lambda: measured)
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
        with_named_compiler(spec, SM_90)


def test_the_only_compiler_is_used_and_the_other_ones_fault_is_named(tmp_path, monkeypatch) -> None:
    without(monkeypatch, {NVRTC: "NVRTC's bindings are not installed (cuda): pip install them"})
    spec = space(tmp_path)
    assert chosen(spec) == (NVCC, "nvcc compiles: NVRTC's bindings are not installed")
    without(monkeypatch, {NVCC: "nvcc was not found: it is nowhere"})
    only = dataclasses.replace(SM_90, cuda_compiler=NVRTC)
    assert chosen(spec, only) == (NVRTC, "NVRTC compiles: nvcc was not found")


def test_database_keeps_the_compiler_of_its_measurements(tmp_path, monkeypatch) -> None:
    without(monkeypatch, {})
    why = "compiles: the database has measurements of its code"
    spec = space(tmp_path)
    assert chosen(spec, SM_90, "PoCL", "nvrtc 13.0.88 sm_90") == (NVRTC, f"NVRTC {why}")
    assert chosen(spec, SM_90, "nvcc 13.0.88 sm_90", "nvrtc 13") == (NVCC, f"nvcc {why}")


def test_other_devices_have_no_choice(opencl: Backend) -> None:
    assert with_cuda_compiler(SPEC, opencl) is opencl


@pytest.mark.parametrize(
    ("code", "seconds", "name", "why"),
    [
        (
            b"same",
            0.08,
            NVRTC,
            "both make the same machine code .*; NVRTC takes 0.08 s a build, and",
        ),
        (b"same", 0.90, NVCC, "both make the same machine code"),
        (b"other", 0.08, NVCC, "NVRTC makes other machine code .* write `compiler: {cuda: nvrtc}`"),
    ],
)
def test_nvrtc_is_taken_where_it_makes_the_same_code_sooner(
    code, seconds, name, why, monkeypatch
) -> None:
    monkeypatch.setattr(cuda_choice, "loaded_code", lambda cubin: cubin)
    build = Build(key="k", options="", compiler="nvcc", compile_s=0.4)
    other = dataclasses.replace(build, compiler="nvrtc", compile_s=seconds)
    found, reason = cuda_choice._judged(Binary(build, b"same"), Binary(other, code))
    assert found == name
    assert re.match(why, reason)


@needs_nvcc
@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "more", "name", "why"),
    [
        ("x[0] = BLOCK;", "", None, "machine code of the default configuration"),
        (
            "uint32_t y = BLOCK; x[0] = y;",
            "",
            NVCC,
            'NVRTC does not compile the default: .*"uint32',
        ),
        (
            "x[0] = BLOCK;",
            "flags: {nvcc: {'keep-device-functions': boolean}}\n",
            NVCC,
            "NVRTC does not know the flag --keep-device-functions",
        ),
    ],
)
def test_both_compile_the_default_once(tmp_path, kernel, more, name, why) -> None:
    found, reason = chosen(space(tmp_path, more, kernel))
    assert re.search(why, reason)
    assert name is None or found == name


def test_compilers_of_a_database_come_last_begun_first(tmp_path) -> None:
    database = str(tmp_path / "results.db")
    assert stored_compilers(database, SPEC.program_sha256) == ()
    environments: list[Environment] = [
        dataclasses.replace(ENVIRONMENT, compiler=name) for name in ("nvcc 1", "nvrtc 2")
    ]
    with writing(database) as engine, Store(engine) as store:
        for environment in environments:
            store.begin_run(make_plan(environment=environment), {})
        store.commit()
    assert stored_compilers(database, SPEC.program_sha256) == ("nvrtc 2", "nvcc 1")
    assert stored_compilers(database, "another") == ()
    with closing(sqlite3.connect(database)) as file, file:
        file.execute("UPDATE environments SET compiler = x'00' WHERE compiler = 'nvcc 1'")
    assert stored_compilers(database, SPEC.program_sha256) == ("nvrtc 2",)
