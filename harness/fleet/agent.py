"""What a worker offers, and does for a driver: it builds and measures on its machine's devices.

An Agent is a Dask actor: Dask makes it on the worker, sends it the driver's calls, and drops it
when the driver has left. As on one machine, child processes run the configurations, so that one
that crashes or hangs ends neither the agent nor its work for others.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import platform
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import harness
from harness.core.errors import BackendUnavailable, DeviceBusy, HarnessError, SpecError, UsageError
from harness.core.machine import processor, usable_cores
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.fleet.bundle import Bundle
from harness.measure.choose import fitted_backend, fitted_to, open_kernels, open_measurer
from harness.measure.devices import ALL, AUTO, Backend, choose_devices
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.measurer import Measurer
from harness.measure.process.device_lock import locked
from harness.space import ConstrainedSpace
from harness.space_file import Spec

_THREADS = 256
"""A device needs a thread, and another where its driver closes it meanwhile."""


# ------------------------------------------------------------------------------------ the offer


@dataclass(frozen=True)
class FleetDevice:
    """A device of the machine `host_name`; `uuid` identifies it in the whole fleet.

    Without a backend it is the machine itself, which runs programs and Python callables, whose
    framework chooses the device. The driver adds the `address` of its worker.
    """

    uuid: str
    model: str
    host_name: str
    backend: Backend | None
    address: str = ""

    @property
    def name(self) -> str:
        """The name for messages."""
        if self.backend is None or self.backend.device is None:
            return self.host_name
        return f"{self.host_name} device {self.backend.device.index}"


@dataclass(frozen=True)
class Offer:
    """What a worker has: its devices, and why it has no others."""

    harness_version: str
    devices: tuple[FleetDevice, ...]
    unavailable: tuple[str, ...] = ()


def make_offer(names: Sequence[str]) -> Offer:
    """Offer the devices of this machine with these names, or all equal ones, and the machine.

    Raises UsageError for an unknown name, BackendUnavailable where a named device cannot be used.
    """
    host_name = platform.node()
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Two processes of one machine may offer the same device, and must call it the same; two
    # machines may have the same name.
    machine = f"{host_name}/{boot}"
    unavailable: tuple[str, ...] = ()
    devices: list[FleetDevice] = []
    try:
        for backend in choose_devices(AUTO, names or [ALL]):
            device = backend.device
            assert device is not None, "a device of this machine has a name"
            uuid = device.uuid or f"{machine}/{backend.language}:{device.index}"
            devices.append(FleetDevice(uuid, device.name, host_name, backend))
    except BackendUnavailable as error:
        if names:
            raise
        unavailable = (f"only programs and Python callables run here: {error}",)
    model = f"{processor() or platform.machine()}, {usable_cores()} cores"
    devices.append(FleetDevice(machine, model, host_name, None))
    return Offer(harness.__version__, tuple(devices), unavailable)


_offers: list[Offer] = []


def offer(names: Sequence[str] = ()) -> Offer:
    """Return what this process offers, which the first call decides.

    Raises BackendUnavailable under Dask's nanny, and what make_offer raises.
    """
    if multiprocessing.current_process().daemon:
        raise BackendUnavailable(
            "Dask's nanny started it, and lets programs use one thread (OMP_NUM_THREADS); start "
            "it with `harness worker ADDRESS`, or with `dask worker --no-nanny`"
        )
    with _changing:
        if not _offers:
            _offers.append(make_offer(names))
        return _offers[0]


# ------------------------------------------------------------------------------------ the agent


@dataclass(frozen=True)
class OpenedDevice:
    """What a driver must know of a device; `fitted` is the space without the flags that the
    compiler there refuses."""

    environment: Environment
    limits: DeviceLimits | None
    compiler: str | None
    notices: tuple[str, ...]
    fitted: Spec


@dataclass(frozen=True)
class Announced:
    """Earlier measurements of inputs, and configurations to build.

    They are sent with the next measurement, since a message costs the driver a millisecond.
    """

    recalled: list[tuple[Input, Sequence[Measurement]]] = field(default_factory=list)
    expected: list[Config] = field(default_factory=list)


class Agent:
    """Measures on devices of this worker for one driver.

    It has threads, since Dask has only one for all actors of a worker.
    """

    _spec: Spec  # once it is stored
    _fitted: Spec  # once a device is open

    def __init__(self, driver: str) -> None:
        """`driver` is the campaign, by the name of its database."""
        self.driver = driver
        self.in_use: set[str] = set()  # the UUIDs of its devices
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="harness-agent")
        self._opening = threading.Lock()
        self._spaces: dict[Input, ConstrainedSpace] = {}
        self._measurers: dict[str, Measurer] = {}  # by UUID; the first one has the builds
        self._has_ended = False
        self._open = ExitStack()
        # Dask drops an agent in its event loop, which must not wait for processes that end.
        end = threading.Thread(target=_ended, args=(self._open,), daemon=True)
        weakref.finalize(self, end.start).atexit = False
        _agents.add(self)

    async def run(self, method: str, *args: object) -> Any:
        """Call another method in a thread. A fault of this worker is raised as
        BackendUnavailable, since the user's space and options have none."""
        function = partial(getattr(self, method), *args)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        except (UsageError, SpecError, OSError) as error:
            raise BackendUnavailable(f"the worker on {platform.node()}: {error}") from None
        except HarnessError:
            raise
        except Exception as error:  # of a class that the driver may lack
            if self._has_ended:
                node = platform.node()
                raise BackendUnavailable(f"the devices of {node} were closed meanwhile") from None
            raise RuntimeError(f"{type(error).__name__}: {error}") from None

    def store(self, bundle: Bundle) -> None:
        """Keep the user's files, and read the space."""
        self._spec = bundle.unpacked()

    def open(self, uuid: str) -> OpenedDevice:
        """Open the measurer of a device.

        Ends what still runs for an earlier process of the same campaign. Raises DeviceBusy where
        another campaign measures on the device, BackendUnavailable.
        """
        device = self._device(uuid)
        with _changing:
            for user in list(_agents):
                if user is self or uuid not in user.in_use:
                    continue
                if user.driver != self.driver:
                    raise DeviceBusy(
                        f"another campaign measures on {device.model} of {device.host_name}, that "
                        f"of {user.driver}",
                        "Wait until it ends (tune: --wait SECONDS), or name another device with "
                        "--device",
                    )
                user.end()
            self.in_use.add(uuid)
        try:
            with self._opening:
                measurer = self._measurer(device)
                if not self._measurers:
                    self._fitted = fitted_to(self._spec, measurer)
                self._measurers[uuid] = measurer
        except BaseException:
            self.in_use.discard(uuid)
            raise
        return OpenedDevice(
            measurer.environment,
            measurer.limits,
            measurer.compiler,
            tuple(measurer.notices),
            self._fitted,
        )

    def _device(self, uuid: str) -> FleetDevice:
        for device in offer().devices:
            if device.uuid == uuid:
                return device
        raise BackendUnavailable(f"this worker has no device {uuid}")

    def _measurer(self, device: FleetDevice) -> Measurer:
        """Open a measurer, which is closed with this agent; those of kernels share their builds."""
        measurer: Measurer
        if device.backend is None:
            self._open.enter_context(locked(device.uuid, device.model))
            measurer, _ = open_measurer(self._spec, AUTO)
        else:
            first = next(iter(self._measurers.values()), None)
            measurer = open_kernels(
                self._spec,
                fitted_backend(self._spec, device.backend),
                equal=first if isinstance(first, KernelMeasurer) else None,
                devices=sum(listed.backend is not None for listed in offer().devices),
            )
        self._open.callback(measurer.close)
        return measurer

    def measure(
        self, uuid: str, announced: Announced, method: str, problem: Input, *args: object
    ) -> Any:
        """Call `measure` or `measure_interleaved` of a measurer, on an input."""
        measurer = self._measurers[uuid]
        for earlier in announced.recalled:
            measurer.recall(*earlier)
        if problem not in self._spaces:
            self._spaces[problem] = ConstrainedSpace.of(
                self._fitted, problem, measurer.limits, measurer.compiler
            )
        space = self._spaces[problem]
        if announced.expected:
            # What is built differs by input only where nothing is built in advance.
            measurer.expect(space, announced.expected)
        return getattr(measurer, method)(space, problem, *args)

    def ask(self, uuid: str, question: str, *args: object) -> Any:
        """Call another method of a measurer, which answers without measuring."""
        return getattr(self._measurers[uuid], question)(*args)

    def close(self, uuid: str) -> None:
        """Leave a device to others, and end its processes; those of the builds with the last."""
        if self.in_use <= {uuid}:
            self.end()
        elif uuid != next(iter(self._measurers)):
            self._measurers[uuid].close()
        self.in_use.discard(uuid)

    def end(self) -> None:
        """End all processes; calls that wait for them raise."""
        self._has_ended = True
        _ended(self._open)
        self._measurers.clear()
        self.in_use.clear()


def _ended(opened: ExitStack) -> None:
    with _changing:
        opened.close()


_changing = threading.RLock()
_agents: weakref.WeakSet[Agent] = weakref.WeakSet()
"""The agents of this process, until Dask drops them."""


def end_agents() -> None:
    """End the child processes of all agents of this process."""
    for agent in list(_agents):
        agent.end()
    _offers.clear()
