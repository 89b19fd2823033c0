"""CUDA from end to end: real compilers, real calls, processes; a GPU or its stand-in."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from harness.commands import tune
from harness.core.errors import BackendUnavailable
from harness.core.records import DEVICE_UUID, OTHER_PROCESSES, Config, Input, Measurement, Outcome
from harness.measure.choose import open_measurer
from harness.measure.devices import choose, choose_one
from harness.measure.kernels.device_process import DeviceWorker
from harness.measure.kernels.measurer import KernelMeasurer
from harness.results.view import read_results, the_one
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from tests.helpers.compilers import needs_nvrtc
from tests.helpers.stub_driver import PYCUDA, StubDriver
from tests.helpers.stub_nvml import Script

pytestmark = pytest.mark.gpu

MVMUL = Path(__file__).parents[2] / "spaces/mvmul.yaml"
SMALL = Input({"m": 24, "n": 2000})
QUICK = ("--inputs", "m * n == 48000", "--no-cross", "--no-reduce", "--repeats", "3")
DEFAULT = Config({"THRD": 256, "LU": 1, "X_CACHE": 1})


@pytest.mark.slow
def test_small_campaign_measures_every_configuration(
    nvidia: None, package: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "results.db"
    options = ["--backend", "cuda", "--test-limit", "3", "--finalists", "2", "--json"]
    assert tune.main([str(MVMUL), *QUICK, *options, "--database", str(database)]) == 0
    printed = capfd.readouterr()
    assert "does not model" not in printed.err
    results = json.loads(printed.out)["results"]
    by_chance = ("noisy", "host was too slow")
    warnings = [w for w in results["warnings"] if not any(word in w for word in by_chance)]
    assert (results["backend"], warnings) == ("cuda", [])
    assert f"through {package} " in printed.err.lower()
    assert [each["outcomes"] for each in results["inputs"]] == [{"ok": 3}] * 2


@pytest.mark.usefixtures("kernels_here")
def test_two_gpus_share_the_inputs(
    stub: StubDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_STUB_DEVICES", "2")
    monkeypatch.setenv("CUDA_STUB_UUIDS", "ab,cd")
    database = tmp_path / "results.db"
    options = ["--device", "all", "--test-limit", "2", "--database", str(database)]
    assert tune.main([str(MVMUL), *QUICK, *options]) == 0
    results = the_one(read_results([str(database)]))
    uuids = {run.notes["facts"][DEVICE_UUID].split("-")[1] for run in results.runs}
    assert uuids == {"abababab", "cdcdcdcd"}
    assert {row.measurement.outcome for row in results.rows} == {Outcome.OK}


@pytest.mark.usefixtures("kernels_here")
@needs_nvrtc
def test_the_compiler_that_a_space_names_is_used_and_printed(
    stub: StubDriver, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = MVMUL.read_text().replace("../kernels", str(MVMUL.parent.parent / "kernels"))
    (tmp_path / "named.yaml").write_text(f"{text}\ncompiler: {{cuda: nvrtc}}\n")
    options = ["--backend", "cuda", "--test-limit", "2", "--database", str(tmp_path / "results.db")]
    assert tune.main([str(tmp_path / "named.yaml"), *QUICK, *options]) == 0
    assert "NVRTC compiles: the space says so" in " ".join(capfd.readouterr().out.split())


def test_driver_older_than_the_toolkit_ends_the_command_with_the_cure(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_STUB_DRIVER", "12040")
    cure = (
        r"empty kernel .* compiled does not run .* up to CUDA 12\.4, .* update the driver, or set"
    )
    with pytest.raises(BackendUnavailable, match=cure):
        KernelMeasurer(load_spec(MVMUL), choose("cuda"))


def measured(failing: str, once: Path, monkeypatch: pytest.MonkeyPatch) -> list[Measurement]:
    """Measure the default three times; somewhere, the stand-in fails once."""
    monkeypatch.setenv("CUDA_STUB_FAIL", failing)
    monkeypatch.setenv("CUDA_STUB_ONCE", str(once))
    spec = load_spec(MVMUL).with_measure({"timeout_s": 3, "repeats": 3})
    with contextlib.closing(KernelMeasurer(spec, choose("cuda"))) as measurer:
        space = ConstrainedSpace.of(spec, SMALL, measurer.limits, "nvcc")
        return [measurer.measure(space, SMALL, DEFAULT, None) for _ in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "outcome", "message"),
    [
        ("kernel@3:700", Outcome.LAUNCH_FAILED, "running mvmul: .* illegal memory access"),
        ("kernel@3:hang", Outcome.TIMEOUT, "3 s"),
    ],
)
def test_kernel_that_fails_costs_one_measurement_and_one_process(
    failing: str,
    outcome: Outcome,
    message: str,
    stub: StubDriver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed, *following = measured(failing, tmp_path / "once", monkeypatch)
    assert failed.outcome is outcome, failed.message
    assert re.search(message, failed.message)
    assert [each.outcome for each in following] == [Outcome.OK] * 2


COOPERATIVE = """\
name: twice
kernel: {function: twice, source: {cuda: twice.cu}, host: twice.py}
parameters:
  BLOCKS: {values: [1, 2, 4], role: launch, default: 1}
launch: {group: [1024], grid: [compute_units * BLOCKS], cooperative: true}
inputs: {features: [n], values: [{n: 1}]}
"""
SUMMED = """\
#include <cooperative_groups.h>
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cooperative_groups::this_grid().sync();
    y[i] = 2 * x[i];
}
"""
HOST = """\
import numpy as np
OUTPUTS = ("y",)
def arguments(input, rng):
    return {"x": rng.random(132 << 10, np.float32), "y": np.zeros(132 << 10, np.float32)}
def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""


@pytest.mark.usefixtures("kernels_here")
def test_cooperative_space_is_launched_so_and_says_which_grid_is_too_large(
    stub: StubDriver, package: str, tmp_path: Path
) -> None:
    for file, text in (("s.yaml", COOPERATIVE), ("twice.cu", SUMMED), ("twice.py", HOST)):
        (tmp_path / file).write_text(text)
    spec = load_spec(tmp_path / "s.yaml")
    if package == PYCUDA:
        with pytest.raises(BackendUnavailable, match=r"cooperative, but PyCUDA .* no call"):
            open_measurer(spec, "cuda")
        return
    problem = Input({"n": 1})
    measurer, _ = open_measurer(spec.with_measure({"repeats": 3}), "cuda")
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(spec, problem, measurer.limits, "nvcc")
        found = [measurer.measure(space, problem, Config({"BLOCKS": b}), None) for b in (1, 4)]
    assert [each.outcome for each in found] == [Outcome.OK, Outcome.LAUNCH_FAILED]
    assert "too many blocks in cooperative launch" in found[1].message
    launches = [call for call in stub.calls() if call.startswith("cuLaunchKernel twice")]
    assert launches
    assert all(call.endswith(" group 1024 1 1 cooperative") for call in launches)


PREFERRING = """\
name: twice
kernel: {function: twice, source: {cuda: twice.cu}, host: twice.py}
parameters:
  LARGE_L1: {values: [0, 1], role: launch, default: 0}
launch: {group: [1024], grid: [132], carveout: 75 - 50 * LARGE_L1}
inputs: {features: [n], values: [{n: 1}]}
"""


@pytest.mark.usefixtures("kernels_here")
def test_space_says_how_much_shared_memory_its_launches_prefer(
    stub: StubDriver, package: str, tmp_path: Path
) -> None:
    source = SUMMED.replace("cooperative_groups::this_grid().sync();", "")
    for file, text in (("s.yaml", PREFERRING), ("twice.cu", source), ("twice.py", HOST)):
        (tmp_path / file).write_text(text)
    spec, problem = load_spec(tmp_path / "s.yaml"), Input({"n": 1})
    measurer, _ = open_measurer(spec.with_measure({"repeats": 3}), "cuda")
    with contextlib.closing(measurer):
        space = ConstrainedSpace.of(spec, problem, measurer.limits, "nvcc")
        for large, percent in ((0, 75), (1, 25)):
            stub.calls()
            found = measurer.measure(space, problem, Config({"LARGE_L1": large}), None)
            assert found.outcome is Outcome.OK, found.message
            launches = [call for call in stub.calls() if call.startswith("cuLaunchKernel twice")]
            assert launches
            assert all(call.endswith(f" group 1024 1 1 carveout {percent}") for call in launches)


def test_named_gpu_is_opened_and_others_that_use_it_are_noted(
    stub: StubDriver, nvml: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml(
        gpus=["0000:1C:00.0"],
        names={"4711": "trainer"},
        nvmlDeviceGetComputeRunningProcesses=[[[4711, 1 << 30]]],
    )
    monkeypatch.setenv("CUDA_STUB_DEVICES", "2")
    worker = DeviceWorker(choose_one("cuda", ["1"]))
    facts = worker.describe()
    assert facts.environment.notes[DEVICE_UUID] == "GPU-abababab-abab-abab-abab-ababababab01"
    assert facts.environment.notes[OTHER_PROCESSES] == "trainer (process 4711, 1.0 GiB)"
    assert "disturb its times: trainer (process 4711, 1.0 GiB)" in facts.notices[0]
