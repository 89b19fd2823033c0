"""Open a measurer for each device of a fleet that can measure a space, also for those of workers
that join during a campaign."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from harness.core.errors import BackendUnavailable, DeviceBusy, HarnessError, UsageError
from harness.core.records import Config, Input, Measurement
from harness.core.text import counted
from harness.fleet.agent import Agent, FleetDevice, OpenedDevice
from harness.fleet.bundle import pack
from harness.fleet.cluster import Actor, Cluster, NoWorker, check_address
from harness.measure.devices import names_in
from harness.measure.measurer import Measurer
from harness.measure.occasions import ONE_OCCASION
from harness.space import Space
from harness.space_file import Spec

T = TypeVar("T")

_WAIT_S = 60.0
"""The first worker is given so long to come, and a device whose driver was killed to end its last
measurement."""

_SAY_S = 1.0
_WAIT_LOOK_S = 0.5
_LOOK_S = 2.0
_ENDING_S = 5.0  # a device that takes longer to open is free again once its worker notices
_AGAIN_S = 30.0
"""A device that cannot be opened, since another campaign uses it, is tried again after so long."""


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
    """Open a measurer for each device of a cluster; close them inside the block.

    Raises UsageError and BackendUnavailable.
    """
    check_address(request.address, request.insecure)
    cluster = Cluster.connect(request.address)
    try:
        fleet = Fleet(spec, request, cluster)
        devices = _waited_for(cluster.devices, request.say)
        _waited_for(lambda: fleet.open(devices), request.say)
        yield fleet
    finally:
        cluster.close()


def _waited_for(attempt: Callable[[], T], say: Callable[[str], None]) -> T:
    """Return what an attempt returns; make it again for a while, and say so, where workers have not
    joined yet, or all devices are used by other drivers, which may have ended."""
    begin_s = time.monotonic()
    is_said = False
    while True:
        try:
            return attempt()
        except (NoWorker, DeviceBusy) as error:
            now_s = time.monotonic() - begin_s
            if now_s >= _WAIT_S:
                raise
            if not is_said and now_s >= _SAY_S:
                say(f"waiting for up to {_WAIT_S:g} s: {error}")
                is_said = True
        time.sleep(_WAIT_LOOK_S)


class Fleet:
    """The devices of a cluster that can measure a space.

    `measurers` are those of the devices that were there, by the devices' names, and `skipped` says
    why others were not used. A thread, which begins with the first call of `joined`, opens the
    devices that join.
    """

    def __init__(self, spec: Spec, request: FleetRequest, cluster: Cluster) -> None:
        self.measurers: dict[str, Measurer] = {}
        self.skipped: list[str] = []
        self._spec = spec
        self._request = request
        self._cluster = cluster
        self._bundle = pack(spec)
        self._names = [name.casefold() for name in names_in(request.names)]
        self._agents: dict[str, Actor] = {}  # by the worker's address
        self._model = ""
        self._used: dict[str, str] = {}  # the address of the worker of a device in use, by its UUID
        self._offered: dict[str, Sequence[FleetDevice]] = {}  # by the worker's address
        self._there: Collection[str] = ()  # the workers that were there when the command began
        self._next_s: dict[str, float] = {}  # when a device is tried again, by its UUID
        self._joined: queue.SimpleQueue[tuple[str, Measurer]] = queue.SimpleQueue()
        self._unused: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._looking: threading.Thread | None = None

    # ------------------------------------------------------------------ devices that are there

    def open(self, connected: Sequence[FleetDevice]) -> None:
        """Open a measurer for each device that fits and can be opened.

        Raises UsageError for devices of several models, and BackendUnavailable where none can be
        opened; this is DeviceBusy where other campaigns use all.
        """
        self._there = {device.address for device in connected}
        devices = self._chosen(connected)[: self._request.most]
        for device in devices:
            name = device.name
            if name in self.measurers:
                name = f"{name}, {device.uuid}"
            try:
                self.measurers[name] = self._opened(device)
            except BackendUnavailable as error:
                if device is devices[-1] and not self.measurers:
                    self.skipped.clear()
                    raise
                self.skipped.append(f"{name} is not used: {error}")
            except BaseException:
                for measurer in reversed(self.measurers.values()):
                    measurer.close()
                raise

    def _chosen(self, connected: Sequence[FleetDevice]) -> list[FleetDevice]:
        """Return the devices to measure on, of one model, each of them once."""
        once = {device.uuid: device for device in reversed(connected)}
        devices = [d for d in connected if once[d.uuid] is d and self._is_kind(d)]
        fitting = [device for device in devices if self._fits(device)]
        if not fitting:
            listed = "\n".join(f"  {device.name}: {device.model}" for device in devices)
            languages = " or ".join(self._spec.sources) or "programs"
            raise BackendUnavailable(
                f"no device of the cluster runs {languages}"
                f"{' and has that name' if self._names else ''}; "
                f"{counted(len(devices), 'device')}:\n{listed}"
            )
        models = {device.model for device in fitting}
        if len(models) > 1:
            raise UsageError(
                "the cluster has devices of several models, whose times cannot be compared; choose "
                "one with --device, and run the command once for each: "
                f"{', '.join(sorted(models))}"
            )
        self._model = fitting[0].model
        return fitting

    def _is_kind(self, device: FleetDevice) -> bool:
        """Say whether it is a machine, where the space tunes no kernel of a device's language."""
        spec = self._spec
        return (device.backend is None) == (spec.program is not None or spec.framework is not None)

    def _fits(self, device: FleetDevice) -> bool:
        """Say whether it can measure the space, and is named where devices are named."""
        words = f"{device.model} {device.uuid} {device.name}".casefold()
        has_source = device.backend is None or device.backend.language in self._spec.sources
        is_named = not self._names or any(name in words for name in self._names)
        return self._is_kind(device) and has_source and is_named

    def _opened(self, device: FleetDevice) -> _RemoteMeasurer:
        """Open the measurer of a device; those of one worker share an agent."""
        agent = self._agents.get(device.address)
        if agent is None or agent.is_lost:
            agent = self._cluster.start(device.address, Agent, self._request.driver)
            agent.call("run", "store", self._bundle)
            self._agents[device.address] = agent
        measurer = _RemoteMeasurer(agent, device.uuid)
        self._used[device.uuid] = device.address
        return measurer

    # -------------------------------------------------------------------- devices that join

    def joined(self) -> dict[str, Measurer]:
        """Return the measurers of devices that joined since the last call, by their names."""
        if self._looking is None:
            self._looking = threading.Thread(target=self._look, daemon=True)
            self._looking.start()
        return dict(self._joined.get() for _ in range(self._joined.qsize()))

    def unused(self) -> list[str]:
        """Say which devices joined since the last call and are not used, and why."""
        return [self._unused.get() for _ in range(self._unused.qsize())]

    def close(self) -> None:
        """Open no more devices, and close those that nobody uses yet."""
        self._is_over.set()
        if self._looking is not None:
            self._looking.join(_ENDING_S)
        while not self._joined.empty():
            self._joined.get()[1].close()

    def _look(self) -> None:
        try:
            while not self._is_over.wait(_LOOK_S):
                for joined in self.open_new():
                    self._joined.put(joined)
        except Exception as error:
            # At the end the cluster is closed. Those who measure report a scheduler that is lost.
            if not self._is_over.is_set() and not isinstance(error, HarnessError):
                raise

    def open_new(self) -> Iterator[tuple[str, Measurer]]:
        """Open the devices of the same model that are not in use, nor tried lately; yield their
        names and measurers.

        A device is free again when its worker has left, also if this one comes back: a worker that
        was stopped goes on at the same address.
        """
        alive = self._cluster.alive()
        self._used = {uuid: address for uuid, address in self._used.items() if address in alive}
        for address in sorted(alive - self._offered.keys()):
            self._ask(address)
        for device in [d for address in alive for d in self._offered.get(address, ())]:
            if (
                device.uuid not in self._used
                and len(self._used) < self._request.most
                and time.monotonic() >= self._next_s.get(device.uuid, 0.0)
                and not self._is_over.is_set()
            ):
                try:
                    yield device.name, self._opened(device)
                except HarnessError:
                    self._next_s[device.uuid] = time.monotonic() + _AGAIN_S

    def _ask(self, address: str) -> None:
        """Note the devices of a worker that fit; say which others have joined with it."""
        try:
            devices = [device for device in self._cluster.devices_of(address) if self._fits(device)]
        except UsageError as error:  # of another version
            self._offered[address] = ()
            self._unused.put(f"a worker has joined and is not used: {error}")
            return
        except HarnessError:  # lost, perhaps for a moment: it is asked again
            return
        self._offered[address] = [device for device in devices if device.model == self._model]
        for device in devices:
            if device.model != self._model and address not in self._there:
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
        opened = agent.call("run", "open", uuid)
        if not isinstance(opened, OpenedDevice):
            raise BackendUnavailable(f"the worker answered with a {type(opened).__name__}")
        self.environment = opened.environment
        self.limits = opened.limits
        self.compiler = opened.compiler
        self.notices = opened.notices
        self._fitted = opened.fitted
        # Sent with the next call, since a message costs the driver a millisecond.
        self._recalled: list[tuple[Input, tuple[Measurement, ...]]] = []
        self._expected: list[Config] = []

    def fitted(self, spec: Spec) -> Spec:
        narrowed = {name: getattr(self._fitted, name) for name in ("parameters", "baselines")}
        return dataclasses.replace(spec, notices=self._fitted.notices, **narrowed)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        self._expected += configs

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        self._recalled.append((problem, tuple(measured)))

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        digest: str | None = self._agent.call(
            "run", "ask", self._uuid, "data_sha256", problem, stored
        )
        return digest

    def weak_tests(self, problem: Input) -> Sequence[str]:
        weaknesses: Sequence[str] = self._agent.call(
            "run", "ask", self._uuid, "weak_tests", problem
        )
        return weaknesses

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure a configuration on the worker; raises BackendUnavailable where it is lost."""
        return self._asked(problem, [config], "measure", config, best_s)[0]

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the worker, interleaved."""
        asked = "measure_interleaved", tuple(configs), rounds, tuple(seeds)
        return self._asked(problem, configs, *asked)

    def close(self) -> None:
        """Leave the device to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._agent.call("run", "close", self._uuid)

    def _asked(
        self, problem: Input, configs: Sequence[Config], method: str, *args: object
    ) -> list[Measurement]:
        """Return the measurements of configurations; raises BackendUnavailable for others."""
        announced = self._recalled, self._expected
        self._recalled, self._expected = [], []
        asked = self._uuid, announced, method, problem, *args
        answer = self._agent.call("run", "measure", *asked)
        try:
            measured = [answer] if isinstance(answer, Measurement) else list(answer)
            given = [(each.config, each.input) for each in measured]
        except (AttributeError, TypeError, ValueError):
            raise BackendUnavailable(f"the worker answered with {answer!r:.100}") from None
        if given != [(config, problem) for config in configs]:
            raise BackendUnavailable("the worker answered for other configurations or inputs")
        return measured
