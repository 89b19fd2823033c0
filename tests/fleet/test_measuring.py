"""Measure kernels and programs on the workers of a real cluster, some of which fail."""

import re
import shutil
import subprocess
import sys
import threading
from contextlib import closing, contextmanager, nullcontext
from functools import cache
from unittest.mock import Mock

import pytest

import harness
from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.core.records import Config, Input, Outcome
from harness.fleet import agent
from harness.fleet.agent import FleetDevice, Offer, make_offer
from harness.fleet.bundle import pack
from harness.fleet.measurers import FleetRequest, open_fleet
from harness.measure.choose import fitted_to
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.dask_workers import local_workers, offering, worker_process
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.fleet_program import write_program
from tests.helpers.planted import FAULTS, GIVEN, assert_ok, fault, space_of, until

pytest.importorskip("distributed")


class Garbled(agent.Agent):
    """An agent whose answers `garble` changes."""

    garble = staticmethod(lambda answer: answer)

    def measure(self, *args):
        """Measure."""
        return type(self).garble(super().measure(*args))


@cache
def faults():
    return load_spec(FAULTS / "faults.yaml")


def measure(measurer, name="none"):
    """Measure a kernel with a fault."""
    return measurer.measure(space_of(faults(), measurer), GIVEN, fault(name), None)


@pytest.fixture(scope="module")
def scheduler(module_opencl):
    """The address of a cluster whose one worker, in this process, offers PoCL."""
    device = FleetDevice("cpu", "a CPU", "here", module_opencl)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "Agent", Garbled)
        patch.setattr("harness.fleet.measurers.Agent", Garbled)
        with offering(Offer(harness.__version__, (device,))), local_workers(1) as local:
            yield local.scheduler_address


def open_on(
    address,
    driver="this",
    say=print,
    spec=None,
):
    """Open the devices of a cluster, for the space of faults unless there is another one."""
    return open_fleet(spec or faults(), FleetRequest(address, (), 9, False, driver, say))


@pytest.fixture
def remote(scheduler):
    with open_on(scheduler) as fleet:
        (measurer,) = fleet.measurers.values()
        yield measurer
        measurer.close()


# ------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    "name, outcome, message",
    [
        ("none", Outcome.OK, ""),
        ("wrong_element", Outcome.WRONG_RESULT, "y[5] is"),
        ("build_error", Outcome.BUILD_FAILED, "faults.cl"),
    ],
)
def test_worker_measures_alike(remote, name, outcome, message):
    remote.expect(space_of(faults(), remote), [fault(name)])
    found = measure(remote, name)
    assert found.outcome is outcome, found.message
    assert message in found.message


def test_a_worker_says_which_data_it_has(remote):
    digest = measure(remote).data_sha256
    assert digest is not None
    assert remote.data_sha256(GIVEN, [digest]) == digest


def test_the_environment_and_notices_are_the_workers(remote, module_opencl, monkeypatch):
    assert_ok(measure(remote))
    lock = "harness.measure.kernels.process.locked"
    monkeypatch.setattr(lock, lambda *_: nullcontext())
    with closing(KernelMeasurer(faults(), module_opencl)) as local:
        assert local.environment == remote.environment
        assert fitted_to(faults(), local).parameters == fitted_to(faults(), remote).parameters
        measure(local)
        assert local.notices == remote.notices


@pytest.mark.parametrize(
    "garble, message",
    [
        (lambda _: threading.Lock(), "lock"),
        (Mock(side_effect=OSError("No space left")), "the worker on .*: No space left"),
        (Mock(side_effect=UsageError("cannot be written")), "the worker on .*: cannot be"),
        (Mock(side_effect=ValueError("unheard of")), "ValueError: unheard of"),
    ],
)
def test_garbage_is_a_fault_of_the_worker(remote, monkeypatch, garble, message):
    configs = [fault("none", 8), fault("none", 16)]
    with monkeypatch.context() as patch:
        patch.setattr(Garbled, "garble", staticmethod(garble))
        with pytest.raises(BackendUnavailable, match=message):
            remote.measure_interleaved(space_of(faults(), remote), GIVEN, configs, 3)
    assert_ok(measure(remote))


def test_two_campaigns_do_not_use_a_device_at_once(remote, scheduler, monkeypatch):
    assert_ok(measure(remote))
    monkeypatch.setattr("harness.fleet.measurers._WAIT_S", 2.0)
    said = []
    opening = open_on(scheduler, "other", said.append)
    with pytest.raises(DeviceBusy, match=r"another campaign.*, that of this"), opening:
        pass
    assert "another campaign measures on a CPU" in said[0]


def test_a_campaign_that_begins_again_takes_its_devices_back_and_leaves_them_to_others(
    remote, scheduler
):
    with open_on(scheduler) as again:
        (mine,) = again.measurers.values()
        assert_ok(measure(mine))
        with pytest.raises(BackendUnavailable, match="were closed"):
            measure(remote)
        mine.close()
        with open_on(scheduler, "other") as following:
            assert_ok(*map(measure, following.measurers.values()))
    # Nobody has closed the last one, but its driver has left.
    with open_on(scheduler, "last") as last:
        assert_ok(*map(measure, last.measurers.values()))


# ------------------------------------------------------------------------------------ programs


@pytest.fixture
def machines(monkeypatch, own_cache):
    """The address of a cluster with two workers of this machine."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (machine,) = (device for device in make_offer(()).devices if device.backend is None)
    with offering(Offer(harness.__version__, (machine,))), local_workers(2) as local:
        yield local.scheduler_address


@pytest.mark.slow
def test_a_worker_builds_runs_and_verifies_a_program_without_the_users_files(
    machines, tmp_path, monkeypatch
):
    monkeypatch.setattr("harness.fleet.measurers._WAIT_S", 1.0)
    spec = write_program(tmp_path / "user")
    with closing(ProgramMeasurer(spec)) as local:
        here = local.environment.fingerprint
        fitted = fitted_to(spec, local)
    with open_on(machines, spec=spec) as fleet:
        (measurer,) = fleet.measurers.values()  # two workers of one machine
        (tmp_path / "user").rename(tmp_path / "elsewhere")
        given = Input({"n": 3})
        space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
        measurer.recall(given, [])
        modes = {mode: Config({"MODE": mode}) for mode in ("right", "wrong", "fails", "broken")}
        measurer.expect(space, list(modes.values()))
        found = {}
        for mode, config in modes.items():
            found[mode] = measurer.measure(space, given, config, None)
        outcomes = [measured.outcome for measured in found.values()]
        failed = [Outcome.WRONG_RESULT, Outcome.CRASHED, Outcome.BUILD_FAILED]
        assert outcomes == [Outcome.OK, *failed]
        assert "not sum3" in found["wrong"].message
        assert "no such mode" in found["broken"].message
        both = [modes["right"], modes["wrong"]]
        pair = measurer.measure_interleaved(space, Input({"n": 4}), both, 2)
        assert [measured.outcome for measured in pair] == [Outcome.OK, Outcome.WRONG_RESULT]
        assert measurer.environment.fingerprint == here
        assert fitted_to(spec, measurer) == fitted
        (tmp_path / "elsewhere").rename(tmp_path / "user")
        with pytest.raises(DeviceBusy), open_on(machines, "another", spec=spec):
            pass
        measurer.close()
        with open_on(machines, "another", spec=spec) as other:
            assert list(other.measurers) == list(fleet.measurers)


@pytest.mark.slow
def test_a_worker_builds_and_verifies_a_callable_without_the_users_files(machines, tmp_path):
    shutil.copytree(FAULTS.with_name("callables"), tmp_path / "user")
    spec = load_spec(tmp_path / "user/faults.yaml")
    with open_on(machines, spec=spec) as fleet:
        (measurer,) = fleet.measurers.values()
        (tmp_path / "user").rename(tmp_path / "elsewhere")
        given = Input({"n": 100, "work_ms": 0})
        space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
        wrong = Config({**space.default, "FAULT": "wrong_element"})
        assert_ok(measurer.measure(space, given, space.default, None))
        assert measurer.measure(space, given, wrong, None).outcome is Outcome.WRONG_RESULT
        assert measurer.environment.backend == "python"
        measurer.close()


def test_an_agent_takes_over_the_devices_that_it_opens_alone(monkeypatch, own_cache, tmp_path):
    measure_programs_here(monkeypatch)
    devices = FleetDevice("x", "a CPU", "x", None), FleetDevice("y", "a CPU", "y", None)
    bundle = pack(write_program(tmp_path))
    agents = [agent.Agent("this"), agent.Agent("this"), agent.Agent("this")]
    with offering(Offer(harness.__version__, devices)):
        for opening, device in zip(agents, ("x", "y", "x"), strict=True):
            opening.store(bundle)
            opening.open(device)
        assert [opened.in_use for opened in agents] == [set(), {"y"}, {"x"}]
        agents[1].close("y")
        agents[2].close("x")
        assert [opened.in_use for opened in agents] == [set(), set(), set()]


def test_a_machine_without_a_device_offers_programs(monkeypatch):
    nothing = Mock(side_effect=BackendUnavailable("no OpenCL here"))
    monkeypatch.setattr("harness.fleet.agent.choose_devices", nothing)
    offer = make_offer(())
    assert [device.backend for device in offer.devices] == [None]
    assert "no OpenCL here" in offer.unavailable[0]
    with pytest.raises(BackendUnavailable, match="no OpenCL here"):
        make_offer(("H200",))


# -------------------------------------------------------------------------- processes that fail


@pytest.mark.slow
def test_tuning_survives_a_killed_worker_and_a_killed_driver(tmp_path):
    with (
        local_workers(0) as local,
        worker_process(local.scheduler_address, "0:0", tmp_path) as first,
        worker_process(local.scheduler_address, "0:1", tmp_path),
    ):
        assert until(lambda: len(local.scheduler.workers) == 2)
        with _tuning(local.scheduler_address, tmp_path) as driver:
            assert "test 2 of" in _read_until(driver, "test 2 of"), "the first one is stored"
            driver.kill()
        with _tuning(local.scheduler_address, tmp_path) as driver:
            seen = _read_until(driver, "equal devices share the inputs")
            first.kill()
            text = seen + driver.stdout.read()
        assert driver.returncode == 0, text
    assert "2 equal devices share the inputs" in seen, text
    assert re.search(r"tests? (was|were) answered from the database", text), text
    ends = ("default is best", "within noise", "x [")
    assert sum(map(text.count, ends)) >= 2, text
    assert "distributed." not in text, "its log"
    lost = r"device 0:0 failed 3 times in a row .* the worker tcp://\S+ was lost"
    assert re.search(lost, text), text


@contextmanager
def _tuning(address, folder):
    """Tune on a cluster; end it after 4 minutes.

    The space does not say what work a run is: workers would measure the CPU's peak.
    """
    lines = (ROOT / "spaces/mvmul.yaml").read_text().replace("../", f"{ROOT}/").splitlines()
    space = folder / "mvmul.yaml"
    space.write_text("\n".join(line for line in lines if not line.startswith("work:")))
    command = [
        *(sys.executable, "-m", "harness.tune", str(space), "--cluster", address),
        *("--inputs", "m * n == 48000", "--test-limit", "2", "--repeats", "2"),
        *("--database", str(folder / "found.db"), "--no-cross"),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as tune:
        hung = threading.Timer(240, tune.kill)
        hung.start()
        try:
            yield tune
            tune.wait()
        finally:
            hung.cancel()
            tune.kill()


def _read_until(process, part):
    """Return what a process prints up to a line with this part."""
    text = ""
    while part not in text and (line := process.stdout.readline()):
        text += line
    return text
