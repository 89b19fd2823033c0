"""The address of a cluster, and the devices that join one during a campaign."""

import asyncio
import contextlib
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

import harness
from harness.core.errors import BackendUnavailable, DeviceBusy, HarnessError, UsageError
from harness.fleet.agent import FleetDevice, Offer, OpenedDevice
from harness.fleet.cluster import Cluster, NoWorker, check_address
from harness.fleet.measurers import Fleet, FleetRequest, open_fleet
from harness.options.tune import TuneOptions
from tests.helpers.dask_workers import local_workers, offering
from tests.helpers.fleet_program import write_program
from tests.helpers.planted import until


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_encrypted_or_own_schedulers_are_used_and_open_ones_insisted_on(address):
    check_address(address)
    check_address("tcp://10.0.0.1:8786", insecure=True)


@pytest.mark.parametrize(
    "address, reason",
    [
        ("tcp://10.0.0.1:8786", "not encrypted"),
        ("tcp://node:8786", "not encrypted"),
        ("node:8786", "no address"),
        ("tcp://node", "no address"),
        ("tls://node:port", "no address"),
        ("http://node:80", "no address"),
        ("local:2", "--device all"),
    ],
)
def test_any_other_is_refused(address, reason):
    with pytest.raises(UsageError, match=reason):
        check_address(address)


def test_insisting_needs_a_cluster():
    with pytest.raises(UsageError, match="--cluster"):
        TuneOptions(space=Path("spaces/mvmul.yaml"), insecure=True).check()


class FakeCluster:
    """Workers by their addresses, each with devices of these UUIDs; `busy` ones are not opened."""

    def __init__(self, **workers):
        self.workers = workers
        self.silent = set()
        self.busy = {}

    def alive(self):
        """Return the addresses."""
        return frozenset(self.workers)

    def devices(self):
        """Return the devices of all workers."""
        return [device for address in self.workers for device in self.devices_of(address)]

    def close(self):
        """Leave the cluster."""

    def devices_of(self, address):
        """Return a worker's devices; one without a device is of another version."""
        if not self.workers[address]:
            raise UsageError("another version")
        if address in self.silent:
            raise BackendUnavailable("no answer")
        found = []
        for uuid in self.workers[address]:
            model = "T4" if uuid.startswith("T4") else "GPU"
            found.append(FleetDevice(uuid, model, uuid, None, address))
        return found

    is_lost = False

    def start(self, *_):
        """Start an agent, which this is itself."""
        return self

    def call(self, method, *args):
        """Open a device."""
        if method != "open":
            return None
        if args[0] in self.busy:
            raise self.busy[args[0]]
        return OpenedDevice(None, None, None, (), None)


@pytest.fixture
def fleet_of(tmp_path):
    """Opens the devices that a cluster has; returns the fleet, and what opens those that join and
    names them."""
    spec = write_program(tmp_path)

    def opened(cluster, names=("GPU",), most=9):
        request = FleetRequest("tcp://127.0.0.1:1", names, most, False, "this", print)
        fleet = Fleet(spec, request, cluster)
        fleet.open(cluster.devices())

        def look():
            names = set()
            while joined := fleet.open_next():
                names |= set(joined)
            return names

        return fleet, look

    return opened


def test_devices_of_workers_that_join_are_opened_once(fleet_of):
    cluster = FakeCluster(one=("a",))
    fleet, look = fleet_of(cluster)
    assert list(fleet.measurers) == ["a"]
    cluster.workers |= {"two": ("b", "a"), "older": (), "three": ("b", "c")}
    assert look() == {"b", "c"}, "nor a, which is in use"
    assert look() == set()
    del cluster.workers["one"]
    assert look() == {"a"}, "its worker has left, and another one offers it"


def test_devices_join_while_a_campaign_runs(fleet_of):
    cluster = FakeCluster(one=("a",))
    fleet, _ = fleet_of(cluster)
    cluster.workers["two"] = ("b",)
    joined = {}
    with contextlib.closing(fleet):
        assert until(lambda: bool(joined.update(fleet.joined()) or "b" in joined))


def test_a_worker_that_was_silent_and_goes_on_is_used_again(fleet_of):
    cluster = FakeCluster(one=("a",))
    _, look = fleet_of(cluster)
    cluster.workers["two"] = ("b",)
    cluster.silent.add("two")
    assert look() == set()
    cluster.silent.clear()
    assert look() == {"b"}, "it is asked again"
    two = cluster.workers.pop("two")
    assert look() == set()
    cluster.workers["two"] = two
    assert look() == {"b"}
    assert look() == set()


@pytest.mark.parametrize("error", [BackendUnavailable("used by another driver"), UsageError("no")])
def test_unopened_device_is_retried(monkeypatch, fleet_of, error):
    cluster = FakeCluster(one=("a",))
    _, look = fleet_of(cluster)
    cluster.workers["two"] = ("b", "c")
    cluster.busy["b"] = error
    assert look() == {"c"}
    cluster.busy.clear()
    assert look() == set(), "not at once"
    monkeypatch.setattr("harness.fleet.measurers.time.monotonic", lambda: 1e12)
    assert look() == {"b"}


def test_devices_that_join_and_cannot_be_used_are_reported(fleet_of):
    cluster = FakeCluster(one=("a", "T4-there"))
    fleet, look = fleet_of(cluster, names=("a", "b", "late"))
    cluster.workers |= {"two": ("b", "T4-late", "d"), "older": ()}
    assert look() == {"b"}, "nor d, which is not named"
    version, model = fleet.unused()
    assert "another version" in version
    assert "T4-late" in model
    assert look() == set()
    assert fleet.unused() == [], "each once"


def test_no_more_devices_are_used_than_there_are_inputs(fleet_of):
    cluster = FakeCluster(one=("a", "e"))
    fleet, look = fleet_of(cluster, most=1)
    assert list(fleet.measurers) == ["a"]
    fleet, look = fleet_of(cluster, most=3)
    cluster.workers["two"] = ("b", "c", "d")
    assert len(look()) == 1


def test_a_device_that_is_busy_is_left_out(fleet_of):
    cluster = FakeCluster(one=("a", "b"))
    cluster.busy["a"] = DeviceBusy("another campaign", "Wait")
    fleet, _ = fleet_of(cluster)
    assert list(fleet.measurers) == ["b"]
    assert fleet.skipped == ["a is not used: another campaign. Wait"]


def test_busy_devices_are_opened_later(tmp_path, monkeypatch):
    cluster, said = FakeCluster(one=("a", "b")), list[str]()
    cluster.busy = dict.fromkeys("ab", DeviceBusy("another campaign measures on it", "Wait"))

    def say(text):
        said.append(text)
        cluster.busy.clear()

    monkeypatch.setattr("harness.fleet.measurers.Cluster.connect", lambda *_: cluster)
    request = FleetRequest("tcp://127.0.0.1:1", (), 9, False, "this", say)
    with open_fleet(write_program(tmp_path), request) as fleet:
        assert (list(fleet.measurers), fleet.skipped) == (["a", "b"], [])
    assert len(said) == 1


def test_the_first_worker_is_waited_for(tmp_path, monkeypatch):
    cluster, said = FakeCluster(one=("a",)), list[str]()
    devices = cluster.devices()
    missing = NoWorker("no worker yet", "Start one")
    monkeypatch.setattr(cluster, "devices", Mock(side_effect=[missing, devices]))
    monkeypatch.setattr("harness.fleet.measurers.Cluster.connect", lambda *_: cluster)
    request = FleetRequest("tcp://127.0.0.1:1", (), 9, False, "this", said.append)
    with open_fleet(write_program(tmp_path), request) as fleet:
        assert list(fleet.measurers) == ["a"]
    assert "no worker yet" in said[0]


def test_devices_of_several_models_are_no_fleet(fleet_of):
    with pytest.raises(UsageError, match="GPU, T4"):
        fleet_of(FakeCluster(one=("a", "T4-there")), names=())
    with pytest.raises(BackendUnavailable, match="1 device:\n  a"):
        fleet_of(FakeCluster(one=("a",)), names=("H100",))


# ------------------------------------------------------------------------- a real cluster of Dask


distributed = pytest.importorskip("distributed")

WAITS = threading.Event()
ASKED = threading.Event()
OFFER = Offer(harness.__version__, (FleetDevice("cpu", "a CPU", "here", None),))


class Echo:
    """An actor that answers with its request."""

    async def run(self, method, *args):
        """Call another method."""
        return await getattr(self, method)(*args)

    async def echo(self, message):
        """Answer."""
        return message

    async def wait(self):
        """Answer once nothing waits."""
        ASKED.set()
        await asyncio.to_thread(WAITS.wait, 60)
        return "waited"

    async def fail(self, error):
        """Raise it."""
        raise error

    async def answer_with_garbage(self):
        """Answer with what nobody can read."""
        return Unreadable()


def hang():
    """Make no actor."""
    WAITS.wait(60)


class Unreadable:
    """What nobody can read."""

    def __reduce__(self):
        return int, ("garbage",)


@pytest.fixture
def two():
    """A scheduler with two workers in this process, and a driver's view of them."""
    WAITS.clear()
    ASKED.clear()
    with (
        offering(OFFER),
        local_workers(2) as local,
        contextlib.closing(Cluster.connect(local.scheduler_address)) as cluster,
    ):
        yield local, cluster
        WAITS.set()


def test_calls_of_many_threads(two):
    local, cluster = two
    for worker in local.workers.values():
        assert "profile" not in worker.periodic_callbacks
    devices = cluster.devices()
    assert [(device.uuid, device.host_name) for device in devices] == [("cpu", "here")] * 2
    first, second = (cluster.start(device.address, Echo) for device in devices)
    with ThreadPoolExecutor(9) as threads:
        waiting = threads.submit(first.call, "wait")
        for actor in (first, second):
            echoes = threads.map(actor.call, ["echo"] * 20, range(20))
            assert list(echoes) == list(range(20))
        assert not waiting.done()
        WAITS.set()
        assert waiting.result(60) == "waited"


def test_errors_of_a_worker_are_raised_here_and_any_other_fault_counts_as_lost(two):
    _, cluster = two
    (address, _) = sorted(cluster.alive())
    echo = cluster.start(address, Echo)
    with pytest.raises(DeviceBusy, match="another campaign"):
        echo.call("fail", DeviceBusy("another campaign", "Wait"))
    with pytest.raises(BackendUnavailable, match="no room"):
        echo.call("fail", ValueError("no room"))
    with pytest.raises(BackendUnavailable, match="invalid literal"):
        echo.call("answer_with_garbage")
    assert len(echo.call("echo", bytes(20_000_000))) == 20_000_000


def test_a_call_of_a_worker_that_leaves_ends(two):
    local, cluster = two
    worker, left = local.workers.values()
    gone, there = cluster.start(worker.address, Echo), cluster.start(left.address, Echo)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(gone.call, "wait")
        assert ASKED.wait(60)
        local.sync(worker.close)
        assert isinstance(waiting.exception(60), BackendUnavailable)
        WAITS.set()
    assert until(lambda: cluster.alive() == {left.address})
    with pytest.raises(BackendUnavailable, match="was lost"):
        gone.call("echo", 1)
    assert there.call("echo", 1) == 1


def test_a_worker_that_never_serves_is_lost(two, monkeypatch):
    _, cluster = two
    monkeypatch.setattr("harness.fleet.cluster._TASK_S", 0.1)
    (address, _) = sorted(cluster.alive())
    with pytest.raises(BackendUnavailable, match=r"did not answer within 0\.1 s"):
        cluster.start(address, hang)
    WAITS.set()


def test_a_scheduler_that_hangs_is_lost():
    client = Mock(status="running")
    client.sync.side_effect = client.close.side_effect = asyncio.TimeoutError
    cluster = Cluster(client, "tcp://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(HarnessError, match="does not answer"):
            cluster.alive()
    client.sync.assert_called_once()  # the others do not wait as well
    cluster.close()


@pytest.mark.parametrize("offer", [Offer("0.0.1", ()), {"version": 2}])
def test_another_version_is_refused(two, offer):
    refused = pytest.raises(UsageError, match="install the same version")
    with offering(offer), refused:
        two[1].devices()


def test_a_cluster_without_workers_says_how_to_start_one():
    with (
        local_workers(0) as local,
        contextlib.closing(Cluster.connect(local.scheduler_address)) as cluster,
        pytest.raises(BackendUnavailable, match="worker tcp://"),
    ):
        cluster.devices()


def test_no_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("harness.fleet.cluster._CONNECT_S", 0.2)
    with pytest.raises(BackendUnavailable, match="no scheduler answers at tcp"):
        Cluster.connect("tcp://127.0.0.1:9")


def test_an_encrypted_scheduler_needs_a_certificate():
    with pytest.raises(UsageError, match=r"tls\.ca-file` of Dask's settings is not set"):
        Cluster.connect("tls://127.0.0.1:9")


def test_a_worker_under_a_nanny_is_refused(two, monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(BackendUnavailable, match=r"start it with `harness worker ADDRESS`"):
        two[1].devices()
