"""What a dispatcher's folder holds, that it replaces nothing else, and that its kernels run."""

import importlib.util
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.loaders import cuda as cuda_loader
from harness.dispatch.package import (
    MANIFEST,
    dispatcher_of,
    opencl_kernels,
    python_kernels,
    write_dispatcher,
)
from harness.models.columns import Column, ColumnKind
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.dispatch_examples import (
    CUDA,
    PROVENANCE,
    STRICT,
    imported,
    memories_of,
    mvmul_program,
    product,
    shaped_50_by_300,
    write_for_cuda,
    write_for_opencl,
)
from tests.helpers.stub_driver import needs_pycuda

EXAMPLES = ROOT / "examples"


def _pocl_refuses_cpu():
    """Tell whether PoCL's LLVM is older than the processor: then C programs cannot build."""
    try:
        import pyopencl as cl
    except ImportError:
        return False
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    return any(device.version.endswith("-generic") for device in devices)


POCL_REFUSES_CPU = _pocl_refuses_cpu()
HAS_OPENCL_HEADERS = (
    subprocess.run(
        ["cc", "-fsyntax-only", "-include", "CL/cl.h", "-x", "c", os.devnull],
        capture_output=True,
        check=False,
    ).returncode
    == 0
)


@pytest.fixture(scope="module")
def spec():
    return load_spec(ROOT / "spaces" / "mvmul.yaml")


@pytest.fixture(scope="module")
def out(spec, tmp_path_factory):
    """The dispatcher of mvmul for the OpenCL device that is here."""
    folder = tmp_path_factory.mktemp("dispatch") / "out"
    write_for_opencl(folder, spec, mvmul_program())
    return folder


# ------------------------------------------------------------------------------------ the folder


@pytest.fixture(scope="module")
def small(spec):
    """A dispatcher that only chooses."""
    return dispatcher_of(mvmul_program(), spec, PROVENANCE)


def test_folder_of_a_dispatcher_is_replaced(tmp_path, small):
    out = tmp_path / "out"
    out.mkdir()
    write_dispatcher(out, small, tables={"a.json": b"1"})
    (out / "mvmul" / "__pycache__").mkdir()
    (out / "mvmul" / "__pycache__" / "b.pyc").write_bytes(b"")
    written = write_dispatcher(out, small)
    assert written[0] == out / "mvmul.h"
    assert {path for path in out.rglob("*") if path.is_file()} == set(written)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["mine.txt", MANIFEST])
def test_folder_with_anything_else_is_refused(tmp_path, small, name):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(UsageError, match=name):
        write_dispatcher(tmp_path, small)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, '{"mine": 1}')]


def test_folder_within_or_changed_is_refused(tmp_path, small):
    write_dispatcher(tmp_path, small)
    with pytest.raises(UsageError, match="a dispatcher's folder"):
        write_dispatcher(tmp_path / "sub" / "more", small)
    (tmp_path / "mvmul.h").write_text("changed")
    with pytest.raises(UsageError, match=r"mvmul\.h"):
        write_dispatcher(tmp_path, small)


def test_failures_leave_the_folder_alone(tmp_path, small, monkeypatch):
    out = tmp_path / "out"
    write_dispatcher(out, small)
    before = (out / "mvmul.h").read_bytes()
    rename = os.rename

    def refuse_the_new(source, target):
        if Path(source).name == "new":
            raise OSError(28, "full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_new)
    with pytest.raises(UsageError, match="full"):
        write_dispatcher(out, replace(small, title="Another"))
    assert (out / "mvmul.h").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


# ------------------------------------------------------------------------------------ the loaders


@pytest.fixture(scope="module")
def queue():
    cl = pytest.importorskip("pyopencl")
    return cl.CommandQueue(cl.create_some_context(interactive=False))


def test_opencl_kernel_is_chosen_built_once_and_right(out, queue):
    module = imported(out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = module.load(queue.context)
        for m, n, place in ((50, 300, 1), (300, 500, 2), (500, 300, 0), (7, 20, 0)):
            assert kernel.index(m=m, n=n) == place
            assert (product(queue, kernel, m, n) == n).all()
    assert kernel.kernels(2) is kernel.kernels(2)


def test_another_device_gets_the_static_one(spec, tmp_path, queue):
    program = mvmul_program()
    kernels = opencl_kernels(spec, program)
    write_dispatcher(tmp_path, dispatcher_of(program, spec, PROVENANCE, kernels))
    with pytest.warns(UserWarning, match="a device, 2 compute units") as caught:
        kernel = imported(tmp_path).load(queue.context)
    assert kernel.index(m=50, n=300) == 0
    assert __file__ in [warning.filename for warning in caught]


def launches(stub):
    return [call for call in stub.calls() if call.startswith("cuLaunchKernel")]


@pytest.mark.gpu
def test_cuda_loader_launches_the_chosen_cubin(spec, tmp_path, stub):
    kernels = write_for_cuda(tmp_path / "out", spec, mvmul_program())
    arrays = shaped_50_by_300()
    with memories_of(*arrays) as memories, warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = imported(tmp_path / "out").load()
        stub.calls()
        kernel(None, *memories, np.int32(50), np.int32(300), m=50, n=300)
        assert launches(stub) == ["cuLaunchKernel mvmul grid 13 1 1 group 4 4 1"]
        other = replace(PROVENANCE, environment=replace(CUDA, device="H200"))
        write_dispatcher(tmp_path / "h200", dispatcher_of(mvmul_program(), spec, other, kernels))
        with pytest.warns(UserWarning, match="H200.* choice by input is used"):
            assert imported(tmp_path / "h200").load().index(m=50, n=300) == 1
    assert (arrays[2] == 600).all()


@pytest.mark.gpu
@pytest.mark.pycuda
@needs_pycuda
def test_cuda_loader_takes_what_pycuda_has(spec, tmp_path, stub):
    write_for_cuda(tmp_path / "out", spec, mvmul_program())
    driver = importlib.import_module("pycuda.driver")
    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    try:
        kernel = imported(tmp_path / "out").load(context)
        stream = SimpleNamespace(handle=0)  # as PyCUDA's have it; the stand-in makes none
        arrays = shaped_50_by_300()
        a, x, y = map(driver.to_device, arrays)
        wrapped = SimpleNamespace(gpudata=x)  # as PyCUDA's arrays have it
        kernel(stream, a, wrapped, y, np.int32(50), np.int32(300), m=50, n=300)
        driver.memcpy_dtoh(arrays[2], y)
    finally:
        context.pop()
        context.detach()
    assert (arrays[2] == 600).all()


def gemm_program():
    """The default and a configuration with 80 KiB of dynamic shared memory, which is chosen."""
    spec = load_spec(ROOT / "spaces" / "modern" / "gemm.yaml")
    default = Config({p.name: p.default for p in spec.parameters})
    large = Config({**default, "TILE_M": 256, "TILE_K": 64, "WORK_M": 8})
    choice = Choice.of_trees([Leaf((1.0, 0.0), 1)], predicts_times=False)
    return spec, DispatchProgram((), (), (default, large), choice, ((), ()))


def factors():
    """Two matrices, and one for their product, which is 4 everywhere."""
    return [np.ones((3, 4), "f4"), np.ones((4, 5), "f4"), np.zeros((3, 5), "f4")]


SIZES = list(map(np.int32, (3, 5, 4)))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes, shown",
    [({"carveout": Expression("TILE_K")}, "carveout 64"), ({"cooperative": True}, "cooperative")],
)
def test_cuda_loader_finds_a_template_and_gives_it_its_shared_memory(
    changes, shown, tmp_path, stub
):
    spec, program = gemm_program()
    launch = spec.launch.model_copy(update=changes)
    kernels = write_for_cuda(tmp_path, replace(spec, launch=launch), program)
    assert f'{{"{kernels[1].symbols[0]}"}},' in (tmp_path / "gemm.h").read_text()
    arrays = factors()
    with memories_of(*arrays) as memories:
        kernel = imported(tmp_path, "gemm").load()
        stub.calls()
        kernel(None, *memories, *SIZES, m=3, n=5, k=4)
        (call,) = launches(stub)
    assert (arrays[2] == 4).all()
    assert "_Z4gemmIfLi256ELi64ELi64ELi8ELi4EE" in call
    assert call.endswith(f"grid 1 1 1 group 16 32 1 shared 81920 {shown}")


def test_cuda_loader_without_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(ImportError, match="pip install cuda-bindings"):
        cuda_loader.Kernel(SimpleNamespace(NAME="mvmul", DATA={"launch": None}))


def test_opencl_loader_passes_the_local_memory(tmp_path, queue):
    import pyopencl as cl

    spec, program = gemm_program()
    write_for_opencl(tmp_path, spec, program)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arrays = factors()
    buffers = [cl.Buffer(queue.context, flags, hostbuf=array) for array in arrays]
    kernel = imported(tmp_path, "gemm").load(queue.context)
    kernel(queue, *buffers, *SIZES, m=3, n=5, k=4).wait()
    cl.enqueue_copy(queue, arrays[2], buffers[2]).wait()
    assert (arrays[2] == 4).all()


# ----------------------------------------------------------------------------------- the examples


def test_c_example_compiles_and_chooses(out, tmp_path):
    built = tmp_path / "choose"
    source = str(EXAMPLES / "choose_mvmul.c")
    subprocess.run(["cc", "-std=c99", *STRICT, f"-I{out}", source, "-o", built], check=True)
    said = subprocess.run([built, "50", "300"], capture_output=True, text=True, check=True).stdout
    assert said == "THRD=16 LU=1 X_CACHE=0 group=4x4 grid=13x1\nmvmul/kernels/1.cl \n"


@pytest.mark.slow
def test_python_example_runs_without_harness(out):
    code = (
        "import runpy, sys; sys.modules['harness'] = None  # an import of it fails\n"
        "del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    example = str(EXAMPLES / "run_mvmul.py")
    command = [sys.executable, "-c", code, example, str(out), "333", "601"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "333 x 601: {'THRD': 64, 'LU': 2, 'X_CACHE': 0}\n"


@pytest.mark.skipif(POCL_REFUSES_CPU, reason="PoCL cannot build for this processor by itself")
@pytest.mark.skipif(not HAS_OPENCL_HEADERS, reason="OpenCL's C headers (CL/cl.h) are not here")
def test_c_example_runs_on_opencl(out, tmp_path):
    built = tmp_path / "run"
    source = str(EXAMPLES / "run_mvmul.c")
    command = ["cc", "-std=c99", *STRICT, f"-I{out}", source, "-o", str(built), *_opencl_library()]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [built, out, "333", "601"], capture_output=True, text=True, check=False, env=_opencl_env()
    )
    assert done.stdout == "333 x 601: configuration 2\n0 of 333 elements are wrong\n", done.stderr


def _opencl_library():
    """The loader that comes with PyOpenCL, where there is none of the system's."""
    import pyopencl

    own = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*.so*"))
    return [str(own[0]), f"-Wl,-rpath,{own[0].parent}"] if own else ["-lOpenCL"]


def _opencl_env():
    """So that it finds the platforms that PyOpenCL finds."""
    import pyopencl

    own = Path(pyopencl.__file__).parent / ".libs"
    found = {"OCL_ICD_VENDORS": str(own), "LD_LIBRARY_PATH": str(own)} if own.is_dir() else {}
    return {**os.environ, **found}


# ------------------------------------------------------------------------- Python callables

IN_PYTHON = """\
name: k
kernel: {python: k.py}
parameters: {TILE: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 16}]}
"""
CALLABLE = """\
builds = []
def arguments(features, rng): ...
def reference(arguments): ...
def build(config, features):
    builds.append(features["n"])
    return lambda arguments: {"y": config["TILE"] * arguments["x"], "builds": len(builds)}
"""


def test_callable_is_built_once_for_each_input_and_chosen_by_it(tmp_path):
    (tmp_path / "k.py").write_text(CALLABLE)
    (tmp_path / "k.yaml").write_text(IN_PYTHON)
    spec = load_spec(tmp_path / "k.yaml")
    small = Choice.of_trees([Split(0, 96.5, Leaf((0.0, 1.0)), Leaf((1.0, 0.0)))], False)
    configs = (Config({"TILE": 1}), Config({"TILE": 2}))
    program = DispatchProgram((Column(ColumnKind.RAW, ("n",)),), (), configs, small, ((), ()))
    where = replace(PROVENANCE, environment=replace(CUDA, backend="python"))
    kernels = python_kernels(spec, program)
    write_dispatcher(tmp_path / "out", dispatcher_of(program, spec, where, kernels))
    assert not (tmp_path / "out" / "k.h").exists(), "C cannot call it"
    k = imported(tmp_path / "out", "k").load()
    assert k({"x": 3}, n=16) == {"y": 3, "builds": 1}
    assert k({"x": 3}, n=1000) == {"y": 6, "builds": 2}
    assert k({"x": 5}, n=16) == {"y": 5, "builds": 2}
