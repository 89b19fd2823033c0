"""The workers of a Dask cluster: who they are, what they offer, and calls of them.

Dask carries our messages, and says which workers are there; it neither sees what they mean nor
decides what runs where.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import harness
from harness.core.errors import BackendUnavailable, HarnessError, UsageError
from harness.core.invocation import command_line
from harness.core.text import counted
from harness.fleet import wire, worker
from harness.fleet.engine import check_certificates, load_distributed
from harness.fleet.exchange import Exchange
from harness.fleet.messages import Offer, OfferedDevice
from harness.fleet.remote_device import Channel

_LOOK_S, _WAIT_S, _CONNECT_S, _CLOSE_S = 0.5, 1.0, 10.0, 5.0
_SILENT_S = 30.0
"""A worker of which the scheduler heard nothing for so long is lost, as one without a network;
so is a scheduler that does not answer for so long."""

BUILD = "build"
"""The resource of Dask that says how many builds a worker runs at once."""


class WorkerLost(BackendUnavailable):
    """A worker left the cluster, does not answer any more, or answers with what nobody can read."""


class SchedulerLost(HarnessError):
    """The scheduler has ended, or cannot be reached any more: no worker can."""


@dataclass(frozen=True)
class Member:
    """A worker of the cluster, by its address, and what it offers."""

    address: str
    offer: Offer
    builders: int


class Cluster:
    """A driver's view of a cluster."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self._lock = threading.Lock()
        self._building: Counter[str] = Counter()  # builds under way, by the worker's address
        self._builders: Mapping[str, int] = {}  # of the workers that are alive, by address
        self._heard: dict[str, tuple[float, float]] = {}  # when last, and since when we know
        self._looked_s = -_LOOK_S
        self._workers: Mapping[str, Any] = {}  # what the scheduler last said of each
        self._is_lost = False  # the scheduler
        self._exchanges: dict[str, Exchange | None] = {}

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Connect to a scheduler; raises BackendUnavailable where none answers, UsageError without
        a certificate for an encrypted one."""
        distributed = load_distributed()
        check_certificates(address, "client")
        options: dict[str, Any] = {"timeout": _CONNECT_S, "set_as_default": False}
        try:
            return cls(distributed.Client(address, **options), address)
        except (OSError, ValueError, TimeoutError) as error:
            raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None

    def wait_for_members(
        self, wait_s: float, least: int = 1, say: Callable[[str], None] = lambda _: None
    ) -> list[Member]:
        """Return the workers once there are so many; wait at most so long, and say so.

        Raises BackendUnavailable where there are fewer.
        """
        begin_s = time.monotonic()
        is_said = False
        while len(self.alive()) < least and time.monotonic() < begin_s + wait_s:
            if not is_said and time.monotonic() > begin_s + _WAIT_S:
                say(f"waiting for up to {wait_s:g} s for workers of {self._address}. {self._start}")
                is_said = True
            time.sleep(_LOOK_S / 5)
        members, reasons = self.members()
        if len(members) < least:
            listed = "".join(f"\n  {reason}" for reason in reasons)
            raise BackendUnavailable(
                f"{self._address} has {counted(len(members), 'worker')} after {wait_s:g} s, and "
                f"{least} must be there. {self._start}{listed}"
            )
        return members

    @property
    def _start(self) -> str:
        return f"On each machine that shall measure, run: {command_line('worker', self._address)}"

    def members(self) -> tuple[list[Member], list[str]]:
        """Return the workers that are there now, with what each offers, and why others offer
        nothing; raises UsageError for one of another version of harness."""
        found, reasons = [], []
        for address in sorted(self.alive()):
            try:
                found.append(self.member(address))
            except WorkerLost as error:
                reasons.append(str(error))
        return found, reasons

    def member(self, address: str) -> Member:
        """Return a worker; raises WorkerLost, UsageError for another version of harness."""
        answer = self._called(address, worker.offer)
        try:
            offer: Offer = wire.decode(Offer, answer)
        except wire.GarbledMessage as error:
            raise UsageError(
                f"the worker {address} offers what this version of harness cannot read; install "
                f"{harness.__version__} there: {error}"
            ) from None
        _require_version(address, offer)
        return Member(address, offer, self._builders.get(address, 0))

    def alive(self) -> frozenset[str]:
        """Return the addresses of the workers from which the scheduler has heard lately."""
        with self._lock:
            if time.monotonic() - self._looked_s >= _LOOK_S:
                self._look()
                self._looked_s = time.monotonic()
            return frozenset(self._builders)

    def _look(self) -> None:
        if self._is_lost:
            raise self._scheduler_lost()
        try:
            if scheduler := self._client.scheduler:
                ask = partial(self._client.sync, scheduler.identity, n_workers=-1)
                self._workers = ask(callback_timeout=_SILENT_S)["workers"]
        except asyncio.TimeoutError:  # its machine hangs, or the process is stopped
            self._is_lost = True
            raise self._scheduler_lost() from None
        except OSError:
            pass  # it has ended: the client's status says so
        while self._client.status == "connecting":  # again, for some seconds
            time.sleep(_LOOK_S / 5)
        if self._client.status != "running":
            raise self._scheduler_lost()
        # By this machine's clock: the scheduler's may differ, and all workers may be silent.
        now_s = time.monotonic()
        heard = {address: one["last_seen"] for address, one in self._workers.items()}
        before, self._heard = self._heard, {}
        for address, last_seen in heard.items():
            seen, since_s = before.get(address, (None, now_s))
            self._heard[address] = last_seen, since_s if seen == last_seen else now_s
        self._builders = {
            address: int(self._workers[address]["resources"].get(BUILD, 0))
            for address, (_, since_s) in self._heard.items()
            if now_s - since_s < _SILENT_S
        }

    def _scheduler_lost(self) -> SchedulerLost:
        return SchedulerLost(
            f"the scheduler {self._address} does not answer any more. All measurements are "
            "kept: start it and its workers, and run the same command again"
        )

    def call(self, address: str, method: str, message: bytes) -> bytes:
        """Call a method of a worker's agent; raises WorkerLost."""
        self._require_alive(address)
        exchange = self._exchange(address)
        if exchange is None:
            # Dask starts no more builds at once than a worker offers to all drivers.
            return self._called(address, worker.call, method, message, builds=method == "build")
        answer = exchange.call(method, message)
        while not wait([answer], timeout=_WAIT_S).done:
            self._require_alive(address)
        try:
            result: object = answer.result()
        except Exception as error:  # whatever Dask or the worker raise
            raise self._lost(address, error) from None
        return _bytes(address, result)

    def _exchange(self, address: str) -> Exchange | None:
        """Return the connection to a worker; None where only the scheduler can connect to it."""
        if address not in self._exchanges:
            exchange = Exchange(self._client, address)
            loop = self._client.loop.asyncio_loop
            connecting = asyncio.run_coroutine_threadsafe(exchange.is_reachable(), loop)
            found = exchange if connecting.result() else None
            with self._lock:  # another thread may have found it first
                self._exchanges.setdefault(address, found)
        return self._exchanges[address]

    @contextlib.contextmanager
    def builder(self, avoid: Collection[str] = ()) -> Iterator[str]:
        """Take the worker that is least busy with builds; yield its address.

        Raises BackendUnavailable where no worker compiles, other than those to `avoid`.
        """
        alive = self.alive()
        with self._lock:
            shares = {
                address: self._building[address] / count
                for address, count in self._builders.items()
                if count and address in alive and address not in avoid
            }
            if not shares:
                raise BackendUnavailable("no worker that compiles is left in the cluster")
            address = min(shares, key=shares.__getitem__)
            self._building[address] += 1
        try:
            yield address
        finally:
            with self._lock:
                self._building[address] -= 1

    def _called(
        self, address: str, function: Callable[..., bytes], *words: object, builds: bool = False
    ) -> bytes:
        self._require_alive(address)
        where: dict[str, Any] = {"workers": [address]}
        if builds:
            where["resources"] = {BUILD: 1}
        future = self._client.submit(function, *words, pure=False, **where)
        try:
            ended = threading.Event()
            # Not with Dask's own timeout: hundreds of waiting threads keep its loop busy, and a
            # result that comes at the same moment is an UnboundLocalError (distributed 2026.8).
            future.add_done_callback(lambda _: ended.set())
            while not ended.wait(_WAIT_S):
                self._require_alive(address)
            answer = self._result(address, future)
        finally:
            with contextlib.suppress(Exception):
                future.release()
        return _bytes(address, answer)

    def _result(self, address: str, future: Any) -> object:
        try:
            if future.status in ("error", "cancelled"):
                return future.result()  # which raises why
            return self._fetched(address, future)
        except WorkerLost:
            raise
        except Exception as error:  # whatever Dask or the worker raise
            raise self._lost(address, error) from None

    def _lost(self, address: str, error: Exception) -> WorkerLost:
        self._require_alive(address)
        return WorkerLost(f"the worker {address} failed: {type(error).__name__}: {error}")

    def _fetched(self, address: str, future: Any) -> object:
        """Fetch a result; that of a worker which dies meanwhile would never come."""
        coroutine = self._client.gather(future, asynchronous=True)
        fetched = asyncio.run_coroutine_threadsafe(coroutine, self._client.loop.asyncio_loop)
        while not wait([fetched], timeout=_WAIT_S).done:
            self._require_alive(address)  # Dask ends the coroutine when the future is released
        return fetched.result()

    def _require_alive(self, address: str) -> None:
        if address not in self.alive():
            raise WorkerLost(f"the worker {address} was lost")

    def close(self) -> None:
        """Leave the cluster."""
        with contextlib.suppress(asyncio.TimeoutError):  # a scheduler that hangs
            self._client.close(timeout=_CLOSE_S)


@dataclass(frozen=True)
class AgentChannel:
    """Carries requests to the agent of one worker."""

    cluster: Cluster
    address: str

    def measure(self, request: bytes) -> bytes:
        """Carry out a call of a device."""
        return self.cluster.call(self.address, "measure", request)

    def program(self, request: bytes) -> bytes:
        """Carry out a call of the machine, which runs programs."""
        return self.cluster.call(self.address, "program", request)

    def store(self, bundle: bytes) -> bytes:
        """Keep the files of a bundle."""
        return self.cluster.call(self.address, "store", bundle)


def _bytes(address: str, answer: object) -> bytes:
    if not isinstance(answer, bytes):
        raise WorkerLost(f"the worker {address} answered with a {type(answer).__name__}")
    return answer


def _require_version(address: str, offer: Offer) -> None:
    if offer.harness_version != harness.__version__:
        raise UsageError(
            f"the worker {offer.host_name} ({address}) has harness {offer.harness_version}, this "
            f"machine {harness.__version__}; install the same version"
        )


@dataclass(frozen=True)
class FleetDevice:
    """A device that a worker offers, the machine that it is in, and the way to it.

    `address` is the worker's.
    """

    offered: OfferedDevice
    host_name: str
    channel: Channel
    address: str = ""

    @property
    def name(self) -> str:
        """The name for messages."""
        backend = self.offered.backend
        if backend is None:
            return self.host_name
        return f"{self.host_name} device {backend.device.index if backend.device else 0}"


def devices_of(cluster: Cluster, member: Member) -> list[FleetDevice]:
    """Return the devices that a worker offers."""
    host_name, address = member.offer.host_name, member.address
    channel = AgentChannel(cluster, address)
    return [FleetDevice(each, host_name, channel, address) for each in member.offer.devices]
