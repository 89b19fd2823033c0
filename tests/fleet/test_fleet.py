"""Measure on other machines: messages, the agent of a worker, and a driver that uses it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness.fleet.engine import check_address, local_count
from harness.fleet.held import Held
from harness.fleet.messages import (
    BuildRequest,
    DeviceRequest,
    Failure,
    NameArguments,
    Offer,
    OfferedDevice,
    WorkerAnswer,
)
from harness.fleet.remote_device import RemoteBuilds

from harness.api.checks import check_options
from harness.api.options import TuneOptions
from harness.core.errors import (
    BackendUnavailable,
    BuildFailed,
    DataDoesNotFit,
    DeviceBusy,
    HarnessError,
    HostTooSlow,
    UsageError,
)
from harness.core.flag_file import FlagFile
from harness.core.program import Binary, Program
from harness.core.records import Build, Config, Input, Measurement, Outcome, Timing
from harness.fleet import measurers, wire
from harness.fleet.agent import Agent
from harness.fleet.bundle import Bundle, pack, unpacked
from harness.fleet.cluster import FleetDevice, Member, WorkerLost
from harness.fleet.late import LateDevices
from harness.fleet.measurers import Opener, open_measurers
from harness.fleet.serving import check_can_serve
from harness.measure.backends.choose import Backend
from harness.measure.build_queue import BuildWorker
from harness.measure.child import ChildLost
from harness.measure.device_worker import DeviceFacts
from harness.measure.kernels import KernelMeasurer
from harness.space_file import Spec, load_spec
from tests.helpers.planted import FAULTS, GIVEN, fault, space_of

ROOT = Path(__file__).parents[2]
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
        ChildLost("died", hung=True),
        ChildLost("died", by_chance=True),
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


def test_a_bundle_has_sources_headers_and_what_the_host_module_imports(tmp_path: Path) -> None:
    shutil.copytree(FAULTS, tmp_path, dirs_exist_ok=True)
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


def test_files_of_flags_travel_and_are_found_on_the_worker(
    tmp_path: Path, own_cache: None, module_opencl: Backend
) -> None:
    copy = tmp_path / "flag_files" / "1a2b.acf"
    copy.parent.mkdir()
    copy.write_text("fast")
    file = FlagFile("fast.acf@1a2b", tmp_path / "fast.acf", "1a2b", copy)
    spec = dataclasses.replace(load_spec(FAULTS / "faults.yaml"), flag_files={file.value: file})
    packed = pack(spec, "opencl")
    program = Program("", (f"--controls={file.value}",), (str(FAULTS),), files=(file,))
    request = BuildRequest(module_opencl, packed.sent(program), packed.bundle.digest, 10)
    arrived = wire.decode(BuildRequest, wire.encode(BuildRequest, request))
    there = unpacked(arrived.program, arrived.bundle)
    (word,) = there.words
    packed.bundle.folder()
    assert Path(word.removeprefix("--controls=")).read_text() == "fast"
    assert Path(word.removeprefix("--controls=")) != copy
    assert there.key("nvcc") == program.key("nvcc")


# ---------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_an_encrypted_or_own_scheduler_may_be_used_and_an_open_one_insisted_on(
    address: str,
) -> None:
    check_address(address)
    check_address("tcp://10.0.0.1:8786", insecure=True)


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


def test_a_worker_joins_a_scheduler_that_is_there() -> None:
    with pytest.raises(UsageError, match=r"`local:2` is for --cluster of harness.tune"):
        check_can_serve("local:2", insecure=False)


def test_insisting_needs_a_cluster() -> None:
    with pytest.raises(UsageError, match="--insecure needs --cluster ADDRESS"):
        check_options(TuneOptions(space=Path("spaces/mvmul.yaml"), insecure=True))


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

    @contextlib.contextmanager
    def builder(self, avoid: Collection[str] = ()) -> Iterator[str]:
        """Take the one worker."""
        if "here" in avoid:
            raise BackendUnavailable("no worker is left")
        yield "here"

    def call(self, address: str, method: str, message: bytes) -> bytes:
        """Build, or keep files."""
        assert address == "here"
        return self.store(message) if method == "store" else self.agent.build(message)

    def program(self, request: bytes) -> bytes:
        """Carry out a call of the machine."""
        return self.agent.program(request)

    def store(self, bundle: bytes) -> bytes:
        """Keep the files of a bundle."""
        self.stored += 1
        return self.agent.store(bundle)


def _built(agent: Agent, request: BuildRequest) -> WorkerAnswer[Binary]:
    """Return the agent's answer to a request."""
    text = agent.build(wire.encode(BuildRequest, request))
    return wire.decode(WorkerAnswer[Binary], text)


@pytest.fixture(scope="module")
def faults() -> Spec:
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def loopback(module_opencl: Backend) -> Iterator[Loopback]:
    with contextlib.closing(Agent([OfferedDevice("cpu", "a CPU", module_opencl)], 1)) as agent:
        yield Loopback(agent)


def _opened(spec: Spec, device: FleetDevice, driver: str) -> dict[str, KernelMeasurer]:
    opener = Opener(spec, device.offered, device.channel, 1, driver)
    return open_measurers(opener, [device], print).measurers


@pytest.fixture(scope="module")
def remote(faults: Spec, loopback: Loopback) -> Iterator[KernelMeasurer]:
    device = FleetDevice(loopback.agent.offer().devices[0], "here", loopback)
    (measurer,) = _opened(faults, device, "this").values()
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


def test_an_answer_that_is_none_is_a_fault_of_the_worker(
    faults: Spec, remote: KernelMeasurer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(faults, remote)
    monkeypatch.setattr(loopback, "garble", lambda _: b"\x80\x04N.")
    with pytest.raises(BackendUnavailable, match="cannot be read"):
        remote.measure(space, GIVEN, fault("none"), None)
    monkeypatch.setattr(loopback, "garble", lambda answer: answer.replace(b"none", b"late"))
    with pytest.raises(BackendUnavailable, match="another configuration"):
        remote.measure(space, GIVEN, fault("none"), None)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (lambda two: two[:1], "1 measurements, not 2"),
        (lambda two: two[::-1], "another configuration"),
        (lambda two: [{**one, "timing": {"samples_s": [1e-3]}} for one in two], "1 samples, not 3"),
    ],
    ids=["fewer", "exchanged", "few samples"],
)
def test_interleaved_measurements_are_those_that_were_asked_for(
    faults: Spec,
    remote: KernelMeasurer,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    lie: Callable[[list[Any]], list[Any]],
    message: str,
) -> None:
    def garble(answer: bytes) -> bytes:
        sent = json.loads(answer)
        measured, *others = sent["result"]
        return json.dumps({**sent, "result": [lie(measured), *others]}).encode()

    space, configs = space_of(faults, remote), [fault("none", 8), fault("none", 16)]
    monkeypatch.setattr(loopback, "garble", garble)
    with pytest.raises(BackendUnavailable, match=message):
        remote.measure_interleaved(space, GIVEN, configs, 3)


def test_two_drivers_do_not_use_a_device_at_once(
    remote: KernelMeasurer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = loopback.agent._held["cpu"]
    other = DeviceRequest(dataclasses.replace(held.session, driver="another"), NameArguments(GIVEN))
    answer = loopback.agent.measure(wire.encode(DeviceRequest, other))
    assert re.search(rb"is used by another driver, \d+ s ago", answer)
    unknown = DeviceRequest(dataclasses.replace(held.session, uuid="gpu"), NameArguments(GIVEN))
    assert b"has no device gpu" in loopback.agent.measure(wire.encode(DeviceRequest, unknown))


def test_a_driver_that_runs_again_takes_its_device_back(
    faults: Spec, remote: KernelMeasurer, loopback: Loopback
) -> None:
    device = FleetDevice(loopback.agent.offer().devices[0], "here", loopback)
    (again,) = _opened(faults, device, "this").values()
    assert again.measure(space_of(faults, again), GIVEN, fault("none"), None).timing
    again.close()
    held = loopback.agent._held["cpu"]
    assert held.client is None, "it was released"
    (other,) = _opened(faults, device, "other").values()
    assert other.measure(space_of(faults, other), GIVEN, fault("none"), None).timing
    other.close()
    assert remote.measure(space_of(faults, remote), GIVEN, fault("none"), None).timing


def test_a_device_that_another_driver_uses_is_left_to_it(
    faults: Spec, remote: KernelMeasurer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.measure(space_of(faults, remote), GIVEN, fault("none"), None).timing
    offered = loopback.agent.offer().devices[0]
    busy = FleetDevice(offered, "here", loopback)
    opener = Opener(faults, offered, loopback, 1, "other")
    monkeypatch.setattr(measurers, "_BUSY_S", 0.1)
    monkeypatch.setattr(measurers, "_BUSY_LOOK_S", 0.1)
    said: list[str] = []
    with pytest.raises(DeviceBusy, match="used by another driver"):
        open_measurers(opener, [busy], said.append)
    (line,) = said
    assert line.startswith("waiting for up to 0.1 s: a CPU is used by another driver")
    idle = Loopback(loopback.agent)
    facts = wire.encode(WorkerAnswer[DeviceFacts], WorkerAnswer(remote._facts))
    monkeypatch.setattr(idle, "garble", lambda _: facts)
    opened = open_measurers(opener, [busy, FleetDevice(offered, "there", idle)], print)
    assert [name.partition(" ")[0] for name in opened.measurers] == ["there"]
    assert "used by another driver" in opened.skipped[0]


@dataclass(frozen=True)
class Asked:
    """A session."""

    driver: str
    run: int


class Waits:
    """A client whose calls wait until it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.called = threading.Event()

    def call(self) -> None:
        """Wait."""
        self.called.set()
        assert self.closed.wait(60)

    def close(self) -> None:
        """End the call."""
        self.closed.set()


def test_a_driver_that_runs_again_ends_what_still_runs_for_it() -> None:
    held: Held[Asked, Waits] = Held("a CPU")
    first, second = Waits(), Waits()

    def call() -> None:
        with held.used_by(Asked("this", 1), lambda: first) as client:
            client.call()

    running = threading.Thread(target=call)
    running.start()
    assert first.called.wait(60)
    with held.used_by(Asked("this", 2), lambda: second) as client:
        assert client is second
        running.join(60)


def test_a_build_whose_files_no_worker_keeps_is_an_answer(
    module_opencl: Backend, loopback: Loopback
) -> None:
    request = BuildRequest(module_opencl, Program("", (), ()), "0" * 64, 10)
    assert _built(loopback.agent, request).lacks_bundle


class TwoBuilders(Loopback):
    """Two workers that build; `spoilt` changes what the first answers."""

    def __init__(self, agent: Agent, spoilt: Callable[[bytes], bytes]) -> None:
        super().__init__(agent)
        self.spoilt = spoilt
        self.asked: list[str] = []

    @contextlib.contextmanager
    def builder(self, avoid: Collection[str] = ()) -> Iterator[str]:
        """Take the first worker while it is not avoided."""
        left = [name for name in ("first", "second") if name not in avoid]
        if not left:
            raise BackendUnavailable("no worker is left")
        yield left[0]

    def call(self, address: str, method: str, message: bytes) -> bytes:
        """Build, or keep files."""
        self.asked.append(address)
        answer = super().call("here", method, message)
        return self.spoilt(answer) if address == "first" and method == "build" else answer


def _another_binary(answer: bytes) -> bytes:
    found = wire.decode(WorkerAnswer[Binary], answer).result
    build = dataclasses.replace(found.build, key="../../x")
    binary = dataclasses.replace(found, build=build)
    return wire.encode(WorkerAnswer[Binary], WorkerAnswer(binary))


def _failed(error: HarnessError) -> bytes:
    return wire.encode(WorkerAnswer[Binary], WorkerAnswer[Binary](failure=Failure.of(error)))


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda _: b"garbage",
        _another_binary,
        lambda _: wire.encode(WorkerAnswer[Binary], WorkerAnswer[Binary]()),
        lambda _: wire.encode(WorkerAnswer[Binary], WorkerAnswer[Binary](lacks_bundle=True)),
        lambda _: _failed(BackendUnavailable("no compiler")),
    ],
    ids=["garbage", "another binary", "nothing", "keeps no files", "no compiler"],
)
def test_a_worker_that_cannot_build_is_not_asked_again(
    faults: Spec,
    loopback: Loopback,
    module_opencl: Backend,
    spoilt: Callable[[bytes], bytes],
    own_cache: None,
) -> None:
    packed = pack(faults, "opencl")
    packed.bundle.folder()
    builders = TwoBuilders(loopback.agent, spoilt)
    with contextlib.closing(RemoteBuilds(builders, module_opencl, packed, 1)) as builds:
        for number in range(2):
            program = Program(f"__kernel void f() {{}} // {number}", (), ())
            task = builds.schedule(BuildWorker.compile, program, timeout_s=60)
            assert builds.result_of(task).build.key
    assert builders.asked.count("second") == 2
    assert builders.asked[-1] == "second"
    assert "first" not in builders.asked[builders.asked.index("second") :]


def test_a_binary_of_another_compiler_is_not_taken(
    faults: Spec, loopback: Loopback, module_opencl: Backend, own_cache: None
) -> None:
    builds = RemoteBuilds(Loopback(loopback.agent), module_opencl, pack(faults, "opencl"), 1)
    builds.compiler = "another"
    task = builds.schedule(BuildWorker.compile, Program("", (), ()), timeout_s=60)
    with pytest.raises(BackendUnavailable, match="install the same compiler"):
        builds.result_of(task)


def test_a_worker_without_room_is_a_fault_of_the_worker(
    loopback: Loopback, module_opencl: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UsageError("/cache cannot be written: No space left on device")

    monkeypatch.setattr(loopback.agent, "_built", full)
    bundle = Bundle({"x": b""})
    bundle.folder()
    request = BuildRequest(module_opencl, Program("", (), ()), bundle.digest, 10)
    error = _built(loopback.agent, request).failure.error()
    assert isinstance(error, BackendUnavailable)
    assert "the worker on" in str(error)
    assert "No space left" in str(error)


class FakeCluster:
    """Workers by their addresses, each with devices of these UUIDs."""

    def __init__(self, **workers: tuple[str, ...]) -> None:
        self.workers = workers
        self.silent: set[str] = set()

    def alive(self) -> frozenset[str]:
        """Return the addresses."""
        return frozenset(self.workers)

    def member(self, address: str) -> Member:
        """Return a worker; one without a device is of another version."""
        if not self.workers[address]:
            raise UsageError("another version")
        if address in self.silent:
            raise WorkerLost("no answer")
        backend: Any = None
        devices = tuple(
            OfferedDevice(uuid, "T4" if uuid.startswith("T4") else "GPU", backend)
            for uuid in self.workers[address]
        )
        return Member(address, Offer("0.1.0", address, devices, 1), 1)


def _late(
    cluster: FakeCluster,
    busy: Collection[str] = (),
    most: int = 9,
    error: HarnessError = BackendUnavailable("used by another driver"),  # noqa: B008 (read only)
) -> LateDevices:
    """Devices that join one whose UUID is a, of the worker one."""

    def opened(device: FleetDevice) -> Any:
        if device.offered.uuid in busy:
            raise error
        return device.offered.uuid

    workers: Any = cluster
    used = [FleetDevice(OfferedDevice("a", "GPU", None), "one", workers, "one")]
    return LateDevices(workers, opened, used, most, tuple(cluster.workers))


def _look(late: LateDevices) -> set[Any]:
    for device in late._new():
        late._try(device)
    return {measurer for _, measurer in late._taken()}


@pytest.fixture
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FleetDevice, "name", property(lambda device: device.offered.uuid))


@pytest.mark.usefixtures("_named")
def test_devices_of_workers_that_join_are_opened_once() -> None:
    cluster = FakeCluster(one=("a",))
    late = _late(cluster)
    assert _look(late) == set()
    cluster.workers |= {"two": ("b", "a"), "older": (), "three": ("b", "c")}
    assert _look(late) == {"b", "c"}, "nor a, which is in use"
    assert _look(late) == set()
    del cluster.workers["one"]
    assert _look(late) == {"a"}, "its worker has left, and another one offers it"


@pytest.mark.usefixtures("_named")
def test_a_worker_that_was_silent_and_goes_on_is_used_again() -> None:
    cluster = FakeCluster(one=("a",), two=("b",))
    late = _late(cluster)
    cluster.silent.add("two")
    assert _look(late) == set()
    cluster.silent.clear()
    assert _look(late) == {"b"}, "it is asked again"
    two = cluster.workers.pop("two")
    assert _look(late) == set()
    cluster.workers["two"] = two
    assert _look(late) == {"b"}
    assert _look(late) == set()


@pytest.mark.usefixtures("_named")
@pytest.mark.parametrize("error", [BackendUnavailable("used by another driver"), UsageError("no")])
def test_a_device_that_cannot_be_opened_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: HarnessError
) -> None:
    busy = {"b"}
    late = _late(FakeCluster(one=("a",), two=("b", "c")), busy, error=error)
    assert _look(late) == {"c"}
    busy.clear()
    assert _look(late) == set(), "not at once"
    monkeypatch.setattr("harness.fleet.late.time.monotonic", lambda: 1e12)
    assert _look(late) == {"b"}


@pytest.mark.usefixtures("_named")
def test_devices_that_join_and_cannot_be_used_are_reported() -> None:
    cluster = FakeCluster(one=("a", "T4-there"))
    late = _late(cluster)
    cluster.workers |= {"two": ("b", "T4-late"), "older": ()}
    assert _look(late) == {"b"}
    reasons = late.unused()
    assert reasons == [
        "a worker has joined and is not used: another version",
        "T4-late has joined and is not used: it is a T4, and this command tunes GPU",
    ]
    assert _look(late) == set()
    assert late.unused() == [], "each once"


@pytest.mark.usefixtures("_named")
def test_no_more_devices_join_than_there_are_inputs() -> None:
    assert len(_look(_late(FakeCluster(one=("a",), two=("b", "c", "d")), most=3))) == 2


def test_an_unknown_error_of_a_worker_is_a_fault_of_the_worker() -> None:
    assert isinstance(Failure("Unheard", "of").error(), HarnessError)
