"""CUDA from end to end: real compilers, real calls, processes; a GPU or its stand-in."""

import contextlib
import json
from dataclasses import replace

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.records import DEVICE_UUID, OTHER_PROCESSES, Config, Input, Outcome
from harness.measure.choose import open_measurer
from harness.measure.cuda.gpus import NVRTC
from harness.measure.devices import choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.kernels.process import DeviceWorker
from harness.measure.occasions import new_seed
from harness.space_file import load_spec
from tests import DATA, ROOT
from tests.helpers.commands import tune
from tests.helpers.planted import assert_failed, assert_ok, space_of
from tests.helpers.stub_driver import PYCUDA

pytestmark = pytest.mark.gpu

ONE = Input({"n": 1})
MVMUL = ROOT / "spaces/mvmul.yaml"
QUICK = ("--inputs", "m * n == 48000", "--no-cross", "--no-reduce", "--repeats", "3")


@pytest.mark.slow
def test_small_campaign_measures_every_configuration(nvidia, package, tmp_path, capfd):
    database = tmp_path / "results.db"
    options = ["--backend", "cuda", "--test-limit", "3", "--finalists", "2", "--json"]
    assert tune([MVMUL, *QUICK, *options, "--database", database]) == 0
    printed = capfd.readouterr()
    assert "does not model" not in printed.err
    results = json.loads(printed.out)["results"]
    by_chance = ("noisy", "host was too slow")
    warnings = [w for w in results["warnings"] if not any(word in w for word in by_chance)]
    assert (results["backend"], warnings) == ("cuda", [])
    assert f"through {package} " in printed.err.lower()
    assert [problem["outcomes"] for problem in results["inputs"]] == [{"ok": 3}] * 2


TWICE = """\
name: twice
kernel: {function: twice, source: {cuda: twice.cu}, host: twice.py}
compiler: {cuda: nvrtc}
parameters:
  BLOCKS: {values: [1, 2, 4], role: launch, default: 1}
launch: {group: [1024], LAUNCH}
inputs: {features: [n], values: [{n: 1}]}
"""
SOURCE = """\
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
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


@pytest.fixture
def open_twice(tmp_path, kernels_here):
    """Opens a measurer of a space whose launches are these, and its space."""
    with contextlib.ExitStack() as opened:

        def measurer_of(launch):
            for name, text in (("s.yaml", TWICE.replace("LAUNCH", launch)), ("twice.cu", SOURCE)):
                (tmp_path / name).write_text(text)
            (tmp_path / "twice.py").write_text(HOST)
            spec = load_spec(tmp_path / "s.yaml").with_measure({"repeats": 3})
            measurer, _ = open_measurer(spec, "cuda")
            opened.callback(measurer.close)
            return measurer, space_of(spec, measurer, ONE)

        yield measurer_of


def launches_of(stub):
    return {call.partition("group ")[2] for call in stub.calls() if " twice " in call}


def test_each_configuration_has_its_carveout(stub, package, open_twice):
    measurer, space = open_twice("grid: [132], carveout: 100 - 25 * BLOCKS")
    for blocks, carveout in ((1, 75), (4, 0)):
        stub.calls()
        measured = measurer.measure(space, ONE, Config({"BLOCKS": blocks}), None)
        assert_ok(measured)
        assert launches_of(stub) == {f"1024 1 1 carveout {carveout}"}


def test_cooperative_launch_of_too_many_blocks_fails(stub, package, open_twice):
    launch = "grid: [compute_units * BLOCKS], cooperative: true"
    if package == PYCUDA:
        with pytest.raises(BackendUnavailable, match="no call"):
            open_twice(launch)
        return
    measurer, space = open_twice(launch)
    measured = measurer.measure(space, ONE, Config({"BLOCKS": 1}), None)
    assert_ok(measured)
    assert launches_of(stub) == {"1024 1 1 cooperative"}
    refused = measurer.measure(space, ONE, Config({"BLOCKS": 4}), None)
    assert_failed(refused, Outcome.LAUNCH_FAILED, "too many blocks")


def test_named_gpu_is_opened_and_others_that_use_it_are_noted(stub, nvml, monkeypatch):
    nvml(
        gpus=["0000:1C:00.0"],
        names={"4711": "trainer"},
        nvmlDeviceGetComputeRunningProcesses=[[[4711, 1 << 30]]],
    )
    monkeypatch.setenv("CUDA_STUB_DEVICES", "2")
    backend = replace(choose_one("cuda", ["1"]), cuda_compiler=NVRTC)
    worker = DeviceWorker(backend)
    facts = worker.describe()
    assert facts.environment.notes[DEVICE_UUID] == "GPU-abababab-abab-abab-abab-ababababab01"
    assert facts.environment.notes[OTHER_PROCESSES] == "trainer (process 4711, 1.0 GiB)"
    assert "disturb its times: trainer (process 4711, 1.0 GiB)" in facts.notices[0]


ZOO = DATA / "zoo/cuda.yaml"
GIVEN = Input({"n": 256, "k": 2048})


@pytest.mark.slow
def test_device_that_holds_one_set_of_data_gets_the_other_between_launches(stub, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_MEMORY", str(6 << 20))  # a set and its zones have 4 MiB
    spec = load_spec(ZOO)
    with contextlib.closing(KernelMeasurer(spec, choose_one("cuda"))) as measurer:
        space = space_of(spec, measurer, GIVEN)
        configs = [Config({"CHEAT": 4}), space.default]  # the first is honest three times
        cheat, honest = measurer.measure_interleaved(space, GIVEN, configs, 20, (new_seed(),) * 2)
        assert (cheat.outcome, honest.outcome) == (Outcome.WRONG_RESULT, Outcome.OK)
