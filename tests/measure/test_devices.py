"""Which backend is used, which compiler compiles CUDA kernels, and why."""

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest

from harness.core.errors import BackendUnavailable, UsageError
from harness.measure import choose as measure_choose
from harness.measure import devices
from harness.measure.choose import with_cuda_compiler
from harness.measure.cuda import gpus as cuda_gpus
from harness.measure.cuda.gpus import NVCC, NVRTC
from harness.measure.devices import Backend, choose_devices, choose_one
from harness.measure.listed_device import OPENCL, ListedDevice
from harness.measure.opencl import driver as opencl
from tests.helpers.commands import compare
from tests.helpers.commands import devices as list_devices
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FAKE_SPACE
from tests.helpers.listed_devices import AMD, CPU, EQUAL, H100
from tests.helpers.results_examples import SPEC

NO_CUDA = "no NVIDIA driver: install it"


def no_opencl():
    raise BackendUnavailable("there is no OpenCL device")


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine: why CUDA is missing (None where it is there), and its OpenCL devices."""

    def made(no_cuda, *listed, gpus=(H100,)):
        missing = BackendUnavailable(no_cuda) if no_cuda else None
        usable_gpus = mock.Mock(return_value=gpus, side_effect=missing)
        monkeypatch.setattr(cuda_gpus, "usable_gpus", usable_gpus)
        monkeypatch.setattr(devices, "first_usable", lambda arch: "nvcc")
        package = SimpleNamespace(package="cuda-bindings 13.0")
        monkeypatch.setattr(cuda_gpus, "load_driver", lambda: package)
        monkeypatch.setattr(opencl, "usable_devices", lambda: list(listed) or no_opencl())

    return made


@pytest.mark.parametrize(
    "no_cuda, devices, chosen, why",
    [
        (None, [AMD, CPU], ("cuda", "nvcc", H100), "CUDA comes first"),
        (NO_CUDA, [AMD, CPU], ("opencl", "opencl", AMD), NO_CUDA),
        (NO_CUDA, [CPU], ("opencl", "opencl", CPU), "no NVIDIA driver"),
    ],
)
def test_auto_prefers_cuda_then_an_opencl_gpu(machine, no_cuda, devices, chosen, why):
    machine(no_cuda, *devices)
    backend = choose_one("auto")
    assert (backend.language, backend.compiler, backend.device) == chosen
    assert why in backend.why


def test_auto_with_nothing_says_what_each_backend_lacks(machine):
    machine(NO_CUDA)
    with pytest.raises(BackendUnavailable, match=rf"(?s)cuda .*{NO_CUDA}.*opencl .*no OpenCL"):
        choose_one("auto")


def test_requested_backend_is_used_or_refused_with_the_next_step(machine):
    machine(None, CPU)
    assert choose_one("opencl").device == CPU
    with pytest.raises(UsageError, match="`metal`; there are auto, command, cuda, opencl"):
        choose_one("metal")
    machine(NO_CUDA, CPU)
    with pytest.raises(BackendUnavailable, match=NO_CUDA):
        choose_one("cuda")


def test_list_of_devices_has_gpus_first_and_then_pocl(monkeypatch):
    def platform(name, *types):
        facts = {"version": "OpenCL 3.0", "max_compute_units": 2, "global_mem_size": 1 << 30}
        there = [SimpleNamespace(name=f" {kind} ", type=kind, **facts) for kind in types]
        error = None if types else OSError
        return SimpleNamespace(
            name=name, get_devices=mock.Mock(return_value=there, side_effect=error)
        )

    cpus = platform("another cpu", 2), platform(opencl.POCL, 2)
    listed = [platform("broken"), *cpus, platform("gpus", 4, 4)]
    kinds = SimpleNamespace(GPU=4, CPU=2)
    cl = SimpleNamespace(Error=OSError, device_type=kinds, get_platforms=lambda: listed)
    monkeypatch.setattr(opencl, "load_pyopencl", lambda: cl)
    platforms = [(device.platform, device.number) for device in opencl.usable_devices()]
    assert platforms == [("gpus", 0), ("gpus", 1), (opencl.POCL, 0), ("another cpu", 0)]
    assert "the first of 4" in choose_one("opencl").why


# ------------------------------------------------------------------------- devices that are named

T4 = replace(H100, number=2, name="Tesla T4", uuid="GPU-cd", bus_id="0001:AF:00.0", arch="sm_75")
NVIDIA = ListedDevice(OPENCL, 0, "NVIDIA H100", is_gpu=True, platform="NVIDIA CUDA", units=132)
POCL = "Portable Computing Language"
PARTS = [ListedDevice(OPENCL, n, "pthread-cpu", False, 1, POCL, units=1) for n in range(2)]


@pytest.fixture
def several(machine):
    """A machine with two equal GPUs and one other, all of CUDA, and a CPU in two parts."""
    machine(None, NVIDIA, *PARTS, gpus=(H100, EQUAL, T4))


@pytest.mark.parametrize(
    "name, device",
    [
        ("1", EQUAL),
        ("GPU-ab", EQUAL),
        ("gpu-AB", EQUAL),
        ("T4", T4),
        ("tesla t4", T4),
        ("4", T4),
        ("h100", H100),  # the first of two equal ones
        ("0:0", NVIDIA),
        ("1:1", PARTS[1]),
        ("pthread", PARTS[0]),
    ],
)
def test_device_is_named_by_index_uuid_or_name(name, device, several):
    assert choose_one("auto", [name]).device == device


def test_first_of_equal_devices_says_so(several):
    assert "0 (GPU-aa) is the first of 2" in choose_one("auto", ["H100"]).why
    assert "--device 1" in choose_one("cuda", ["1"]).why
    assert choose_one("cuda", ["T4"]).arch == "sm_75"


def test_opencl_numbers_alone_count_within_the_only_platform(machine, several):
    with pytest.raises(UsageError, match=r"2 devices; .*\n  0:0 .*\n  1:0 "):
        choose_one("opencl", ["0"])
    machine(NO_CUDA, *PARTS)
    for backend in ("opencl", "auto"):
        assert choose_one(backend, ["1"]).device == PARTS[1]
    assert "no NVIDIA driver" in choose_one("auto", ["1"]).why


@pytest.mark.parametrize(
    "names, message",
    [
        (["GPU-a"], r"2 devices; .*\n  0 .*GPU-aa\n  1 .*GPU-ab$"),
        (["H10O"], r"`H100`\? .*\n  0 .*H100, sm_90"),
        (["GPU-xx"], r"`GPU-xx`.*\n  0 .*\n  1 .*\n  2 .*\n  0:0 .*\n  1:0 .*\n  1:1"),
        (["0", "T4"], r"differ, .*\n  0    NVIDIA H100.*\n  2    Tesla T4"),
        (["all"], "differ"),
        (["all", "0"], "--device all"),
        (["0", "GPU-aa"], "twice: NVIDIA H100"),
        (["T4", "pthread"], "no device"),  # CUDA and OpenCL are not mixed
        (["0,"], "empty name"),
    ],
)
def test_wrong_names_are_refused_with_the_devices_that_there_are(names, message, several):
    with pytest.raises(UsageError, match=message):
        choose_devices("auto", names)


def test_several_devices_are_named_by_commas_repetition_or_all(machine, several):
    for names in (["0,1"], ["0", "1"], ["0 , GPU-ab"]):
        assert [backend.device for backend in choose_devices("auto", names)] == [H100, EQUAL]
    machine(None, NVIDIA, *PARTS, gpus=(H100, EQUAL))
    assert [backend.device for backend in choose_devices("auto", ["all"])] == [H100, EQUAL]
    assert [backend.device for backend in choose_devices("opencl", ["all"])] == [NVIDIA]
    machine(NO_CUDA, *PARTS)
    assert [backend.device for backend in choose_devices("auto", ["all"])] == PARTS


def test_command_for_one_device_refuses_several(several):
    with pytest.raises(UsageError, match=r"2 devices.*\n  0 .*\n  1 "):
        choose_one("auto", ["0", "1"])


def test_named_device_without_any_backend_says_what_is_missing(machine):
    machine(NO_CUDA)
    with pytest.raises(BackendUnavailable, match=rf"`0`:\n  cuda .*{NO_CUDA}\n  opencl "):
        choose_devices("auto", ["0"])


def test_device_dropped_by_the_toolkit_is_refused_beside_opencl(several, monkeypatch):
    dropped = mock.Mock(side_effect=BackendUnavailable("sm_75 is too old"))
    monkeypatch.setattr(devices, "first_usable", dropped)
    with pytest.raises(BackendUnavailable, match="sm_75 is too old"):
        choose_one("auto", ["T4"])


def test_hidden_instance_of_a_divided_gpu_says_how_to_see_it(several, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=MIG-77"):
        choose_one("cuda", ["MIG-77"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=0"):
        choose_one("cuda", ["MIG-77"])


@pytest.mark.parametrize("parts", ["0", "two", "-1", "1025"])
def test_wrong_number_of_parts_is_refused(parts, monkeypatch):
    monkeypatch.setenv("HARNESS_CPU_PARTS", parts)
    with pytest.raises(UsageError, match=f"1024, got '{parts}'"):
        opencl.cpu_parts()


# ----------------------------------------------------------------------------- the compiler of CUDA

SM_90 = Backend("cuda", "nvcc", "a test", arch="sm_90")
SPACE = FAKE_SPACE.replace("source: twice.cl", "source: {cuda: twice.cl}")


def without(monkeypatch, missing):
    """Make the named compilers unusable, and the others usable."""
    monkeypatch.setattr(measure_choose, "why_unusable", lambda name, arch: missing.get(name))


def test_the_space_names_the_compiler_which_must_be_there(tmp_path, monkeypatch):
    without(monkeypatch, {})
    spec = write_fake(tmp_path, space=SPACE + "compiler: {cuda: nvrtc}\n")
    assert with_cuda_compiler(spec, SM_90).cuda_compiler == NVRTC
    assert spec.program_sha256 == write_fake(tmp_path, space=SPACE).program_sha256
    without(monkeypatch, {NVRTC: "NVRTC is not installed: pip install it"})
    with pytest.raises(BackendUnavailable, match=r"fake\.yaml .*NVRTC is not installed"):
        with_cuda_compiler(spec, SM_90)


def test_nvcc_compiles_where_it_is_and_nvrtc_elsewhere(tmp_path, monkeypatch):
    without(monkeypatch, {})
    spec = write_fake(tmp_path, space=SPACE)
    assert with_cuda_compiler(spec, SM_90).cuda_compiler == NVCC
    without(monkeypatch, {NVCC: "nvcc was not found: it is nowhere"})
    backend = with_cuda_compiler(spec, replace(SM_90, cuda_compiler=NVRTC))
    assert backend.cuda_compiler == NVRTC
    assert "nvcc was not found" in backend.why


def test_other_devices_have_no_choice(opencl):
    assert with_cuda_compiler(SPEC, opencl) is opencl


# ------------------------------------------------------------------------------ the list of devices


OLD = replace(H100, number=2, name="Tesla K40", uuid="GPU-ac", bus_id="0000:0A:00.0", arch="sm_35")


@pytest.fixture
def listed(monkeypatch, tmp_path, capsys):
    """Returns the lines that the command prints on a machine with three GPUs, of which nvcc does
    not know the last, and a CPU."""

    def first_usable(arch):
        if arch == "sm_35":
            raise BackendUnavailable("nvcc does not compile for sm_35")

    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("load_driver", "require_driver"):
        monkeypatch.setattr(cuda_gpus, name, lambda: None)
    monkeypatch.setattr(cuda_gpus, "list_gpus", lambda: (H100, EQUAL, OLD))
    monkeypatch.setattr(devices, "first_usable", first_usable)
    monkeypatch.setattr(opencl, "usable_devices", lambda: [CPU])

    def lines():
        assert list_devices([]) == 0
        return capsys.readouterr().out.splitlines()

    return lines


def test_devices_have_names_and_why_they_cannot_be_used(listed):
    assert listed() == [
        "cuda",
        "  0    NVIDIA H100, sm_90, 80.0 GiB, 0000:1B:00.0, GPU-aa",
        "  1    NVIDIA H100, sm_90, 80.0 GiB, 0000:1C:00.0, GPU-ab",
        "  2    Tesla K40, sm_35, 80.0 GiB, 0000:0A:00.0, GPU-ac; "
        "cannot be used: nvcc does not compile for sm_35",
        "  nvidia-smi numbers them otherwise; with CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA does as well",
        "opencl",
        "  0:0  cpu, 2 compute units, Portable Computing Language",
    ]


def test_hidden_gpus(listed, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,1")
    assert "  CUDA_VISIBLE_DEVICES=2,0,1 chooses and numbers them" in listed()


def test_who_uses_a_device_is_named(listed, nvml):
    nvml(
        gpus=[H100.bus_id, EQUAL.bus_id],
        nvmlDeviceGetComputeRunningProcesses=[[[4711, 1 << 30]]],
        names={"4711": "trainer"},
    )
    assert "GPU-ab; used by trainer (process 4711, 1.0 GiB)" in listed()[2]


def test_machine_without_a_driver_or_a_device_says_why(listed, monkeypatch):
    missing = mock.Mock(side_effect=BackendUnavailable("no NVIDIA driver"))
    monkeypatch.setattr(cuda_gpus, "require_driver", missing)
    monkeypatch.setattr(opencl, "usable_devices", no_opencl)
    cuda, why_no_cuda, opencl_, why_no_opencl, *_ = listed()
    assert (cuda, opencl_) == ("cuda", "opencl")
    assert "no NVIDIA driver" in why_no_cuda
    assert "no OpenCL device" in why_no_opencl


def test_comparison_without_rerun_takes_no_device(capsys):
    assert compare(["a.db", "b.db", "--device", "0"]) == 2
    assert "--device goes with --rerun" in capsys.readouterr().err
