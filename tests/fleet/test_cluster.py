"""The workers of a real Dask cluster: who is there, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import harness
from harness.core.errors import BackendUnavailable, DeviceBusy, UsageError
from harness.fleet import agent
from harness.fleet.agent import FleetDevice, Offer
from harness.fleet.cluster import Cluster, SchedulerLost, WorkerLost
from tests.helpers.dask_workers import local_workers
from tests.helpers.planted import until

distributed = pytest.importorskip("distributed")

WAITS = threading.Event()
ASKED = threading.Event()
OFFER = Offer(harness.__version__, (FleetDevice("cpu", "a CPU", "here", None),))
Two = tuple[Any, Cluster, list[str]]


class Echo:
    """An actor that answers with its request."""

    async def echo(self, message: object) -> object:
        """Answer."""
        return message

    async def wait(self) -> str:
        """Answer once nothing waits."""
        ASKED.set()
        await asyncio.to_thread(WAITS.wait, 60)
        return "waited"

    async def fail(self, error: Exception) -> None:
        """Raise it."""
        raise error

    async def answer_with_garbage(self) -> object:
        """Answer with what nobody can read."""
        return Unreadable()


def _hang() -> None:
    WAITS.wait(60)


class Unreadable:
    """What nobody can read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("garbage",)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """A scheduler with two workers in this process, and a driver's view of them."""
    monkeypatch.setattr(agent, "_offers", [OFFER])
    WAITS.clear()
    ASKED.clear()
    said: list[str] = []
    with (
        local_workers(2) as local,
        contextlib.closing(Cluster.connect(local.scheduler_address, said.append)) as cluster,
    ):
        yield local, cluster, said
        WAITS.set()


async def _unreachable(*_: object) -> None:
    raise OSError("no route to host")


@pytest.mark.parametrize("reaches", [True, False])
def test_calls_of_many_threads(two: Two, monkeypatch: pytest.MonkeyPatch, reaches: bool) -> None:
    local, cluster, said = two
    assert not any("profile" in worker.periodic_callbacks for worker in local.workers.values())
    through_scheduler: list[str] = []

    class Noted(distributed.actor.ProxyRPC):  # type: ignore[name-defined,misc]
        """A way through the scheduler that is noted."""

        def __init__(self, scheduler: Any, address: str) -> None:
            through_scheduler.append(address)
            super().__init__(scheduler, address)

    monkeypatch.setattr("distributed.actor.ProxyRPC", Noted)
    if not reaches:  # the scheduler does
        monkeypatch.setattr("harness.fleet.cluster._connected", _unreachable)
    devices = cluster.devices()
    assert [(device.uuid, device.host_name) for device in devices] == [("cpu", "here")] * 2
    actors = {device.address: cluster.start(device.address, Echo) for device in devices}
    address = devices[0].address
    with ThreadPoolExecutor(9) as threads:
        waiting = threads.submit(actors[address].call, "wait")

        def ask(number: int) -> list[object]:
            return [actor.call("echo", number) for actor in actors.values()]

        echoes = threads.map(ask, range(50))
        assert list(echoes) == [[number, number] for number in range(50)]
        assert not waiting.done()
        WAITS.set()
        assert waiting.result(60) == "waited"
    assert bool(through_scheduler) is not reaches
    assert [line.partition(",")[0] for line in said] == (
        [] if reaches else ["messages to workers go through the scheduler"]
    )


def test_errors_of_a_worker_are_raised_here_and_any_other_fault_counts_as_lost(two: Two) -> None:
    _, cluster, _ = two
    (address, _) = sorted(cluster.alive())
    echo = cluster.start(address, Echo)
    with pytest.raises(DeviceBusy, match="another campaign"):
        echo.call("fail", DeviceBusy("another campaign"))
    with pytest.raises(WorkerLost, match="no room"):
        echo.call("fail", ValueError("no room"))
    with pytest.raises(WorkerLost, match="invalid literal"):
        echo.call("answer_with_garbage")
    assert len(echo.call("echo", bytes(20_000_000))) == 20_000_000


def test_a_call_of_a_worker_that_leaves_ends(two: Two) -> None:
    local, cluster, _ = two
    gone, left = sorted(cluster.alive())
    actors = {address: cluster.start(address, Echo) for address in (gone, left)}
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(actors[gone].call, "wait")
        assert ASKED.wait(60)
        (worker,) = (each for each in local.workers.values() if each.address == gone)
        local.sync(worker.close)
        assert isinstance(waiting.exception(60), WorkerLost)
        WAITS.set()
    assert until(lambda: cluster.alive() == {left})
    with pytest.raises(WorkerLost, match="was lost"):
        actors[gone].call("echo", 1)
    assert actors[left].call("echo", 1) == 1


def test_a_worker_that_never_serves_is_lost(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cluster, _ = two
    monkeypatch.setattr("harness.fleet.cluster._TASK_S", 0.1)
    (address, _) = sorted(cluster.alive())
    with pytest.raises(WorkerLost, match=r"did not answer within 0\.1 s"):
        cluster.start(address, _hang)
    WAITS.set()


class SilentScheduler:
    """A client whose scheduler has heard of its workers at these times."""

    status = "running"

    def __init__(self, **last_seen: float) -> None:
        self.last_seen = last_seen

    @property
    def scheduler(self) -> SilentScheduler:
        """The scheduler's end of calls."""
        return self

    def sync(self, call: Any, n_workers: int, callback_timeout: float) -> Any:
        """Call the scheduler."""
        assert callback_timeout == 30
        return call(n_workers)

    def identity(self, n_workers: int) -> dict[str, Any]:
        """Return all workers."""
        assert n_workers == -1
        workers = {name: {"last_seen": at_s} for name, at_s in self.last_seen.items()}
        return {"workers": workers}


def test_workers_that_are_silent_are_lost_even_if_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("harness.fleet.cluster.time.monotonic", lambda: now_s)
    scheduler = SilentScheduler(one=5e9, two=5e9)  # its clock is another one
    cluster = Cluster(scheduler, "tcp://127.0.0.1:9", print)
    assert cluster.alive() == {"one", "two"}
    now_s += 29
    scheduler.last_seen["two"] += 29
    assert cluster.alive() == {"one", "two"}
    now_s += 2
    assert cluster.alive() == {"two"}
    now_s += 30
    assert cluster.alive() == frozenset()
    scheduler.last_seen["one"] += 60
    now_s += 1
    assert cluster.alive() == {"one"}, "its network was mended"


class StoppedScheduler(SilentScheduler):
    """A scheduler that is connected and does not answer."""

    asked = 0

    def sync(self, call: Any, n_workers: int, callback_timeout: float) -> Any:
        """Take longer than that."""
        self.asked += 1
        raise asyncio.TimeoutError

    def close(self, timeout: float) -> None:
        """Take longer than that."""
        raise asyncio.TimeoutError


def test_a_scheduler_that_hangs_is_lost() -> None:
    stopped = StoppedScheduler(one=5e9)
    cluster = Cluster(stopped, "tcp://127.0.0.1:9", print)
    for _ in range(2):
        with pytest.raises(SchedulerLost, match="does not answer any more"):
            cluster.alive()
    assert stopped.asked == 1, "the others do not wait as well"
    cluster.close()


@pytest.mark.parametrize("offer", [Offer("0.0.1", ()), {"version": 2}])
def test_another_version_is_refused(two: Two, monkeypatch: pytest.MonkeyPatch, offer: Any) -> None:
    monkeypatch.setattr(agent, "_offers", [offer])
    with pytest.raises(UsageError, match=r"has harness .*install the same version"):
        two[1].devices()


def test_a_cluster_without_workers_says_how_to_start_one() -> None:
    with (
        local_workers(0) as local,
        contextlib.closing(Cluster.connect(local.scheduler_address, print)) as cluster,
        pytest.raises(BackendUnavailable, match=r"has no worker\. On each machine .*worker tcp://"),
    ):
        cluster.devices()


def test_no_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.fleet.cluster._CONNECT_S", 0.2)
    with pytest.raises(BackendUnavailable, match="no scheduler answers at tcp"):
        Cluster.connect("tcp://127.0.0.1:9", print)


def test_an_encrypted_scheduler_needs_a_certificate() -> None:
    with pytest.raises(UsageError, match=r"tls\.ca-file` of Dask's settings is not set"):
        Cluster.connect("tls://127.0.0.1:9", print)


def test_a_worker_under_a_nanny_is_refused(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(BackendUnavailable, match=r"start it with `harness\.worker ADDRESS`"):
        two[1].devices()
