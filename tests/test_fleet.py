"""Measure on other machines: messages, the agent of a worker, and a driver that uses it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import (
    BackendUnavailable,
    BuildFailed,
    DataDoesNotFit,
    HarnessError,
    HostTooSlow,
    UsageError,
)
from harness.core.program import Binary, Program
from harness.core.records import Build, Config, Input, Measurement, Outcome, Timing
from harness.fleet import wire
from harness.fleet.address import check_address, local_count
from harness.fleet.agent import Agent
from harness.fleet.bundle import Bundle, pack
from harness.fleet.measurers import FleetDevice, open_measurers
from harness.fleet.messages import (
    BuildRequest,
    DeviceRequest,
    Failure,
    NameArguments,
    OfferedDevice,
    WorkerAnswer,
)
from harness.measure.backends.choose import Backend
from harness.measure.kernels import KernelMeasurer
from harness.measure.processes import ProcessLost
from harness.space_file import Spec, load_spec
from tests.planted import FAULTS, GIVEN, fault, space_of

MEASURED = Measurement(
    Config({"A": 1, "B": 1.0, "C": True, "D": None, "E": "x\u00e9"}),
    Input({"n": -0.0}),
    Outcome.OK,
    Timing((1.5e-5, 0.1)),
    Build("key", "-O3", "cc", 0.5, registers=3),
    observed={"occupancy": 0.5},
    host_read=("A",),
)


# ---------------------------------------------------------------------------------- messages


def test_a_message_arrives_as_it_was_sent() -> None:
    again = wire.decode(Measurement, wire.encode(Measurement, MEASURED))
    assert again == MEASURED
    assert [type(value) for value in again.config.values()] == [int, float, bool, type(None), str]
    binary = Binary(MEASURED.build, bytes(range(256)), (("x.h", "0" * 64),))  # type: ignore[arg-type]
    assert wire.decode(Binary, wire.encode(Binary, binary)) == binary


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[1, 2]",
        b"\x80\x04N.",  # a pickle
        b'{"config": {"A": [1]}, "input": {}, "outcome": "ok"}',
        b'{"config": {}, "input": {}, "outcome": "ok"}',  # no timing
        b'{"config": {}, "input": {}, "outcome": "crashed", "message": 5}',
        "text",
        None,
    ],
)
def test_a_garbled_message_is_an_error(text: Any) -> None:
    with pytest.raises(wire.GarbledMessage):
        wire.decode(Measurement, text)


@pytest.mark.parametrize(
    "error",
    [
        HostTooSlow("slow"),
        DataDoesNotFit("full"),
        BuildFailed("log"),
        ProcessLost("died", hung=True),
        ProcessLost("died", by_chance=True),
    ],
)
def test_an_error_of_a_worker_is_raised_on_the_driver(error: Any) -> None:
    sent = WorkerAnswer[Binary](failure=Failure.of(error))
    answer = wire.decode(WorkerAnswer[Binary], wire.encode(WorkerAnswer[Binary], sent))
    again = answer.failure.error()
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


# ------------------------------------------------------------------------------------ bundles


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.py", "a/../../x.py", "", "a\\..\\x"])
def test_a_bundle_holds_no_file_outside_of_it(name: str) -> None:
    with pytest.raises(wire.GarbledMessage, match="no path inside"):
        wire.decode(Bundle, b'{"files": {"%s": ""}}' % name.replace("\\", "\\\\").encode())


def test_a_bundle_has_sources_headers_and_what_the_host_module_imports(
    tmp_path: Path,
) -> None:
    text = (FAULTS / "faults.yaml").read_text()
    for path in FAULTS.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "faults.yaml").write_text(text)
    (tmp_path / "helper.py").write_text("from more import deep\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "__init__.py").write_text("")
    (tmp_path / "more" / "deep.py").write_text("x = 1\n")
    (tmp_path / "unused.py").write_text("")
    spec = load_spec(tmp_path / "faults.yaml")
    spec.host.write_text("import helper\n" + spec.host.read_text())
    packed = pack(spec, "opencl")
    names = set(packed.bundle.files)
    assert {packed.host, "helper.py", "more/__init__.py", "more/deep.py"} < names
    assert packed.inside(spec.sources["opencl"].path) in names
    assert "unused.py" not in names
    changed = Bundle({**packed.bundle.files, "helper.py": b""})
    assert changed.digest != packed.bundle.digest


# ---------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_an_encrypted_or_own_scheduler_may_be_used(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://10.0.0.1:8786", "not encrypted"),
        ("tcp://node:8786", "not encrypted"),
        ("node:8786", "no address"),
        ("tcp://node", "no address"),
        ("tls://node:port", "no address"),
        ("http://node:80", "no address"),
    ],
)
def test_any_other_is_refused(address: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_address(address)


def test_an_open_scheduler_may_be_insisted_on() -> None:
    check_address("tcp://10.0.0.1:8786", insecure=True)


def test_a_local_cluster_has_a_number_of_workers() -> None:
    assert local_count("local:3") == 3
    assert local_count("tcp://127.0.0.1:1") is None
    with pytest.raises(UsageError, match="number of workers"):
        local_count("local:x")


# ----------------------------------------------------------------------- an agent, and a driver


class Loopback:
    """Carries requests to an agent of this process; `garble` changes its answers."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.stored = 0
        self.garble: Callable[[bytes], bytes] = lambda answer: answer

    def measure(self, request: bytes) -> bytes:
        """Carry out a call of a device."""
        return self.garble(self.agent.measure(request))

    def build(self, request: bytes) -> bytes:
        """Compile."""
        return self.agent.build(request)

    def store(self, bundle: bytes) -> bytes:
        """Keep the files of a bundle."""
        self.stored += 1
        return self.agent.store(bundle)


@pytest.fixture(scope="module")
def faults() -> Spec:
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def loopback(module_opencl: Backend) -> Iterator[Loopback]:
    with contextlib.closing(Agent([OfferedDevice("cpu", "a CPU", module_opencl)], 1)) as agent:
        yield Loopback(agent)


@pytest.fixture(scope="module")
def remote(faults: Spec, loopback: Loopback) -> Iterator[KernelMeasurer]:
    device = FleetDevice(loopback.agent.offer().devices[0], "here", loopback)
    (measurer,) = open_measurers(faults, [device], loopback, 1, "this").values()
    with contextlib.closing(measurer):
        yield measurer


@pytest.mark.parametrize(
    ("name", "outcome", "message"),
    [
        ("none", Outcome.OK, ""),
        ("wrong_element", Outcome.WRONG_RESULT, "y[5] is"),
        ("null_write", Outcome.CRASHED, "SIG"),
        ("build_error", Outcome.BUILD_FAILED, "faults.cl"),
    ],
)
def test_a_worker_measures_as_this_machine_does(
    faults: Spec, remote: KernelMeasurer, name: str, outcome: Outcome, message: str
) -> None:
    found = remote.measure(space_of(faults, remote), GIVEN, fault(name), None)
    assert found.outcome is outcome, found.message
    assert message in found.message


def test_several_configurations_run_interleaved_on_a_worker(
    faults: Spec, remote: KernelMeasurer
) -> None:
    space, configs = space_of(faults, remote), [fault("none"), fault("wrong_element")]
    found = remote.measure_interleaved(space, GIVEN, configs, 3)
    assert [each.outcome for each in found] == [Outcome.OK, Outcome.WRONG_RESULT]


def test_files_are_sent_once(remote: KernelMeasurer, loopback: Loopback) -> None:
    assert remote.environment.backend == "opencl"
    assert loopback.stored == 1


def test_an_answer_that_is_garbage_is_a_fault_of_the_worker(
    faults: Spec, remote: KernelMeasurer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "garble", lambda _: b"\x80\x04N.")
    with pytest.raises(BackendUnavailable, match="cannot be read"):
        remote.measure(space_of(faults, remote), GIVEN, fault("none"), None)


def test_two_drivers_do_not_use_a_device_at_once(
    remote: KernelMeasurer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = loopback.agent._held["cpu"]
    assert held.session is not None
    other = DeviceRequest(dataclasses.replace(held.session, driver="another"), NameArguments(GIVEN))
    answer = loopback.agent.measure(wire.encode(DeviceRequest, other))
    assert b"used by another driver" in answer
    unknown = DeviceRequest(dataclasses.replace(held.session, uuid="gpu"), NameArguments(GIVEN))
    assert b"has no device gpu" in loopback.agent.measure(wire.encode(DeviceRequest, unknown))


def test_a_driver_that_runs_again_takes_its_device_back(
    faults: Spec, remote: KernelMeasurer, loopback: Loopback
) -> None:
    device = FleetDevice(loopback.agent.offer().devices[0], "here", loopback)
    (again,) = open_measurers(faults, [device], loopback, 1, "this").values()
    assert again.measure(space_of(faults, again), GIVEN, fault("none"), None).timing
    again.close()
    held = loopback.agent._held["cpu"]
    assert held.client is None, "it was released"
    (other,) = open_measurers(faults, [device], loopback, 1, "other").values()
    assert other.measure(space_of(faults, other), GIVEN, fault("none"), None).timing
    other.close()
    assert remote.measure(space_of(faults, remote), GIVEN, fault("none"), None).timing


def test_a_build_whose_files_no_worker_keeps_is_an_answer(
    module_opencl: Backend, loopback: Loopback
) -> None:
    request = BuildRequest(module_opencl, Program("", (), ()), "0" * 64, 10)
    answer = wire.decode(WorkerAnswer[Binary], loopback.build(wire.encode(BuildRequest, request)))
    assert answer.lacks_bundle


def test_an_unknown_error_of_a_worker_is_a_fault_of_the_worker() -> None:
    assert isinstance(Failure("Unheard", "of").error(), HarnessError)
