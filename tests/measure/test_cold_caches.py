"""Cold and warm caches: what empties them, and that their times are kept apart."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pyopencl
import pytest

from harness.compare.matching import match
from harness.compare.reading import KernelResults
from harness.core.errors import LaunchFailed, UsageError
from harness.core.program import Launch
from harness.core.records import BOOST, COLD, SUSTAINED, WARM, Environment
from harness.measure.choose import measuring_as, open_measurer
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import list_gpus
from harness.measure.opencl.device import OpenClDevice
from harness.measure.opencl.driver import usable_devices
from tests.helpers.compilers import open_opencl, opencl_binary
from tests.helpers.cubins import cubin
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FAKE_SPACE
from tests.helpers.listed_devices import AMD, CPU, backend_of

L2_BYTES = 50 << 20  # of the stand-in


def spec_of(folder, measure):
    """Write and load a space with these options of `measure`."""
    kernel = "kernel void twice(global double *x, global double *y) { y[0] = V; }"
    return write_fake(folder, kernel, FAKE_SPACE.replace("{repeats: 4, min_repeats: 3}", measure))


def test_gpus_are_cold_and_cpus_warm(tmp_path):
    cases = [
        ("{}", CPU, WARM),
        ("{}", AMD, COLD),
        ("{}", None, COLD),
        ("{cache: cold}", CPU, COLD),
        ("{cache: warm}", AMD, WARM),
    ]
    for measure, device, cache in cases:
        assert measuring_as(spec_of(tmp_path, measure), backend_of(device)).cache == cache


@pytest.fixture
def twice():
    text = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"
    return opencl_binary(text)


TWICE = Launch("twice", (4,), (1,), ("x",))


def runs_noted(monkeypatch):
    """Note the sizes of all kernels that OpenCL runs."""
    run, sizes = pyopencl.enqueue_nd_range_kernel, []

    def noted(queue, kernel, size, *more):
        sizes.append(tuple(size))
        return run(queue, kernel, size, *more)

    monkeypatch.setattr(pyopencl, "enqueue_nd_range_kernel", noted)
    return sizes


@pytest.mark.parametrize(
    "is_cpu, cache_bytes",
    [(True, 1 << 20), (False, 1 << 27)],  # a GPU's is not believed to be small
)
def test_caches_are_emptied_before_runs(twice, monkeypatch, is_cpu, cache_bytes):
    monkeypatch.setattr(pyopencl.Device, "global_mem_cache_size", 1 << 20)
    sizes = runs_noted(monkeypatch)
    device = OpenClDevice(usable_devices()[0], COLD)
    device.shares_cpu = is_cpu
    device.bind({"x": np.ones(4, np.float32)})
    module = device.load(twice)
    assert device.environment("a compiler").cache == COLD
    sizes.clear()
    for _ in range(3):
        device.arguments.restore({})
        device.launch(module, [TWICE])
    lines = (2 * cache_bytes // 64,)  # each thread writes a line
    assert [size for size in sizes if size != (1,)] == [lines, (4,)] * 3
    assert ((1,) in sizes) == is_cpu, "a CPU has work when a short kernel is launched"
    if is_cpu:
        assert sizes[sizes.index((1,)) - 1] == lines


@pytest.mark.gpu
def test_a_gpus_caches_are_emptied_first(stub, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_KERNEL_NS", "1500")
    # Else the caches are empty before the host's clock starts.
    monkeypatch.setattr("harness.measure.device.launcher.COMPARED_LAUNCHES", 0)
    before = stub.allocated_bytes
    device = CudaDevice(COLD)
    device.bind({"z": np.ones(4, np.float32)})
    text = 'extern "C" __global__ void nothing(float *z) {}'
    module = device.load(cubin(text, list_gpus()[0].arch))
    launch = Launch("nothing", (32,), (1,), ("z",))
    device.launch(module, [launch])
    for _ in range(3):
        device.arguments.restore({})
        stub.calls()
        # The host's work on the launch is not in the time: the device empties the caches meanwhile.
        assert device.launch(module, [launch, launch]) == pytest.approx(2 * 1.5e-6, rel=0.01)
        lines = stub.calls()
        calls = [line.split()[0] for line in lines]
        assert calls.count("cuMemsetD8Async") == 1, "the second launch is of the same run"
        emptied = calls.index("cuMemsetD8Async")
        # Between them is only the kernel that reads clocks, and writes to the host's memory.
        assert calls[emptied + 1 :][:3] == ["cuLaunchKernel", "cuEventRecord", "cuLaunchKernel"]
    assert "wait_for_host" in lines[0], "the host is ahead of all launches"
    assert device.environment("nvcc").cache == COLD
    device.bind({})
    assert stub.allocated_bytes - before == 2 * L2_BYTES


def test_no_room_for_it_is_found_first(stub, monkeypatch):
    device = CudaDevice(COLD)
    monkeypatch.setenv("CUDA_STUB_FAIL", "cuMemAlloc@1+:2")
    with pytest.raises(LaunchFailed, match=r"to empty the caches with: .*out of memory"):
        device.bind({"z": np.ones(4, np.float32)})


def test_warm_caches_are_left_alone(twice, monkeypatch):
    device, sizes = open_opencl(), runs_noted(monkeypatch)
    device.bind({"x": np.ones(4, np.float32)})
    sizes.clear()
    device.arguments.restore({})
    device.launch(device.load(twice), [TWICE])
    assert sizes == [(4,)]
    assert device.environment("a compiler").cache == WARM


# ------------------------------------------------------------------------------- kept apart


either = pytest.mark.parametrize(
    "name, first, other", [("cache", WARM, COLD), ("clock", BOOST, SUSTAINED)]
)
"""What a space names of its times, and two values of it."""


@either
def test_compare_refuses_to_mix_them(name, first, other):
    warm_at_boost = Environment("opencl", "a device", "a platform", "1", "a compiler")
    changed = replace(warm_at_boost, **{name: other})
    results = [KernelResults("k", found, "p", {}) for found in (warm_at_boost, changed)]
    with pytest.raises(UsageError, match=f"{name}: {first} -> {other}") as refused:
        list(match(results[:1], results[1:], across_environments=False))
    assert f"Tune BASE again with `measure: {{{name}: {other}}}`" in str(refused.value)


@either
@pytest.mark.usefixtures("kernels_here")
def test_one_process_measures_in_one_way(tmp_path, name, first, other):
    spec = spec_of(tmp_path, f"{{{name}: {first}}}")
    owner, _ = open_measurer(spec, "opencl")
    with closing(owner), pytest.raises(UsageError, match=f"{other}.*{first}"):
        open_measurer(spec.with_measure({name: other}), "opencl", owner)
