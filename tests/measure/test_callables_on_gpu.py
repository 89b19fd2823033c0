"""Python callables on a GPU, over the stand-in for its driver and a stand-in for CuPy."""

import re
import sys
from contextlib import closing
from unittest.mock import Mock

import pytest

from harness.core.errors import BackendUnavailable
from harness.core.observations import HOST
from harness.core.records import Config, Input, Outcome
from harness.measure.choose import open_measurer
from harness.measure.cuda import gpus
from harness.space_file import load_spec
from tests.helpers.planted import assert_failed, assert_ok, space_of, write_files

CUPY = '''\
"""A stand-in for CuPy, which takes arrays from others, and queues copies between them."""
import ctypes
import numpy
from harness.measure.cuda.gpus import load_driver

def asarray(memory):
    found = memory.__cuda_array_interface__
    (address, _), (size_bytes,) = found["data"], found["shape"]
    assert found["typestr"] == "|u1"
    return numpy.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), numpy.uint8)

def asnumpy(array):
    return array.copy()

def copyto(to, source, first=0):
    load_driver().copy(to.ctypes.data + 8 * first, source.ctypes.data, source.nbytes)

def synchronize():
    load_driver().synchronize()
'''
KERNEL = """\
import os
import time
import cupy
import numpy as np

FRAMEWORK = "cupy"

def arguments(features, rng):
    return {"x": rng.random(features["n"]), "y": np.zeros(features["n"])}

def reference(arguments):
    return {"y": arguments["x"]}

def build(config, features):
    def run(arguments):
        cupy.copyto(arguments["y"], arguments["x"], int(config["HOW"] == "behind"))
        if config["HOW"] == "slow":
            time.sleep(2e-3)
        elif config["HOW"] == "waits":
            cupy.synchronize()
        elif config["HOW"] == "returns":
            cupy.synchronize()
            return {"y": arguments["x"]}
        elif config["HOW"] == "spoils":
            os.environ["CUDA_STUB_FAIL"] = "cuCtxSynchronize@1:719!"
        elif config["HOW"] == "raises":
            return arguments["z"]
    return run
"""
SPACE = """\
name: copy
kernel: {python: copy.py}
parameters: {HOW: {values: [copy, slow, waits, returns, behind, spoils, raises], default: copy}}
inputs: {features: [n], values: [{n: 1000}]}
measure: {repeats: 3, warmup_time_s: 0, least_time_s: 0}
"""
GIVEN = Input({"n": 1000})


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A space, beside a package that is installed as CuPy."""
    files = {"cupy.py": CUPY, "kernels/copy.py": KERNEL, "kernels/copy.yaml": SPACE}
    files["cupy-13.6.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: cupy\nVersion: 13.6\n"
    write_files(tmp_path, files)
    monkeypatch.syspath_prepend(str(tmp_path))
    return load_spec(tmp_path / "kernels/copy.yaml")


@pytest.fixture
def measure(stub, spec, kernels_here):
    """Measures what the callable does with HOW."""
    measurer, _ = open_measurer(spec, "auto")
    environment = measurer.environment
    assert (environment.backend, environment.device) == ("python", "Stand-in GPU")
    assert environment.platform.startswith("cupy, CUDA events, CUDA 1")
    assert environment.compiler.startswith("cupy 13.6, Python 3.")
    space = space_of(spec, measurer, GIVEN)
    with closing(measurer):
        yield lambda how: measurer.measure(space, GIVEN, Config({"HOW": how}), None)
    sys.modules.pop("cupy")


@pytest.mark.gpu
def test_time_is_that_between_events_and_the_share_of_the_host_stands_beside_it(measure):
    found = {how: measure(how) for how in ("copy", "slow", "waits", "returns")}
    for measured in found.values():
        assert_ok(measured)
    assert found["slow"].time_s < 1e-3 < found["slow"].observed[HOST]
    assert 0 < found["copy"].observed[HOST] < found["slow"].observed[HOST]


@pytest.mark.gpu
def test_faults_of_callables_are_refused_on_a_gpu(measure, monkeypatch):
    monkeypatch.setenv("CUDA_STUB_FAIL", "")
    for how, message in (
        ("behind", "y (1 element behind its end)"),
        ("raises", ".py:27: the callable raised KeyError: 'z'"),
        ("spoils", "cuCtxSynchronize failed: "),
    ):
        found = measure(how)
        assert_failed(found, Outcome.BUILD_FAILED, message)


@pytest.mark.gpu
@pytest.mark.torch
def test_framework_that_cannot_use_the_gpu_says_what_to_do(stub, spec):
    torch = pytest.importorskip("torch")
    kernel = spec.path.with_name("copy.py")
    kernel.write_text(kernel.read_text().replace('"cupy"', '"torch"'))
    with pytest.raises(BackendUnavailable, match=re.escape(f"PyTorch {torch.__version__}")):
        open_measurer(load_spec(spec.path), "auto")


def test_framework_that_needs_a_gpu_says_why_there_is_none(spec, monkeypatch):
    missing = Mock(side_effect=BackendUnavailable("no NVIDIA driver"))
    monkeypatch.setattr(gpus, "usable_gpus", missing)
    with pytest.raises(BackendUnavailable, match="CuPy: no NVIDIA driver"):
        open_measurer(spec, "auto")
