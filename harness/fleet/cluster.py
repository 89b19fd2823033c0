"""A Dask cluster: its scheduler, whose address may need encryption; how a worker serves it; what
workers offer, and calls of them.

Dask carries our calls, and says which workers are there; it does not decide what runs where. It is
imported when it is first used, since that takes a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import harness
from harness.core.errors import BackendUnavailable, Busy, HarnessError, UsageError
from harness.core.text import command_line
from harness.fleet import agent
from harness.fleet.agent import FleetDevice, Offer

_SILENT_S = 30.0
"""A scheduler that does not answer for so long is lost."""

_MOST_CALLS = 4096
"""A call of a device has a connection of its own until it is answered."""

_TASK_S = 120.0
"""A worker that has not begun to serve a driver after so long never will."""

_LOOK_S = 0.5
_WAIT_S = 1.0
_CONNECT_S = 10.0
_CLOSE_S = 5.0
_JOIN_S = 30  # a worker looks for its scheduler for so long
_ENDING = (signal.SIGINT, signal.SIGTERM)


def check_address(address: str, insecure: bool = False) -> None:
    """Raise UsageError for an address that is malformed, or that others on the network can reach
    without a certificate: whoever reaches a scheduler can run programs on its workers."""
    parts = urlsplit(address)
    try:
        is_whole = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # of the port
        is_whole = False
    if not is_whole:
        raise UsageError(
            f"`{address}` is no address of a scheduler; expected tls://HOST:PORT or "
            "tcp://127.0.0.1:PORT (for the devices of this machine alone, write --device all)"
        )
    if parts.scheme == "tls" or insecure or _is_loopback(parts.hostname or ""):
        return
    raise UsageError(
        f"{address} is not encrypted, and whoever reaches a scheduler can run programs on its "
        "workers. Use tls:// with certificates (docs/howto/use_several_machines.md), or add "
        "--insecure on a network that you trust"
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@cache
def load_distributed() -> Any:
    """Import distributed, without its log on standard error; raises BackendUnavailable."""
    try:
        import dask
    except ImportError as error:
        raise BackendUnavailable(
            f"Dask is missing ({error}). In the clone of harness, run: pip install -e '.[fleet]'"
        ) from None
    # Its errors reach the user as ours; it would print tracebacks as well.
    dask.config.set({"logging": {"distributed": "critical", "distributed.client": "critical"}})
    import distributed

    # Dask's profiler asks for all frames every 10 ms. Python before 3.11.8 and 3.12.2 may wait for
    # ever there (CPython issue 106883).
    dask.config.set({"distributed.worker.profile.enabled": False})
    return distributed


def _check_certificates(address: str, role: str) -> None:
    """Raise UsageError where Dask's settings have no certificate for an encrypted scheduler.

    `role` is `client` or `worker`.
    """
    if not address.startswith("tls:"):
        return
    import dask

    names = ("ca-file", f"{role}.cert", f"{role}.key")
    for name in names:
        path = dask.config.get(f"distributed.comm.tls.{name}", None)
        if path is None and name.endswith(".key"):
            continue  # it may stand in the certificate's file
        if path is None or not Path(path).is_file():
            fault = f"names {path}, which is no file"
            if path is None:
                fault = "is not set"
            raise UsageError(
                f"{address} needs a certificate, but `distributed.comm.tls.{name}` of Dask's "
                f"settings {fault}; docs/howto/use_several_machines.md shows the file, such as "
                "~/.config/dask/fleet.yaml"
            )


def check_can_serve(address: str, insecure: bool) -> None:
    """Raise UsageError for an address that nobody should use, and for an encrypted one without a
    certificate; BackendUnavailable without Dask."""
    check_address(address, insecure)
    load_distributed()
    _check_certificates(address, "worker")


def serve(address: str) -> bool:
    """Serve a scheduler until it ends, or a signal asks this process to end: say whether one did.

    Raises BackendUnavailable where no scheduler answers.
    """
    try:
        return asyncio.run(_served(address))
    finally:
        agent.end_agents()


async def _served(address: str) -> bool:
    distributed = load_distributed()
    serving = distributed.Worker(address, nthreads=1, death_timeout=_JOIN_S, dashboard=False)
    try:
        await serving
    except (OSError, asyncio.TimeoutError) as error:
        raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None
    loop = asyncio.get_running_loop()
    signals: list[asyncio.Task[object]] = []

    def end(number: int) -> None:
        signals.append(loop.create_task(serving.close(reason=f"signal {number}")))

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    await serving.finished()
    return bool(signals)


# ------------------------------------------------------------------------------- the workers


class _WorkerLost(BackendUnavailable):
    """A worker left the cluster, does not answer any more, or answers with what nobody can read."""


class NoWorker(BackendUnavailable, Busy):
    """No worker has joined yet."""


class Cluster:
    """A driver's view of a cluster."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self._lock = threading.Lock()
        self._alive: frozenset[str] = frozenset()
        self._looked_s = -_LOOK_S
        self._is_lost = False  # the scheduler

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Connect to a scheduler; raises BackendUnavailable where none answers, UsageError without
        a certificate for an encrypted one."""
        distributed = load_distributed()
        _check_certificates(address, "client")
        try:
            client = distributed.Client(
                address,
                set_as_default=False,
                direct_to_workers=True,
                timeout=_CONNECT_S,
                connection_limit=_MOST_CALLS,
            )
        except (OSError, ValueError, TimeoutError) as error:
            raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None
        return cls(client, address)

    def devices(self) -> list[FleetDevice]:
        """Return the devices of the workers.

        Raises NoWorker where there is none, UsageError for one of another version of harness.
        """
        devices: list[FleetDevice] = []
        reasons = ""
        for address in sorted(self.alive()):
            try:
                devices += self.devices_of(address)
            except BackendUnavailable as error:
                reasons += f"\n  {error}"
        if not devices:
            command = command_line("worker", self._address)
            raise NoWorker(
                f"{self._address} has no worker: on each machine that shall measure, run "
                f"`{command}`{reasons}",
                "docs/howto/use_several_machines.md describes a cluster",
            )
        return devices

    def devices_of(self, address: str) -> list[FleetDevice]:
        """Return what a worker offers; raises BackendUnavailable, UsageError for another version of
        harness."""
        offer: Offer = self._done(address, agent.offer)
        version = getattr(offer, "harness_version", "of another kind")
        if version != harness.__version__:
            raise UsageError(
                f"the worker {address} has harness {version}, this machine {harness.__version__}; "
                "install the same version"
            )
        return [replace(device, address=address) for device in offer.devices]

    def start(self, address: str, kind: Callable[..., object], *args: object) -> Actor:
        """Make an actor on a worker, which lives as long as what is returned; raises
        BackendUnavailable."""
        return Actor(self, address, self._done(address, kind, *args, actor=True))

    async def called(self, address: str, key: str, args: tuple[object, ...]) -> object:
        """Call `run` of an actor as Dask's Actor does, whose own call never ends where the answer
        cannot be read (distributed 2026.8)."""
        distributed = load_distributed()
        worker = self._client.rpc(address)
        sent = [distributed.protocol.to_serialize(argument) for argument in args]
        answer = await worker.actor_execute(actor=key, function="run", args=sent, kwargs={})
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    def _done(
        self, address: str, function: Callable[..., object], *args: object, actor: bool = False
    ) -> Any:
        """Call a function on a worker, which is soon done."""
        future = self._client.submit(function, *args, workers=[address], pure=False, actor=actor)
        gather = partial(self._client.gather, future, direct=False, asynchronous=True)
        return self.awaited(address, gather, _TASK_S)

    def awaited(
        self,
        address: str,
        call: Callable[[], Coroutine[Any, Any, Any]],
        limit_s: float = float("inf"),
    ) -> Any:
        """Wait for a coroutine of Dask's event loop; a worker that dies may never answer it.

        Raises its HarnessError, and BackendUnavailable for any other.
        """
        self._require_alive(address)
        end_s = time.monotonic() + limit_s
        with self._client.as_current():  # an actor belongs to the client that is current
            answer = asyncio.run_coroutine_threadsafe(call(), self._client.loop.asyncio_loop)
        try:
            # Not with Dask's own timeout: hundreds of waiting threads would keep its loop busy.
            while not wait([answer], timeout=_WAIT_S).done:
                self._require_alive(address)
                if time.monotonic() > end_s:
                    raise _WorkerLost(f"the worker {address} did not answer within {limit_s:g} s")
            return answer.result()
        except HarnessError:
            raise
        except Exception as error:  # whatever Dask or the worker raise
            self._require_alive(address)
            reason = f"{type(error).__name__}: {error}"
            raise _WorkerLost(
                f"the worker {address} failed: {reason}; what was measured is kept"
            ) from None
        finally:
            answer.cancel()

    def alive(self) -> frozenset[str]:
        """Return the addresses of the workers that the scheduler has not lost."""
        with self._lock:
            if time.monotonic() - self._looked_s >= _LOOK_S:
                self._look()
                self._looked_s = time.monotonic()
            return self._alive

    def _look(self) -> None:
        if self._is_lost:
            raise self._scheduler_lost()
        try:
            scheduler = self._client.scheduler
            if scheduler:
                answer = self._client.sync(
                    scheduler.identity, n_workers=-1, callback_timeout=_SILENT_S
                )
                self._alive = frozenset(answer["workers"])
        except asyncio.TimeoutError:  # its machine hangs, or the process is stopped
            self._is_lost = True
            raise self._scheduler_lost() from None
        except OSError:
            pass  # it has ended: the client's status says so
        while self._client.status == "connecting":  # again, for some seconds
            time.sleep(_LOOK_S / 5)
        if self._client.status != "running":
            raise self._scheduler_lost()

    def _scheduler_lost(self) -> HarnessError:
        return HarnessError(
            f"the scheduler {self._address} does not answer any more. All measurements are "
            "kept: start it and its workers, and run the same command again"
        )

    def _require_alive(self, address: str) -> None:
        if address not in self.alive():
            raise _WorkerLost(f"the worker {address} was lost")

    def close(self) -> None:
        """Leave the cluster."""
        with contextlib.suppress(asyncio.TimeoutError):  # a scheduler that hangs
            self._client.close(timeout=_CLOSE_S)


class Actor:
    """An actor on a worker, whose method `run` calls the others.

    It `is_lost` once a call has failed.
    """

    def __init__(self, cluster: Cluster, address: str, actor: Any) -> None:
        self.is_lost = False
        self._cluster = cluster
        self._address = address
        self._actor = actor

    def call(self, method: str, *args: object) -> Any:
        """Call a method. Raises what it raises, and BackendUnavailable where the worker is lost."""
        sent = method, *args
        call = partial(self._cluster.called, self._address, self._actor.key, sent)
        try:
            return self._cluster.awaited(self._address, call)
        except _WorkerLost:
            self.is_lost = True
            raise
