"""The devices of workers that join a cluster while a campaign runs."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from harness.core.errors import HarnessError, UsageError
from harness.fleet.cluster import Cluster, FleetDevice
from harness.measure.measurer import Measurer

_LOOK_S = 2.0
_ENDING_S = 5.0  # a device that takes longer to open is free again once its worker notices
_AGAIN_S = 30.0
"""A device that cannot be opened, since another campaign uses it, is tried again after so long."""


class LateDevices:
    """Opens the devices that join, in a thread of its own, which begins with the first call."""

    def __init__(
        self,
        cluster: Cluster,
        open_device: Callable[[FleetDevice], Measurer],
        used: Sequence[FleetDevice],
        most: int,
        there: Collection[str] = (),
    ) -> None:
        """`used` are the devices of this model in use; with them there are at most `most`. Devices
        of other models are reported, but not those of the workers that were `there`, by their
        addresses, when the command began."""
        self._cluster = cluster
        self._open = open_device
        self._model = used[0].offered.name
        self._is_program = used[0].offered.backend is None
        self._used = {device.offered.uuid: device.address for device in used}
        self._most = most
        self._offered: dict[str, Sequence[FleetDevice]] = {}  # by the worker's address
        self._next_s: dict[str, float] = {}  # when a device is tried again, by its UUID
        self._opened: queue.SimpleQueue[tuple[str, Measurer]] = queue.SimpleQueue()
        self._there = there
        self._unused: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._looking: threading.Thread | None = None

    def joined(self) -> dict[str, Measurer]:
        """Return the measurers of devices that joined since the last call, by their names."""
        if self._looking is None:
            self._looking = threading.Thread(target=self._look, daemon=True)
            self._looking.start()
        return dict(self._taken())

    def _taken(self) -> Iterator[tuple[str, Measurer]]:
        while not self._opened.empty():
            yield self._opened.get()

    def unused(self) -> list[str]:
        """Say which devices joined since the last call and are not used, and why."""
        return [self._unused.get() for _ in range(self._unused.qsize())]

    def close(self) -> None:
        """Open no more devices, and close those that nobody uses yet."""
        self._is_over.set()
        if self._looking is not None:
            self._looking.join(_ENDING_S)
        for _, measurer in self._taken():
            measurer.close()

    def _look(self) -> None:
        try:
            while not self._is_over.wait(_LOOK_S):
                for device in self._new():
                    self._try(device)
        except Exception as error:
            # At the end the cluster is closed. Those who measure report a scheduler that is lost.
            if not self._is_over.is_set() and not isinstance(error, HarnessError):
                raise

    def _new(self) -> Iterator[FleetDevice]:
        """Yield the devices of the same model that are not in use, nor tried lately.

        A device is free again when its worker has left, also if this one comes back: a worker that
        was stopped goes on at the same address.
        """
        alive = self._cluster.alive()
        self._used = {uuid: address for uuid, address in self._used.items() if address in alive}
        for address in sorted(alive - self._offered.keys()):
            try:
                offered = self._cluster.member(address).devices
                self._offered[address] = [
                    each for each in offered if (each.offered.backend is None) == self._is_program
                ]
            except UsageError as error:  # of another version
                self._offered[address] = ()
                self._unused.put(f"a worker has joined and is not used: {error}")
            except HarnessError:  # lost, perhaps for a moment: it is asked again
                continue
            if address not in self._there:
                self._refuse_other_models(address)
        for address in alive:
            for device in self._offered.get(address, ()):
                uuid = device.offered.uuid
                in_use = sum(used in alive for used in self._used.values())
                if (
                    device.offered.name == self._model
                    and self._used.get(uuid) not in alive
                    and in_use < self._most
                    and time.monotonic() >= self._next_s.get(uuid, 0.0)
                    and not self._is_over.is_set()
                ):
                    yield device

    def _refuse_other_models(self, address: str) -> None:
        """Note the devices of a worker that has joined whose model this command does not tune."""
        for device in self._offered[address]:
            if device.offered.name != self._model:
                self._unused.put(
                    f"{device.name} has joined and is not used: it is a {device.offered.name}, and "
                    f"this command tunes {self._model}"
                )

    def _try(self, device: FleetDevice) -> None:
        uuid = device.offered.uuid
        try:
            measurer = self._open(device)
        except HarnessError:
            self._next_s[uuid] = time.monotonic() + _AGAIN_S
            return
        self._used[uuid] = device.address
        self._opened.put((device.name, measurer))
