"""The workers of a Dask cluster: who they are, what they offer, and calls of them.

Dask carries our messages, and says which workers are
there; it neither sees what they mean nor decides what is measured where.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import harness
from harness.core.errors import BackendUnavailable, UsageError
from harness.core.text import counted
from harness.fleet import wire, worker
from harness.fleet.engine import check_certificates, load_distributed
from harness.fleet.messages import Offer

_LOOK_S, _CONNECT_S = 0.5, 10.0
_SILENT_S = 30.0
"""A worker of which the scheduler heard nothing for so long is lost, as one without a network."""

BUILD = "build"
"""The resource of Dask that says how many builds a worker runs at once."""


class WorkerLost(BackendUnavailable):
    """A worker left the cluster, or does not answer any more."""


@dataclass(frozen=True)
class Member:
    """A worker of the cluster, by its address, and what it offers."""

    address: str
    offer: Offer
    builders: int


class Cluster:
    """A driver's view of a cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._builders: Mapping[str, int] = {}  # of the workers that are alive, by address
        self._looked_s = -_LOOK_S

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Connect to a scheduler; raises BackendUnavailable where none answers, UsageError without
        a certificate for an encrypted one."""
        distributed = load_distributed()
        check_certificates(address, "client")
        options: dict[str, Any] = {"timeout": _CONNECT_S, "set_as_default": False}
        try:
            return cls(distributed.Client(address, **options))
        except (OSError, ValueError, TimeoutError) as error:
            raise BackendUnavailable(f"no scheduler answers at {address}: {error}") from None

    def wait_for_members(self, wait_s: float, least: int = 1) -> list[Member]:
        """Return the workers once there are so many; wait at most so long.

        Raises BackendUnavailable where there are fewer.
        """
        end_s = time.monotonic() + wait_s
        while len(self.alive()) < least and time.monotonic() < end_s:
            time.sleep(_LOOK_S / 5)
        members = self.members()
        if len(members) < least:
            raise BackendUnavailable(
                f"the cluster has {counted(len(members), 'worker')} after {wait_s:g} s, and "
                f"{least} are needed; start them with `harness.worker ADDRESS`"
            )
        return members

    def members(self) -> list[Member]:
        """Return the workers that are there now, with what each offers; raises UsageError for one
        of another version of harness."""
        found = []
        for address in sorted(self.alive()):
            with contextlib.suppress(WorkerLost):
                offer: Offer = wire.decode(Offer, self._called(address, worker.offer))
                _require_version(address, offer)
                found.append(Member(address, offer, self._builders[address]))
        return found

    def alive(self) -> frozenset[str]:
        """Return the addresses of the workers from which the scheduler has heard lately."""
        with self._lock:
            if time.monotonic() - self._looked_s >= _LOOK_S:
                info = self._client.scheduler_info(n_workers=-1)["workers"]
                heard = {address: one["last_seen"] for address, one in info.items()}
                newest = max(heard.values(), default=0.0)
                self._builders = {
                    address: int(info[address]["resources"].get(BUILD, 0))
                    for address, at_s in heard.items()
                    if newest - at_s < _SILENT_S
                }
                self._looked_s = time.monotonic()
            return frozenset(self._builders)

    def call(self, address: str, method: str, message: bytes) -> bytes:
        """Call a method of a worker's agent; raises WorkerLost."""
        return self._called(address, worker.call, method, message)

    def build(self, message: bytes) -> bytes:
        """Compile on any worker that compiles; raises WorkerLost where none is left."""
        return self._called(None, worker.call, "build", message)

    def store(self, message: bytes) -> None:
        """Keep the files of a bundle on all workers."""
        for address in self.alive():
            with contextlib.suppress(WorkerLost):
                self.call(address, "store", message)

    def _called(self, address: str | None, function: Callable[..., bytes], *words: object) -> bytes:
        distributed = load_distributed()
        where: dict[str, Any] = (
            {"resources": {BUILD: 1}} if address is None else {"workers": [address]}
        )
        future = self._client.submit(function, *words, pure=False, **where)
        try:
            while True:
                try:
                    return bytes(future.result(timeout=_LOOK_S))
                except distributed.TimeoutError:
                    if address is not None and address not in self.alive():
                        raise WorkerLost(f"the worker {address} was lost") from None
                    if not self.alive():
                        raise WorkerLost("no worker is left in the cluster") from None
                except distributed.KilledWorker as error:
                    raise WorkerLost(f"workers died of a request: {error}") from None
        finally:
            with contextlib.suppress(Exception):
                future.release()

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close()


@dataclass(frozen=True)
class AgentChannel:
    """Carries requests to the agent of one worker."""

    cluster: Cluster
    address: str

    def measure(self, request: bytes) -> bytes:
        """Carry out a call of a device."""
        return self.cluster.call(self.address, "measure", request)

    def store(self, bundle: bytes) -> bytes:
        """Keep the files of a bundle."""
        return self.cluster.call(self.address, "store", bundle)


def _require_version(address: str, offer: Offer) -> None:
    if offer.harness_version != harness.__version__:
        raise UsageError(
            f"the worker {offer.host_name} ({address}) has harness {offer.harness_version}, this "
            f"machine {harness.__version__}; install the same version"
        )
