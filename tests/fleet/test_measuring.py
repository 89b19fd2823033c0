"""Measure kernels and programs on the workers of a real cluster, some of which fail."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.core.records import Config, Input, Outcome
from harness.fleet import agent
from harness.fleet.agent import FleetDevice, Offer, make_offer
from harness.fleet.bundle import pack
from harness.fleet.measurers import Fleet, FleetRequest, open_fleet
from harness.measure.choose import fitted_to
from harness.measure.devices import Backend
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.measurer import Measurer
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec, load_spec
from tests.helpers.dask_workers import local_workers, offering, worker_process
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.fleet_program import write_program
from tests.helpers.planted import FAULTS, GIVEN, fault, space_of, until

pytest.importorskip("distributed")


ROOT = Path(__file__).parents[2]
Garble = Callable[[Any], Any]


class Garbled(agent.Agent):
    """An agent whose answers `garble` changes."""

    garble: Garble = staticmethod(lambda answer: answer)

    def measure(self, *args: Any) -> Any:
        """Measure."""
        return type(self).garble(super().measure(*args))


@pytest.fixture(scope="module")
def faults() -> Spec:
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def scheduler(module_opencl: Backend) -> Iterator[str]:
    """The address of a cluster whose one worker, in this process, offers PoCL."""
    device = FleetDevice("cpu", "a CPU", "here", module_opencl)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "Agent", Garbled)
        patch.setattr("harness.fleet.measurers.Agent", Garbled)
        with offering(Offer(harness.__version__, (device,))), local_workers(1) as local:
            yield local.scheduler_address


def _fleet(
    spec: Spec, address: str, driver: str = "this", say: Callable[[str], None] = print
) -> contextlib.AbstractContextManager[Fleet]:
    return open_fleet(spec, FleetRequest(address, (), 9, False, driver, say))


@pytest.fixture(scope="module")
def remote(faults: Spec, scheduler: str) -> Iterator[Measurer]:
    with _fleet(faults, scheduler) as fleet:
        (measurer,) = fleet.measurers.values()
        yield measurer
        measurer.close()


# ------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    ("name", "outcome", "message"),
    [
        ("none", Outcome.OK, ""),
        ("wrong_element", Outcome.WRONG_RESULT, "y[5] is"),
        ("build_error", Outcome.BUILD_FAILED, "faults.cl"),
    ],
)
def test_worker_measures_alike(
    faults: Spec, remote: Measurer, name: str, outcome: Outcome, message: str
) -> None:
    space = space_of(faults, remote)
    remote.expect(space, [fault(name)])
    found = remote.measure(space, GIVEN, fault(name), None)
    assert found.outcome is outcome, found.message
    assert message in found.message


def test_a_worker_says_which_data_it_has(faults: Spec, remote: Measurer) -> None:
    measured = remote.measure(space_of(faults, remote), GIVEN, fault("none"), None)
    assert measured.data_sha256 is not None
    assert remote.data_sha256(GIVEN, [measured.data_sha256]) == measured.data_sha256


def test_the_environment_and_notices_are_the_workers(
    faults: Spec, remote: Measurer, module_opencl: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.measure(space_of(faults, remote), GIVEN, fault("none"), None).timing
    lock = "harness.measure.kernels.device_process.locked"
    monkeypatch.setattr(lock, lambda *_: contextlib.nullcontext())
    with contextlib.closing(KernelMeasurer(faults, module_opencl)) as local:
        assert local.environment == remote.environment
        assert fitted_to(faults, local).parameters == fitted_to(faults, remote).parameters
        local.measure(space_of(faults, local), GIVEN, fault("none"), None)
        assert local.notices == remote.notices


def _raise(error: Exception) -> Garble:
    def fail(_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("garble", "message"),
    [
        (lambda answer: answer[:1], "for other configurations or inputs"),
        (lambda answer: answer[::-1], "for other configurations or inputs"),
        (lambda _: ["none", "none"], r"answered with \['none'"),
        (lambda _: None, "answered with None"),
        (lambda _: threading.Lock(), "lock"),
        (_raise(OSError("No space left")), "the worker on .*: No space left"),
        (_raise(UsageError("cannot be written")), "the worker on .*: cannot be written"),
        (_raise(ValueError("unheard of")), "RuntimeError: ValueError: unheard of"),
    ],
)
def test_garbage_is_a_fault_of_the_worker(
    faults: Spec, remote: Measurer, monkeypatch: pytest.MonkeyPatch, garble: Garble, message: str
) -> None:
    space, configs = space_of(faults, remote), [fault("none", 8), fault("none", 16)]
    with monkeypatch.context() as patch:
        patch.setattr(Garbled, "garble", staticmethod(garble))
        with pytest.raises(BackendUnavailable, match=message):
            remote.measure_interleaved(space, GIVEN, configs, 3)
    assert remote.measure(space, GIVEN, fault("none"), None).outcome is Outcome.OK


def test_two_campaigns_do_not_use_a_device_at_once(
    faults: Spec, remote: Measurer, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.measure(space_of(faults, remote), GIVEN, fault("none"), None).timing
    monkeypatch.setattr("harness.fleet.measurers._WAIT_S", 2.0)
    said: list[str] = []
    with (
        pytest.raises(DeviceBusy, match=r"another campaign measures on a CPU of .*, that of this"),
        _fleet(faults, scheduler, "other", said.append),
    ):
        pass
    assert said[0].startswith("waiting for up to 2 s: another campaign measures on a CPU")


def test_a_campaign_that_begins_again_takes_its_devices_back_and_leaves_them_to_others(
    faults: Spec, remote: Measurer, scheduler: str
) -> None:
    space = space_of(faults, remote)
    with _fleet(faults, scheduler) as again:
        (mine,) = again.measurers.values()
        assert mine.measure(space, GIVEN, fault("none"), None).timing
        with pytest.raises(BackendUnavailable, match="were closed meanwhile"):
            remote.measure(space, GIVEN, fault("none"), None)
        mine.close()
        with _fleet(faults, scheduler, "other") as next_one:
            (other,) = next_one.measurers.values()
            assert other.measure(space, GIVEN, fault("none"), None).timing
    # Nobody has closed the last one, but its driver has left.
    with _fleet(faults, scheduler, "last") as last:
        (following,) = last.measurers.values()
        assert following.measure(space, GIVEN, fault("none"), None).timing


# ------------------------------------------------------------------------------------ programs


def _mode(name: str) -> Config:
    return Config({"MODE": name})


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch, own_cache: None) -> Iterator[str]:
    """The address of a cluster with two workers of this machine."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (machine,) = (device for device in make_offer(()).devices if device.backend is None)
    with offering(Offer(harness.__version__, (machine,))), local_workers(2) as local:
        yield local.scheduler_address


@pytest.mark.slow
def test_a_worker_builds_runs_and_verifies_a_program_without_the_users_files(
    machines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.fleet.measurers._WAIT_S", 1.0)
    spec = write_program(tmp_path / "user")
    with contextlib.closing(ProgramMeasurer(spec)) as local:
        here = local.environment.fingerprint
        fitted = fitted_to(spec, local)
    with _fleet(spec, machines) as fleet:
        (measurer,) = fleet.measurers.values()  # two workers of one machine
        (tmp_path / "user").rename(tmp_path / "elsewhere")
        given = Input({"n": 3})
        space: Space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
        measurer.recall(given, [])
        measurer.expect(space, [_mode("right"), _mode("broken")])
        modes = "right", "wrong", "fails", "broken"
        found = {mode: measurer.measure(space, given, _mode(mode), None) for mode in modes}
        outcomes = [each.outcome.value for each in found.values()]
        assert outcomes == ["ok", "wrong_result", "crashed", "build_failed"]
        assert "not sum3" in found["wrong"].message
        assert "no such mode" in found["broken"].message
        both = [_mode("right"), _mode("wrong")]
        pair = measurer.measure_interleaved(space, Input({"n": 4}), both, 2)
        assert [each.outcome for each in pair] == [Outcome.OK, Outcome.WRONG_RESULT]
        assert measurer.environment.fingerprint == here
        assert fitted_to(spec, measurer) == fitted
        (tmp_path / "elsewhere").rename(tmp_path / "user")
        with pytest.raises(DeviceBusy), _fleet(spec, machines, "another"):
            pass
        measurer.close()
        with _fleet(spec, machines, "another") as other:
            assert list(other.measurers) == list(fleet.measurers)


@pytest.mark.slow
def test_a_worker_builds_and_verifies_a_callable_without_the_users_files(
    machines: str, tmp_path: Path
) -> None:
    shutil.copytree(FAULTS.with_name("callables"), tmp_path / "user")
    spec = load_spec(tmp_path / "user/faults.yaml")
    with _fleet(spec, machines) as fleet:
        (measurer,) = fleet.measurers.values()
        (tmp_path / "user").rename(tmp_path / "elsewhere")
        given = Input({"n": 100, "work_ms": 0})
        space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
        configs = [Config({"FAULT": name, "PAUSE": 0}) for name in ("none", "wrong_element")]
        found = [measurer.measure(space, given, config, None) for config in configs]
        assert [each.outcome for each in found] == [Outcome.OK, Outcome.WRONG_RESULT]
        assert measurer.environment.backend == "python"
        measurer.close()


def test_an_agent_takes_over_the_devices_that_it_opens_alone(
    monkeypatch: pytest.MonkeyPatch, own_cache: None, tmp_path: Path
) -> None:
    measure_programs_here(monkeypatch)
    devices = tuple(FleetDevice(uuid, "a CPU", uuid, None) for uuid in ("one", "two"))
    bundle = pack(write_program(tmp_path))
    first, second, again = agents = [agent.Agent("this") for _ in range(3)]
    for each in agents:
        each.store(bundle)
    with offering(Offer(harness.__version__, devices)):
        first.open("one")
        second.open("two")
        again.open("one")
        assert [each.in_use for each in agents] == [set(), {"two"}, {"one"}]
        second.close("two")
        again.close("one")
        assert [each.in_use for each in agents] == [set()] * 3


def test_a_machine_without_a_device_offers_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise BackendUnavailable("no OpenCL here")

    monkeypatch.setattr("harness.fleet.agent.choose_devices", nothing)
    offer = make_offer(())
    assert [device.backend for device in offer.devices] == [None]
    assert "no OpenCL here" in offer.unavailable[0]
    with pytest.raises(BackendUnavailable, match="no OpenCL here"):
        make_offer(("H200",))


# -------------------------------------------------------------------------- processes that fail


@pytest.mark.slow
def test_tuning_survives_a_killed_worker_and_a_killed_driver(tmp_path: Path) -> None:
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
            text = seen + "".join(line.decode() for line in driver.stdout or ())
        assert driver.returncode == 0, text
    assert "2 equal devices share the inputs" in seen, text
    assert re.search(r"tests? (was|were) answered from the database", text), text
    ends = ("default is best", "within noise", "x [")
    assert sum(map(text.count, ends)) >= 4, text
    assert "distributed." not in text, "its log"
    lost = r"device 0:0 failed 3 times in a row .* the worker tcp://\S+ was lost"
    assert re.search(lost, text), text


@contextlib.contextmanager
def _tuning(address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Tune on a cluster; end it after 4 minutes.

    The space does not say what work a run is: workers would measure the CPU's peak.
    """
    lines = (ROOT / "spaces/mvmul.yaml").read_text().replace("../", f"{ROOT}/").splitlines()
    space = folder / "mvmul.yaml"
    space.write_text("\n".join(line for line in lines if not line.startswith("work:")))
    command = [
        *(sys.executable, "-m", "harness.tune", str(space), "--cluster", address),
        *("--inputs", "m * n <= 60000", "--test-limit", "2", "--repeats", "2"),
        *("--database", str(folder / "found.db"), "--no-cross"),
    ]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stdout=pipe, stderr=both) as tune:
        hung = threading.Timer(240, tune.kill)
        hung.start()
        try:
            yield tune
            tune.wait()
        finally:
            hung.cancel()
            tune.kill()


def _read_until(process: subprocess.Popen[bytes], part: str) -> str:
    """Return what a process prints up to a line with this part."""
    text = ""
    for line in process.stdout or ():
        text += line.decode()
        if part in text:
            break
    return text
