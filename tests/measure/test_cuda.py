"""CUDA without its device: checks of launches, packed arguments, and what can be missing."""

import importlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.errors import BackendUnavailable
from harness.core.program import Launch
from harness.core.records import Build, DeviceLimits
from harness.measure.cuda import gpus as cuda
from harness.measure.cuda import probe
from harness.measure.cuda.cubin import packed_arguments
from harness.measure.cuda.gpus import driver_version, first_usable, list_gpus, load_driver
from harness.measure.cuda.occupancy import multiprocessor, observe_occupancy, occupancy
from harness.measure.device.launch_checks import why_unlaunchable
from harness.measure.devices import choose_one
from harness.measure.opencl import driver as opencl
from tests.helpers.compilers import needs_nvcc
from tests.helpers.listed_devices import CPU, EQUAL, H100

LIMITS = DeviceLimits(
    max_group_size=1024,
    max_group_dims=(1024, 1024, 64),
    max_grid_dims=(2**31 - 1, 65535, 65535),
    max_local_bytes=48 * 1024,
    compute_units=132,
    warp_size=32,
)

# ------------------------------------------------------------------------- checks and packing


def test_launch_beyond_the_device_says_which_figure():
    cases = [
        ((32, 33), (1, 1), "1,056"),
        ((1, 1, 65), (1, 1, 1), "(1024, 1024, 64)"),
        ((32, 1), (1, 65536), "65535"),
        ((32,), (0,), "(0, 1, 1)"),
    ]
    for group, grid, figure in cases:
        assert figure in why_unlaunchable(Launch("f", group, grid, ()), LIMITS)
    assert why_unlaunchable(Launch("f", (16, 1, 64), (2**31 - 1, 65535, 1), ()), LIMITS) is None


def test_cooperative_launch_needs_a_device_that_has_them():
    launch = Launch("f", (16,), (1,), (), cooperative=True)
    assert "cooperatively" in why_unlaunchable(launch, LIMITS)
    assert why_unlaunchable(launch, replace(LIMITS, is_cooperative=True)) is None


def test_each_argument_lies_at_a_multiple_of_its_own_size():
    def packed(*values):
        launch = Launch("f", (1,), (1,), values)
        return packed_arguments(launch, values, [False] * len(values), None)

    four = packed(np.int32(1), np.uintp(2), np.bool_(True), np.float16(1.5))
    assert four == bytes.fromhex("01000000 00000000 0200000000000000 01 00 003e")
    assert len(packed(np.int32(1), np.complex64(1j))) == 16, "as CUDA's float2"
    assert packed() == b""


# ------------------------------------------------------------------------- what is missing here


@pytest.fixture
def all_there(monkeypatch):
    """A machine where CUDA can run; tests take one thing away."""
    monkeypatch.setattr(cuda, "require_driver", lambda: None)
    monkeypatch.setattr(cuda, "load_driver", lambda: SimpleNamespace(package="PyCUDA 1"))
    monkeypatch.setattr(cuda, "list_gpus", lambda: (H100,))
    monkeypatch.setattr("harness.measure.devices.first_usable", lambda arch: "nvcc")


@needs_nvcc
def test_device_unknown_to_the_toolkit_falls_back_to_opencl(all_there, monkeypatch):
    monkeypatch.setattr(cuda, "list_gpus", lambda: (replace(H100, arch="sm_20"),))
    monkeypatch.setattr("harness.measure.devices.first_usable", first_usable)
    with pytest.raises(BackendUnavailable, match=r"sm_20.*CUDACXX"):
        choose_one("cuda")
    monkeypatch.setattr(opencl, "usable_devices", lambda: [CPU])
    assert choose_one("auto").device is CPU


@needs_nvcc
def test_no_builder_asks_the_driver_for_its_device_again(all_there, monkeypatch):
    backend = choose_one("cuda")
    monkeypatch.setattr(cuda, "list_gpus", lambda: pytest.fail("the driver is asked again"))
    assert backend.open_compiler().arch == "sm_90"


def test_missing_driver_is_reported_with_its_next_step(monkeypatch):
    monkeypatch.setattr(probe, "LIBRARY", "libcuda-not-here.so.1")
    with pytest.raises(BackendUnavailable, match="libcuda-not-here"):
        cuda.require_driver()


@pytest.fixture
def imports(monkeypatch):
    """Makes the import of a package fail; without an error, as where it is not installed."""

    def fail(package, error=None):
        import_module = importlib.import_module

        def imported(name):
            if name.startswith(package):
                raise error or ModuleNotFoundError(package)
            return import_module(name)

        monkeypatch.setattr(importlib, "import_module", imported)

    return fail


BROKEN = ImportError("libcurand.so.10: cannot open shared object file")


@pytest.mark.parametrize(
    "named, pycuda, message",
    [
        ("", None, r"pip install -e '\.\[cuda\]'"),
        ("", BROKEN, "libcurand"),
        ("cupy", None, "'cupy'"),
        ("cuda-bindings", None, "pip install cuda-bindings"),
        ("pycuda", None, "pip install pycuda"),
    ],
)
def test_missing_or_broken_package_is_reported(named, pycuda, message, imports, monkeypatch):
    monkeypatch.setenv(cuda.PACKAGE, named)
    imports("pycuda", pycuda)
    imports("cuda")
    with pytest.raises(BackendUnavailable, match=message):
        load_driver()


def test_broken_pycuda_is_replaced(imports):
    pytest.importorskip("cuda.bindings")
    imports("pycuda", BROKEN)
    assert load_driver().package.startswith("cuda-bindings ")


def test_driver_version_is_read_from_the_kernel(tmp_path):
    cases = [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19", "535.104.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Rel", "580.65.06"),
        ("GCC version:  gcc version 12.2.0", None),
    ]
    for text, version in cases:
        (tmp_path / "version").write_text(text)
        assert driver_version(tmp_path / "version") == version
    assert driver_version(tmp_path / "nowhere") is None


@pytest.mark.gpu
def test_devices_are_listed_by_another_process(stub, monkeypatch):
    machine = {"DEVICES": "2", "NAMES": "NVIDIA H100,NVIDIA T4", "ARCHS": "90,75", "UUIDS": "ab,cd"}
    for name, value in machine.items():
        monkeypatch.setenv(f"CUDA_STUB_{name}", value)
    uuids = ("GPU-abababab-abab-abab-abab-ababababab00", "GPU-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcd01")
    assert list_gpus() == (
        replace(H100, uuid=uuids[0]),
        replace(EQUAL, name="NVIDIA T4", uuid=uuids[1], arch="sm_75"),
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "variable, value, message",
    [("DEVICES", "0", r"\(100\).*CUDA_VISIBLE"), ("FAIL", "cuInit@1:803", r"\(803\).*reboot")],
)
def test_driver_that_lists_no_device_is_reported(stub, monkeypatch, variable, value, message):
    monkeypatch.setenv(f"CUDA_STUB_{variable}", value)
    with pytest.raises(BackendUnavailable, match=message):
        list_gpus()


# ----------- Occupancy: worked examples, whose block counts are those of NVIDIA's cuda_occupancy.h


def test_worked_examples():
    cases = [
        # 256 threads are 8 warps; 8 blocks fill the 64 warps, and 32 registers just allow it.
        ("sm_90", 256, 32, 0, 8, {"warps", "registers"}),
        # One register more is 34 * 32 = 1088, rounded up to 1280 a warp: 12 warps a partition.
        ("sm_90", 256, 34, 0, 6, {"registers"}),
        # A single warp a block: the 32 blocks are reached at half of the warps.
        ("sm_90", 32, 16, 0, 32, {"groups"}),
        ("sm_75", 32, 16, 0, 16, {"groups"}),
        ("sm_89", 32, 16, 0, 24, {"groups"}),
        # 48 KiB and the reserved 1 KiB are 49 KiB: four of them fit into 228 KiB.
        ("sm_90", 128, 32, 48 * 1024, 4, {"shared memory"}),
        ("sm_80", 128, 32, 48 * 1024, 3, {"shared memory"}),
        # Nothing is reserved below compute capability 8: 96 KiB hold two times 48 KiB.
        ("sm_70", 128, 32, 48 * 1024, 2, {"shared memory"}),
        # 48 warps, of which 1024 threads take 32 at a time.
        ("sm_86", 1024, 32, 0, 1, {"warps"}),
        ("sm_120", 1024, 64, 0, 1, {"warps", "registers"}),
        ("sm_90", 1024, 65, 0, 0, {"registers"}),
        # 66 registers would fit 29 warps, but the hardware checks as if there were 32.
        ("sm_90", 928, 66, 0, 0, {"registers"}),
        ("sm_90", 64, 32, 227 * 1024 + 1, 0, {"shared memory"}),
        ("sm_90", 1025, 16, 0, 0, {"warps"}),
    ]
    for arch, group_size, registers, shared_bytes, groups, limiters in cases:
        occupied = occupancy(arch, group_size, registers, shared_bytes)
        assert occupied.active_groups == groups
        assert set(occupied.limiters) == limiters
        assert occupied.active_warps == groups * -(-group_size // 32)


def test_feature_suffix_does_not_matter():
    assert multiprocessor("sm_90a") is multiprocessor("sm_90")


def test_a_group_gets_the_shared_memory_that_the_driver_leaves():
    for arch, most_kib in [("sm_75", 64), ("sm_86", 99), ("sm_90", 227)]:
        assert multiprocessor(arch).max_group_shared_bytes == most_kib * 1024


def test_unknown_architecture_has_no_figures():
    with pytest.raises(ValueError, match="sm_91"):
        occupancy("sm_91", 128, 32, 0)


def test_least_occupancy_of_a_runs_launches_is_observed():
    build = Build("k", "", "nvcc", 0.1, registers=32, shared_bytes=1024)
    # 228 KiB hold 112 KiB, the static 1 KiB and the driver's 1 KiB twice.
    blocks = {(64, 0): 64, (64, 112 << 10): 4, (64, 113 << 10): 2}
    for block, warps in blocks.items():
        observed = observe_occupancy("sm_90", build, [block])
        assert observed == {"occupancy": warps / 64, "active_warps": warps}
    for order in (blocks, reversed(blocks)):
        assert observe_occupancy("sm_90", build, [*order]) == observed


def test_nothing_is_observed_where_something_is_not_known():
    for arch, registers, blocks in [
        (None, 32, [(64, 0)]),
        ("sm_90", None, [(64, 0)]),
        ("sm_90", 32, []),
    ]:
        build = Build("k", "", "nvcc", 0.1, registers=registers, shared_bytes=0)
        assert observe_occupancy(arch, build, blocks) == {}
