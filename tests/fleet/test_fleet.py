"""The address of a cluster, and the devices that join one during a campaign."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from harness.api.checks import check_options
from harness.api.options import TuneOptions
from harness.core.errors import BackendUnavailable, HarnessError, UsageError
from harness.fleet.address import check_address, local_count
from harness.fleet.cluster import FleetDevice, Member, WorkerLost
from harness.fleet.late import LateDevices
from harness.fleet.offer import Offer, OfferedDevice
from harness.fleet.serving import check_can_serve


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
        return Member(address, Offer("0.1.0", address, devices))


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
    used = [FleetDevice(OfferedDevice("a", "GPU", None), "one", "one")]
    return LateDevices(workers, opened, used, most, tuple(cluster.workers))


def _look(late: LateDevices) -> set[Any]:
    for device in late._new():
        late._try(device)
    return {measurer for _, measurer in late._taken()}


def test_devices_of_workers_that_join_are_opened_once() -> None:
    cluster = FakeCluster(one=("a",))
    late = _late(cluster)
    assert _look(late) == set()
    cluster.workers |= {"two": ("b", "a"), "older": (), "three": ("b", "c")}
    assert _look(late) == {"b", "c"}, "nor a, which is in use"
    assert _look(late) == set()
    del cluster.workers["one"]
    assert _look(late) == {"a"}, "its worker has left, and another one offers it"


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


def test_devices_that_join_and_cannot_be_used_are_reported() -> None:
    cluster = FakeCluster(one=("a", "T4-there"))
    late = _late(cluster)
    cluster.workers |= {"two": ("b", "T4-late"), "older": ()}
    assert _look(late) == {"b"}
    reasons = late.unused()
    assert reasons == [
        "a worker has joined and is not used: another version",
        "two has joined and is not used: it is a T4, and this command tunes GPU",
    ]
    assert _look(late) == set()
    assert late.unused() == [], "each once"


def test_no_more_devices_join_than_there_are_inputs() -> None:
    assert len(_look(_late(FakeCluster(one=("a",), two=("b", "c", "d")), most=3))) == 2
