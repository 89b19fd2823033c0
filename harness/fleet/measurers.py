"""Open a measurer for each device of a fleet that can measure a space, also for those of workers
that join during a campaign."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.core.errors import BackendUnavailable, HarnessError, UsageError
from harness.core.locks import patiently
from harness.core.records import Config, Input, Measurement
from harness.core.text import counted
from harness.fleet.agent import Agent, Announced, FleetDevice, OpenedDevice
from harness.fleet.bundle import pack
from harness.fleet.cluster import Actor, Cluster, check_address
from harness.measure.devices import names_in
from harness.measure.measurer import Measurer
from harness.measure.occasions import ONE_OCCASION
from harness.space import Space
from harness.space_file import Spec

_WAIT_S = 60.0
"""The driver waits so long for the first worker, and for a device whose driver was killed, which
ends its last measurement."""

_ENDING_S = 5.0  # a device that takes longer to open is free again once its worker notices

_AGAIN_S = 30.0
"""A device that could not be opened is tried again after so long."""


@dataclass(frozen=True)
class FleetRequest:
    """What a driver wants of a cluster.

    `address` is the scheduler's. Of devices of several models, `names` choose those
    whose model, UUID or machine is named; at most `most` devices are used.
    `driver` identifies the campaign to the workers. `say` shows what is waited for.
    """

    address: str
    names: Sequence[str]
    most: int
    insecure: bool
    driver: str
    say: Callable[[str], None]


@contextmanager
def open_fleet(spec: Spec, request: FleetRequest) -> Iterator[Fleet]:
    """Open a measurer for each device of a cluster; the caller closes them inside the block.

    Raises UsageError and BackendUnavailable.
    """
    check_address(request.address, request.insecure)
    cluster = Cluster.connect(request.address)
    try:
        fleet = Fleet(spec, request, cluster)
        end_s = time.monotonic() + _WAIT_S
        devices = patiently(cluster.devices, end_s, request.say)
        patiently(lambda: fleet.open(devices), end_s, request.say)
        yield fleet
    finally:
        cluster.close()


class Fleet:
    """The devices of a cluster that can measure a space.

    `measurers` are those of the devices that were there, by the devices' names, and `skipped` says
    why others were not used. A thread opens the devices that join, between the calls of `joined`.
    """

    def __init__(self, spec: Spec, request: FleetRequest, cluster: Cluster) -> None:
        self.measurers: dict[str, Measurer] = {}
        self.skipped: list[str] = []
        self._spec = spec
        self._request = request
        self._cluster = cluster
        self._bundle = pack(spec)
        self._model = ""
        self._agents: dict[str, Actor] = {}  # by the worker's address
        self._offered: dict[str, list[FleetDevice]] = {}  # by the worker's address
        self._used: dict[str, str] = {}  # the address of the worker of a device in use, by its UUID
        self._next_s: dict[str, float] = {}  # when a device is tried again, by its UUID
        self._unused: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(1)
        self._opening: Future[dict[str, Measurer]] | None = None

    # ------------------------------------------------------------------ devices that are there

    def open(self, connected: Sequence[FleetDevice]) -> None:
        """Open a measurer for each device that fits and can be opened.

        Raises UsageError for devices of several models, and BackendUnavailable where none can be
        opened; this is DeviceBusy where other campaigns use all.
        """
        self._offered.clear()
        self._next_s.clear()
        for device in connected:
            self._offered.setdefault(device.address, []).append(device)
        fitting = [device for device in connected if self._fits(device)]
        if not fitting:
            raise self._nothing_fits(connected)
        self._model = fitting[0].model
        models = {device.model for device in fitting}
        if len(models) > 1:
            raise UsageError(
                "the cluster has devices of several models, whose times cannot be compared; choose "
                "one with --device, and run the command once for each: "
                f"{', '.join(sorted(models))}"
            )
        failure: BackendUnavailable | None = None
        for device in fitting:
            if not self._is_free(device):
                continue
            name = device.name
            if name in self.measurers:
                name = f"{name}, {device.uuid}"
            try:
                self.measurers[name] = self._opened(device)
            except BackendUnavailable as error:
                failure = error
                self.skipped.append(f"{name} is not used: {error}")
        if failure is not None and not self.measurers:
            self.skipped.clear()
            raise failure

    def _fits(self, device: FleetDevice) -> bool:
        """Say whether it can measure the space, and is named where devices are named.

        A space of a program or a Python callable needs a machine, a space of kernels a device.
        """
        if device.backend is None:
            runs = self._needs_machine
        else:
            runs = device.backend.language in self._spec.sources
        names = names_in(self._request.names)
        words = f"{device.model} {device.uuid} {device.name}".casefold()
        return runs and (not names or any(name.casefold() in words for name in names))

    @property
    def _needs_machine(self) -> bool:
        """Whether the space tunes a program or a Python callable."""
        return self._spec.program is not None or self._spec.framework is not None

    def _nothing_fits(self, connected: Iterable[FleetDevice]) -> BackendUnavailable:
        """Return the error that lists the devices of the kind that the space needs."""
        lines: dict[str, str] = {}
        for device in connected:
            if (device.backend is None) == self._needs_machine:
                lines[device.uuid] = f"\n  {device.name}: {device.model}"
        languages = " or ".join(self._spec.sources) or "programs"
        named = " and has that name" if self._request.names else ""
        return BackendUnavailable(
            f"no device of the cluster runs {languages}{named}; {counted(len(lines), 'device')}:"
            f"{''.join(lines.values())}"
        )

    def _is_free(self, device: FleetDevice) -> bool:
        """Say whether a device that fits may be opened now."""
        return (
            device.uuid not in self._used
            and len(self._used) < self._request.most
            and time.monotonic() >= self._next_s.get(device.uuid, 0.0)
        )

    def _opened(self, device: FleetDevice) -> _RemoteMeasurer:
        """Open the measurer of a device; those of one worker share an agent."""
        self._next_s[device.uuid] = time.monotonic() + _AGAIN_S  # unless it opens
        agent = self._agents.get(device.address)
        if agent is None or agent.is_lost:
            agent = self._cluster.start(device.address, Agent, self._request.driver)
            agent.call("store", self._bundle)
            self._agents[device.address] = agent
        measurer = _RemoteMeasurer(agent, device.uuid)
        self._used[device.uuid] = device.address
        del self._next_s[device.uuid]
        return measurer

    # -------------------------------------------------------------------- devices that join

    def joined(self) -> dict[str, Measurer]:
        """Return the measurer of a device that joined since the last call, if any, by its name;
        begin to open the next one."""
        measurers: dict[str, Measurer] = {}
        if self._opening is not None:
            if not self._opening.done():
                return measurers
            measurers = self._opening.result()
        self._opening = self._threads.submit(self.open_next)
        return measurers

    def unused(self) -> list[str]:
        """Say which devices joined since the last call and are not used, and why."""
        return [self._unused.get() for _ in range(self._unused.qsize())]

    def close(self) -> None:
        """Open no more devices, and close the one that nobody uses yet."""
        self._threads.shutdown(wait=False)
        if self._opening is not None and wait([self._opening], _ENDING_S).done:
            with contextlib.suppress(HarnessError):  # of a scheduler that is lost
                for measurer in self._opening.result().values():
                    measurer.close()

    def open_next(self) -> dict[str, Measurer]:
        """Open a device of the same model that is not in use, nor was tried lately; return its
        measurer by its name, or nothing.

        A device is free again when its worker has left, also if this one comes back: a worker that
        was stopped goes on at the same address.
        """
        alive = self._cluster.alive()
        self._used = {uuid: address for uuid, address in self._used.items() if address in alive}
        for address in sorted(alive - self._offered.keys()):
            self._ask(address)
        for address in alive & self._offered.keys():
            for device in self._offered[address]:
                if device.model == self._model and self._fits(device) and self._is_free(device):
                    with contextlib.suppress(HarnessError):
                        return {device.name: self._opened(device)}
        return {}

    def _ask(self, address: str) -> None:
        """Note the devices of a worker that has joined; say which of another model it has."""
        try:
            devices = self._cluster.devices_of(address)
        except UsageError as error:  # of another version
            self._offered[address] = []
            self._unused.put(f"a worker has joined and is not used: {error}")
            return
        except HarnessError:  # lost, perhaps for a moment: it is asked again
            return
        self._offered[address] = devices
        for device in devices:
            if device.model != self._model and self._fits(device):
                self._unused.put(
                    f"{device.name} has joined and is not used: it is a {device.model}, and this "
                    f"command tunes {self._model}"
                )


class _RemoteMeasurer:
    """The measurer of a worker's device; a `harness.measure.measurer.Measurer`."""

    is_replay = False

    def __init__(self, agent: Actor, uuid: str) -> None:
        """Open the device; raises BackendUnavailable, DeviceBusy where another campaign measures on
        it."""
        self._agent = agent
        self._uuid = uuid
        opened: OpenedDevice = agent.call("open", uuid)
        self.environment = opened.environment
        self.limits = opened.limits
        self.compiler = opened.compiler
        self.notices = opened.notices
        self._fitted = opened.fitted
        self._announced = Announced()

    def fitted(self, spec: Spec) -> Spec:
        return dataclasses.replace(
            spec,
            parameters=self._fitted.parameters,
            baselines=self._fitted.baselines,
            notices=self._fitted.notices,
        )

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        self._announced.expected.extend(configs)

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        self._announced.recalled.append((problem, tuple(measured)))

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        digest: str | None = self._agent.call("ask", self._uuid, "data_sha256", problem, stored)
        return digest

    def weak_tests(self, problem: Input) -> Sequence[str]:
        weaknesses: Sequence[str] = self._agent.call("ask", self._uuid, "weak_tests", problem)
        return weaknesses

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure a configuration on the worker; raises BackendUnavailable where it is lost."""
        measured: Measurement = self._asked("measure", problem, config, best_s)
        return measured

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the worker, interleaved."""
        measured: list[Measurement] = self._asked(
            "measure_interleaved", problem, tuple(configs), rounds, tuple(seeds)
        )
        return measured

    def _asked(self, method: str, problem: Input, *args: object) -> Any:
        """Call a method that measures, with what was announced since the last such call."""
        announced = self._announced
        self._announced = Announced()
        return self._agent.call("measure", self._uuid, announced, method, problem, *args)

    def close(self) -> None:
        """Leave the device to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._agent.call("close", self._uuid)
