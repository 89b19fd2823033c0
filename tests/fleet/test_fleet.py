"""The address of a cluster, and the devices that join one during a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from harness.api.tune_options import TuneOptions
from harness.api.tuning import check_options
from harness.core.errors import BackendUnavailable, DeviceBusy, HarnessError, UsageError
from harness.fleet.agent import FleetDevice, OpenedDevice
from harness.fleet.cluster import WorkerLost
from harness.fleet.measurers import Fleet, FleetRequest, open_fleet
from harness.fleet.scheduler import check_address
from tests.helpers.fleet_program import write_program


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_encrypted_or_own_schedulers_are_used_and_open_ones_insisted_on(address: str) -> None:
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
        ("local:2", "for the devices of this machine alone, write --device all"),
    ],
)
def test_any_other_is_refused(address: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_address(address)


def test_insisting_needs_a_cluster() -> None:
    with pytest.raises(UsageError, match="--insecure needs --cluster ADDRESS"):
        check_options(TuneOptions(space=Path("spaces/mvmul.yaml"), insecure=True))


class FakeCluster:
    """Workers by their addresses, each with devices of these UUIDs; `busy` ones are not opened."""

    def __init__(self, **workers: tuple[str, ...]) -> None:
        self.workers = workers
        self.silent: set[str] = set()
        self.busy: dict[str, HarnessError] = {}

    def alive(self) -> frozenset[str]:
        """Return the addresses."""
        return frozenset(self.workers)

    def devices(self) -> list[FleetDevice]:
        """Return the devices of all workers."""
        return [each for address in self.workers for each in self.devices_of(address)]

    def close(self) -> None:
        """Leave the cluster."""

    def devices_of(self, address: str) -> list[FleetDevice]:
        """Return a worker's devices; one without a device is of another version."""
        if not self.workers[address]:
            raise UsageError("another version")
        if address in self.silent:
            raise WorkerLost("no answer")
        return [
            FleetDevice(uuid, "T4" if uuid.startswith("T4") else "GPU", uuid, None, address)
            for uuid in self.workers[address]
        ]

    is_lost = False

    def start(self, *_: object) -> FakeCluster:
        """Start an agent, which this is itself."""
        return self

    def call(self, _: str, method: str, *args: Any) -> Any:
        """Open a device."""
        if method != "open":
            return None
        if args[0] in self.busy:
            raise self.busy[args[0]]
        return OpenedDevice(cast(Any, None), cast(Any, None), None, (), cast(Any, None))


Join = Callable[..., tuple[Fleet, Callable[[], set[str]]]]


@pytest.fixture
def fleet_of(tmp_path: Path) -> Join:
    """Opens the devices that a cluster has; returns the fleet, and what opens those that join and
    names them."""
    spec = write_program(tmp_path)

    def opened(
        cluster: FakeCluster, names: Sequence[str] = ("GPU",), most: int = 9
    ) -> tuple[Fleet, Callable[[], set[str]]]:
        request = FleetRequest("tcp://127.0.0.1:1", names, most, False, "this", print)
        fleet = Fleet(spec, request, cast(Any, cluster))
        fleet.open(cluster.devices())

        def look() -> set[str]:
            fleet.open_new()
            return set(dict(fleet._taken()))

        return fleet, look

    return opened


def test_devices_of_workers_that_join_are_opened_once(fleet_of: Join) -> None:
    cluster = FakeCluster(one=("a",))
    fleet, look = fleet_of(cluster)
    assert list(fleet.measurers) == ["a"]
    assert look() == set()
    cluster.workers |= {"two": ("b", "a"), "older": (), "three": ("b", "c")}
    assert look() == {"b", "c"}, "nor a, which is in use"
    assert look() == set()
    del cluster.workers["one"]
    assert look() == {"a"}, "its worker has left, and another one offers it"


def test_a_worker_that_was_silent_and_goes_on_is_used_again(fleet_of: Join) -> None:
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
def test_unopened_device_is_retried(
    monkeypatch: pytest.MonkeyPatch, fleet_of: Join, error: HarnessError
) -> None:
    cluster = FakeCluster(one=("a",))
    _, look = fleet_of(cluster)
    cluster.workers["two"] = ("b", "c")
    cluster.busy["b"] = error
    assert look() == {"c"}
    cluster.busy.clear()
    assert look() == set(), "not at once"
    monkeypatch.setattr("harness.fleet.measurers.time.monotonic", lambda: 1e12)
    assert look() == {"b"}


def test_devices_that_join_and_cannot_be_used_are_reported(fleet_of: Join) -> None:
    cluster = FakeCluster(one=("a", "T4-there"))
    fleet, look = fleet_of(cluster, names=("a", "b", "late"))
    cluster.workers |= {"two": ("b", "T4-late", "d"), "older": ()}
    assert look() == {"b"}, "nor d, which is not named"
    reasons = fleet.unused()
    assert reasons == [
        "a worker has joined and is not used: another version",
        "T4-late has joined and is not used: it is a T4, and this command tunes GPU",
    ]
    assert look() == set()
    assert fleet.unused() == [], "each once"


def test_no_more_devices_are_used_than_there_are_inputs(fleet_of: Join) -> None:
    cluster = FakeCluster(one=("a", "e"))
    fleet, look = fleet_of(cluster, most=1)
    assert list(fleet.measurers) == ["a"]
    fleet, look = fleet_of(cluster, most=3)
    cluster.workers["two"] = ("b", "c", "d")
    assert len(look()) == 1


def test_a_device_that_is_busy_is_left_out(fleet_of: Join) -> None:
    cluster = FakeCluster(one=("a", "b"))
    cluster.busy["a"] = DeviceBusy("another campaign measures on a")
    fleet, _ = fleet_of(cluster)
    assert list(fleet.measurers) == ["b"]
    assert fleet.skipped == ["a is not used: another campaign measures on a"]


def test_busy_devices_are_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.fleet.measurers._SAY_S", 0.0)
    cluster, said = FakeCluster(one=("a", "b")), list[str]()
    cluster.busy = dict.fromkeys("ab", DeviceBusy("another campaign measures on it"))

    def say(text: str) -> None:
        said.append(text)
        cluster.busy.clear()

    monkeypatch.setattr("harness.fleet.measurers.Cluster.connect", lambda *_: cluster)
    request = FleetRequest("tcp://127.0.0.1:1", (), 9, False, "this", say)
    with open_fleet(write_program(tmp_path), request) as fleet:
        assert (list(fleet.measurers), fleet.skipped) == (["a", "b"], [])
    assert said == ["waiting for up to 60 s: another campaign measures on it"]


def test_devices_of_several_models_are_no_fleet(fleet_of: Join) -> None:
    with pytest.raises(UsageError, match=r"several models.* choose one with --device.*: GPU, T4"):
        fleet_of(FakeCluster(one=("a", "T4-there")), names=())
    with pytest.raises(BackendUnavailable, match=r"programs and has that name; 1 device:\n  a"):
        fleet_of(FakeCluster(one=("a",)), names=("H100",))
