"""The list of devices, as `--device` names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands import check, compare
from harness.core.errors import BackendUnavailable
from harness.measure import devices
from harness.measure.cuda import gpus
from harness.measure.kernels.device_process import device_locked
from harness.measure.opencl import driver as opencl
from tests.helpers.stub_nvml import Script
from tests.measure.test_device_lock import CPU, EQUAL, H100, of

OLD = replace(H100, ordinal=2, name="Tesla K40", uuid="GPU-ac", bus_id="0000:0A:00.0", arch="sm_35")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with three GPUs, of which nvcc does not know the last, and a CPU."""

    def first_usable(arch: str) -> None:
        if arch == "sm_35":
            raise BackendUnavailable("nvcc does not compile for sm_35")

    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "load_driver", lambda: None)
    monkeypatch.setattr(gpus, "require_driver", lambda: None)
    monkeypatch.setattr(gpus, "list_gpus", lambda: (H100, EQUAL, OLD))
    monkeypatch.setattr(devices, "first_usable", first_usable)
    monkeypatch.setattr(opencl, "list_devices", lambda: [CPU])
    devices._why_unusable.cache_clear()


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that the command prints."""
    assert check.main(["--devices"]) == 0
    return capsys.readouterr().out.splitlines()


def test_each_device_has_its_names_and_why_it_cannot_be_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert listed(capsys) == [
        "cuda",
        "  0    NVIDIA H100, sm_90, 80.0 GiB, 0000:1B:00.0, GPU-aa",
        "  1    NVIDIA H100, sm_90, 80.0 GiB, 0000:1C:00.0, GPU-ab",
        "  2    Tesla K40, sm_35, 80.0 GiB, 0000:0A:00.0, GPU-ac; "
        "cannot be used: nvcc does not compile for sm_35",
        "  nvidia-smi numbers them otherwise; with CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA does as well",
        "opencl",
        "  0:0  cpu, 0 compute units, 0.0 GiB, Portable Computing Language",
    ]


def test_variable_that_hides_gpus_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,1")
    assert "  CUDA_VISIBLE_DEVICES=2,0,1 chooses and numbers them" in listed(capsys)


def test_who_uses_a_device_is_named(
    capsys: pytest.CaptureFixture[str], nvml: Script, tmp_path: Path
) -> None:
    nvml(
        gpus=[H100.bus_id, EQUAL.bus_id],
        nvmlDeviceGetComputeRunningProcesses=[[[4711, 1 << 30]]],
        names={"4711": "trainer"},
    )
    with device_locked(of(H100)):
        lines = listed(capsys)
    assert lines[1].endswith("GPU-aa; this process already measures on it")
    assert lines[2].endswith("GPU-ab; used by trainer (process 4711, 1.0 GiB)")
    assert lines[-1].endswith("Portable Computing Language")


def test_machine_without_a_driver_or_a_device_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise BackendUnavailable("no NVIDIA driver")

    monkeypatch.setattr(gpus, "require_driver", missing)
    monkeypatch.setattr(opencl, "list_devices", list)
    lines = listed(capsys)
    assert lines[:3] == ["cuda", "  cannot be used: no NVIDIA driver", "opencl"]
    assert lines[3].startswith("  cannot be used: PyOpenCL is here, but there is no OpenCL device")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "s.yaml"], "--devices stands alone"),
        (["--devices", "--json"], "--devices stands alone"),
        (["--devices", "--device", "0"], "--devices stands alone"),
        (["s.yaml", "--device", "0", "--arch", "sm_90"], "leave --device out"),
        (["s.yaml", "--device", "0", "--no-compile"], "--no-compile does not go with"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(words) == 2
    assert message in capsys.readouterr().err


def test_comparison_that_measures_nothing_takes_no_device(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare.main(["a.db", "b.db", "--device", "0"]) == 2
    assert "--device goes with --rerun" in capsys.readouterr().err
