"""Measurers of two versions of a kernel in one process, as a rerun compares them."""

import sys
from contextlib import closing
from unittest import mock

import numpy as np
import pytest

from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.kernels.process import DataKey, DeviceWorker
from tests.helpers.fake_kernels import FOUR, DeviceBackend, fake_job, write_fake
from tests.helpers.fakes import FAKE_HOST, FakeBackend, FakeDevice
from tests.helpers.planted import assert_ok, space_of

FOLDER = """
import os, sys
folder = os.path.dirname(os.path.abspath(__file__)) + '/lib'
if folder not in sys.path:
    sys.path.insert(0, folder)
"""
HOST = """
import os
import numpy as np

def observe(config):
    from values import VALUE
    return {"value": VALUE}

def arguments(features, rng):
    from values import VALUE
    x = np.full(features["n"], VALUE)
    return {"x": x, "y": np.zeros_like(x)}

def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""


JOB = fake_job()


@pytest.mark.parametrize("kind", ["beside", "module", "package", "namespace", "in path"])
def test_host_modules_find_their_own_helpers(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    hosts = [tmp_path / f"{value}" / "host.py" for value in (1, 3)]
    lib = "." if kind == "beside" else "lib"
    inside = {"package": "values/__init__.py", "namespace": "values/of.py"}.get(kind, "values.py")
    text = HOST if kind == "beside" else FOLDER + HOST
    if kind == "namespace":
        text = text.replace("values import", "values.of import")
    for value, host in zip((1, 3), hosts, strict=True):
        helper = host.parent / lib / inside
        helper.parent.mkdir(parents=True)
        helper.write_text(f"VALUE = {value}.0\n")
        host.write_text(text)
    if kind == "in path":  # as where the command runs in this folder
        sys.path.insert(0, str(hosts[0].parent / "lib"))
    device = FakeDevice()
    worker = DeviceWorker(DeviceBackend("fake", "fake", "a fake", opened=device))
    for host, value in ((hosts[0], 1), (hosts[1], 3), (hosts[0], 1), (hosts[0], 1), (hosts[1], 3)):
        key = DataKey(host, FOUR)
        worker.prepare(key)
        assert np.all(device.bound["x"] == value)
        found = worker.run(key, JOB)
        assert_ok(found)
        assert found.observed["value"] == value, "observe() imports at each call"
    (tmp_path / "plain.py").write_text(FAKE_HOST)
    worker.prepare(DataKey(tmp_path / "plain.py", FOUR))
    assert not any(name.partition(".")[0] == "values" for name in sys.modules)


@pytest.mark.usefixtures("kernels_here")
def test_a_measurer_beside_another_one_uses_its_process(tmp_path):
    backend, specs = FakeBackend("opencl", "opencl", "a fake", journal=tmp_path / "journal"), []
    for name, data in (("old", "rng.random("), ("new", "1 + rng.random(")):
        (tmp_path / name).mkdir()
        specs.append(write_fake(tmp_path / name, host=FAKE_HOST.replace("rng.random(", data)))
    with (
        mock.patch.object(FakeBackend, "open_device", side_effect=FakeDevice) as opened,
        closing(KernelMeasurer(specs[0], backend)) as first,
    ):
        with closing(KernelMeasurer(specs[1], backend, first)) as second:
            for _ in range(2):
                measure_default(first, specs[0])
                measure_default(second, specs[1])
        measure_default(first, specs[0])
    opened.assert_called_once()  # nor did the second end it


def measure_default(measurer, spec):
    """Measure the default on the first input, as a rerun does."""
    space = space_of(spec, measurer, spec.inputs[0])
    (found,) = measurer.measure_interleaved(space, spec.inputs[0], [space.default], 2, (1,))
    assert_ok(found)
