"""One process at a time measures on a device."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from harness.checking.default_run import run_default
from harness.core.errors import DeviceBusy, UsageError
from harness.core.program import PYTHON
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.listed_device import OPENCL, ListedDevice
from harness.measure.process.device_lock import locked
from tests import ROOT
from tests.helpers.listed_devices import CPU, EQUAL, H100
from tests.helpers.results_examples import SPEC

SAME = ListedDevice(OPENCL, 0, "NVIDIA H100", is_gpu=True, bus_id="0000:1B:00.0")
HOLDER = """
import sys
from harness.measure.process.device_lock import locked
from tests.helpers.listed_devices import CPU
with locked(CPU.identity, str(CPU)):
    print("held", flush=True)
    sys.stdin.read()
"""


def lock(device):
    """The lock of a device."""
    return locked(device.identity, str(device))


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    """The folder of the locks, of this test alone."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    return tmp_path / "locks"


@contextmanager
def another_process():
    """A process that measures on CPU until it is killed, with a password in its command line."""
    command = [sys.executable, "-c", HOLDER, "tune", "postgresql://me:secret@host/db"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_second_process_learns_who_measures_until_that_is_killed(locks):
    with another_process() as process, pytest.raises(DeviceBusy) as busy, lock(CPU):
        pass
    message = str(busy.value)
    for fact in (f"process {process.pid} (", "tune ...; since 20", "cpu, 2 compute units"):
        assert fact in message
    assert "secret" not in message
    with lock(CPU):
        pass
    assert list(locks.iterdir()) == []


def test_a_device_has_one_lock_for_cuda_and_opencl():
    with lock(H100):
        with pytest.raises(DeviceBusy, match="this process"):
            lock(SAME).__enter__()
        with lock(EQUAL), lock(CPU):
            pass
    with lock(SAME):
        pass


def test_instances_of_a_divided_gpu_have_locks_of_their_own():
    first, second = (replace(H100, uuid=uuid) for uuid in ("MIG-1", "MIG-2"))
    with lock(first), lock(second), pytest.raises(DeviceBusy):
        lock(first).__enter__()


def test_lock_that_one_thread_took_is_freed_by_another():
    with ExitStack() as locks_taken:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(locks_taken.enter_context, lock(CPU)).result()
        with pytest.raises(DeviceBusy):
            lock(CPU).__enter__()
    with lock(CPU):
        pass


def test_holder_that_has_not_said_who_it_is_is_another_process(locks):
    with lock(CPU):
        (holder,) = locks.glob("*.json")
        for text in ("", "[]", '{"pid": 1}'):
            holder.write_text(text)
            with pytest.raises(DeviceBusy, match=r"^another process measures"):
                lock(CPU).__enter__()


def test_unwritable_folder_is_refused(locks, monkeypatch):
    refuse = mock.Mock(side_effect=OSError(30, "Read-only file system"))
    monkeypatch.setattr("harness.measure.process.device_lock.locked_file", refuse)
    with pytest.raises(UsageError, match=r"Read-only.*HARNESS_CACHE_DIR"):
        lock(CPU).__enter__()


def test_measurer_holds_its_device_until_it_is_closed(opencl):
    with closing(KernelMeasurer(SPEC, opencl)) as owner:
        with pytest.raises(DeviceBusy):
            KernelMeasurer(SPEC, opencl)
        KernelMeasurer(SPEC, opencl, owner).close()  # a guest, which leaves it locked
        with pytest.raises(DeviceBusy):
            KernelMeasurer(SPEC, opencl)
    KernelMeasurer(SPEC, opencl).close()


def test_lock_is_free_where_no_cache_is(opencl, monkeypatch):
    full = mock.Mock(side_effect=UsageError("the cache cannot be written"))
    monkeypatch.setattr("harness.measure.builds.queue.BuildCache", full)
    with pytest.raises(UsageError, match="the cache") as refused:
        KernelMeasurer(SPEC, opencl)
    with lock(opencl.device):
        pass
    assert refused.tb is not None


def test_check_runs_no_default_on_a_device_that_is_measured_on(opencl):
    with lock(opencl.device):
        ended = run_default(SPEC, "opencl", (), SPEC.inputs)
    assert "this process already measures on this dev" in ended.why_not_run
    assert list((Path(os.environ["HARNESS_CACHE_DIR"]) / "locks").iterdir()) == []


def test_runtimes_and_callables_on_the_cpu_share_its_lock():
    runtime = replace(CPU, platform="another runtime", platform_number=1)
    callables = replace(CPU, interface=PYTHON, platform="")
    for other in (runtime, callables):
        with lock(CPU), pytest.raises(DeviceBusy):
            lock(other).__enter__()
