"""Which backend is used, and why."""

from __future__ import annotations

import pytest

from harness.core.errors import BackendUnavailable, UsageError
from harness.measure.backends import cuda, opencl
from harness.measure.backends.choose import choose
from harness.measure.backends.opencl import DeviceName

NO_CUDA = "no NVIDIA driver: install it"
GPU = DeviceName("AMD", 0, "gfx90a", is_gpu=True)
POCL = DeviceName("Portable Computing Language", 0, "cpu", is_gpu=False)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Makes a machine: why CUDA is missing (None where it is there), and its OpenCL devices."""

    def made(no_cuda: str | None, *devices: DeviceName) -> None:
        def usable_arch() -> str:
            if no_cuda:
                raise BackendUnavailable(no_cuda)
            return "sm_90"

        monkeypatch.setattr(cuda, "usable_arch", usable_arch)
        monkeypatch.setattr(opencl, "list_devices", lambda: list(devices))

    return made


def test_auto_prefers_cuda_where_a_gpu_is(machine) -> None:
    machine(None, GPU, POCL)
    chosen = choose("auto")
    assert (chosen.language, chosen.compiler, chosen.opencl_device) == ("cuda", "nvcc", None)
    assert chosen.why == "CUDA comes first, and a GPU is here"


def test_auto_takes_an_opencl_gpu_before_pocl_and_says_why_not_cuda(machine) -> None:
    machine(NO_CUDA, GPU, POCL)
    chosen = choose("auto")
    assert (chosen.language, chosen.compiler, chosen.opencl_device) == ("opencl", "opencl", GPU)
    assert chosen.why == f"an OpenCL GPU is here, and CUDA is not: {NO_CUDA}"


def test_auto_falls_back_to_pocl_and_says_that_no_gpu_can_be_used(machine) -> None:
    machine(NO_CUDA, POCL)
    chosen = choose("auto")
    assert chosen.opencl_device == POCL
    assert chosen.why == "no GPU can be used (no NVIDIA driver)"


def test_auto_with_nothing_says_what_each_backend_lacks(machine) -> None:
    machine(NO_CUDA)
    with pytest.raises(BackendUnavailable) as caught:
        choose("auto")
    message = str(caught.value)
    assert f"cuda: {NO_CUDA}" in message
    assert 'pip install "pyopencl[pocl]"' in message


def test_auto_without_pyopencl_says_what_to_install(monkeypatch) -> None:
    def usable_arch() -> str:
        raise BackendUnavailable(NO_CUDA)

    monkeypatch.setattr(cuda, "usable_arch", usable_arch)
    monkeypatch.setitem(__import__("sys").modules, "pyopencl", None)
    with pytest.raises(BackendUnavailable, match=r"opencl: PyOpenCL is missing"):
        choose("auto")


def test_requested_opencl_is_used_though_cuda_is_there(machine) -> None:
    machine(None, POCL)
    assert choose("opencl").opencl_device == POCL


def test_requested_cuda_that_is_missing_is_refused_with_the_next_step(machine) -> None:
    machine(NO_CUDA, POCL)
    with pytest.raises(BackendUnavailable, match=f"--backend cuda cannot run here: {NO_CUDA}"):
        choose("cuda")


def test_unknown_backend_is_reported_with_those_there_are(machine) -> None:
    machine(None, POCL)
    with pytest.raises(
        UsageError, match="no backend `metal`; there are auto, command, cuda, opencl"
    ):
        choose("metal")


def test_list_of_devices_has_gpus_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Exception):
        pass

    class Platform:
        def __init__(self, name: str, types: list[int] | None) -> None:
            self.name, self._types = name, types

        def get_devices(self):
            if self._types is None:
                raise Broken
            return [type("Device", (), {"name": f" {t} ", "type": t}) for t in self._types]

    class Cl:
        Error = Broken
        device_type = type("T", (), {"GPU": 4})

        @staticmethod
        def get_platforms():
            return [Platform("broken", None), Platform("cpu", [2]), Platform("gpus", [4, 4])]

    monkeypatch.setattr(opencl, "load_pyopencl", lambda: Cl)
    found = [(d.platform, d.index, d.is_gpu) for d in opencl.list_devices()]
    assert found == [("gpus", 0, True), ("gpus", 1, True), ("cpu", 0, False)]
